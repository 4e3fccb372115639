"""dp-sgd: clipped per-example gradients, summed with Gaussian noise over Poisson batches."""

import logging
import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from dp_accounting import DpEvent
from pydantic import Field, model_validator
from torch import Tensor

from methods.base import Problem, Released, Run
from methods.bounds import Amount, Count, Positive, Probability
from methods.gradients import make_engine
from methods.gradients.params import ClippingParams
from methods.gradients.tally import Tally
from methods.noise import Noise, SecureNoise, SeededNoise
from methods.optimizer import OptimizerParams, make_optimizer
from methods.sampling import PoissonSampler, poisson_event, poisson_rate
from workloads.base import Records
from workloads.errors import SpecError

log = logging.getLogger(__name__)


class DpSgdParams(ClippingParams, OptimizerParams):
    """Parameters of dp-sgd. Give epsilon or noise_multiplier; a planned task holds both."""

    epsilon: Positive | None = Field(default=None, description="Target epsilon; inf trains without noise.")
    delta: Probability = Field(default=1e-5, description="Target delta.")
    noise_multiplier: Amount | None = Field(
        default=None, description="Noise standard deviation over clip; solved for from epsilon."
    )
    clip: Positive = Field(default=1.0, description="Largest L2 norm of one example's gradient.")
    batch_size: Count = Field(
        default=64, description="Expected examples per step; each member joins with batch_size / n."
    )

    @model_validator(mode="after")
    def _one_privacy_level(self) -> "DpSgdParams":
        epsilon, noise = self.epsilon, self.noise_multiplier
        if epsilon is None and noise is None:
            raise ValueError("give epsilon (> 0, or inf) or noise_multiplier (>= 0); both are missing")
        if epsilon is not None and noise is not None and (epsilon == math.inf) != (noise == 0):
            raise ValueError(
                "epsilon = inf means noise_multiplier = 0 and nothing else does, "
                f"got epsilon = {epsilon} and noise_multiplier = {noise}"
            )
        if self.clip == math.inf and (noise or epsilon not in (None, math.inf)):
            raise ValueError(
                "clip = inf bounds nobody's influence, so no noise is enough; "
                "give a finite clip, or epsilon = inf"
            )
        return self


class DpSgd:
    """Differentially private SGD (Abadi et al. 2016): noise once, on the sum of clipped gradients."""

    version: ClassVar[str] = "3"
    about: ClassVar[str] = "DP-SGD: per-example clipping, Gaussian noise, Poisson batches"
    source: ClassVar[str] = "Abadi et al. 2016, Deep Learning with Differential Privacy (CCS)"
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "add-or-remove adjacency; the whole sequence of noisy sums counts as released",
        "the search for hyper-parameters is counted but not priced",
        "the seeded generators are not cryptographic: results are for study, not for deployment; with "
        "secure = true the noise is, the choice of batches is not, and the run cannot be repeated",
        "clipped_share and the other stats are read from the data and not covered by the guarantee",
    )
    Params: ClassVar[type[DpSgdParams]] = DpSgdParams
    free: ClassVar[str] = "noise_multiplier"

    def planned(self, params: DpSgdParams, n_train: int) -> DpEvent:
        """The ledger that `train` on `n_train` members will hold."""
        rate = poisson_rate(n_train, params.batch_size)
        return poisson_event(rate, resolved_noise(params), params.steps)

    def train(self, members: Records, problem: Problem, params: DpSgdParams, run: Run) -> Released:
        """Train for `params.steps` steps and release the last iterate."""
        noise_multiplier = resolved_noise(params)
        members = members.to(run.device)
        model = problem.model(run.seed("init")).to(run.device).train()
        optimizer = make_optimizer(model.parameters(), params)
        sampler = PoissonSampler(len(members), params.batch_size, run.generator("sampling"))
        engine = make_engine(model, problem.loss, params.engine, params.clipping, params.physical_batch_size)
        noise = make_noise(engine.weights, noise_multiplier, params, run.generator("noise"))
        log.info("gradients by engine '%s' (%s)", engine.name, engine.why)
        tally = Tally()
        state = {"model": model, "optimizer": optimizer, "sampler": sampler, "tally": tally}
        # The expected batch size: the realised one would be released unpaid.
        divisor = params.batch_size

        for _ in run.steps("train", params.steps, state):
            with run.clock("batch"):
                batch = members.take(sampler.draw().to(run.device))
            with run.clock("noise"):
                means = noise.start(engine.weights, divisor)
            with run.clock("gradients"):
                clipped = engine.clipped_sum(batch.x, batch.y, params.clip, means, 1 / divisor)
            with run.clock("noise"):
                noise.finish(means, divisor)
            with run.clock("update"):
                for weight, mean in zip(engine.weights, means, strict=True):
                    weight.grad = mean
                optimizer.step()
            tally.add(clipped)
            run.observe(loss=clipped.mean_loss())

        engine.release()
        optimizer.zero_grad()
        return Released(model.eval(), sampler.event(noise_multiplier), tally.stats(params.steps))


def resolved_noise(params: DpSgdParams) -> float:
    """The noise multiplier of a planned task; no noise at epsilon = inf."""
    if params.noise_multiplier is not None:
        return params.noise_multiplier
    if params.epsilon == math.inf:
        return 0.0
    raise SpecError(
        f"noise_multiplier is not set: epsilon = {params.epsilon} must be calibrated before training"
    )


def make_noise(
    weights: Sequence[Tensor], noise_multiplier: float, params: DpSgdParams, generator: torch.Generator
) -> Noise:
    """Gaussian noise of standard deviation noise_multiplier * clip; none where there is no multiplier."""
    # 0 * inf is not a number where clip is infinite.
    scale = noise_multiplier * params.clip if noise_multiplier else 0.0
    return SecureNoise(scale) if params.secure else SeededNoise(weights, scale, generator)


method = DpSgd()
