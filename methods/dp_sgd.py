"""dp-sgd: clipped per-example gradients, summed with Gaussian noise over Poisson batches."""

import logging
from typing import Any, ClassVar

from dp_accounting import DpEvent
from pydantic import model_validator
from torch import nn

from methods.base import Problem, Released, Role, Run
from methods.gradients import Engine, make_engine
from methods.gradients.params import ClippingParams
from methods.gradients.tally import Tally
from methods.gradients.views import AugmentationParams, views_engine
from methods.mechanisms.gaussian import GaussianParams, make_noise, resolved_noise
from methods.training.averaging import Average, AveragingParams
from methods.training.noisy_descent import NoisyDescentParams
from methods.training.optimizer import Update, make_optimizer
from methods.training.sampling import poisson_event, poisson_rate
from workloads.base import Records

log = logging.getLogger(__name__)


class DpSgdParams(AveragingParams, AugmentationParams, ClippingParams, NoisyDescentParams, GaussianParams):
    """Parameters of dp-sgd. Give epsilon or noise_multiplier; a planned task has both.

    epsilon, delta, noise_multiplier, clip                                       GaussianParams
    steps, batch_size, learning_rate, optimizer, momentum, weight_decay          NoisyDescentParams
    clipping, engine, physical_batch_size, secure                                ClippingParams
    augmentations, augmentation_shift, augmentation_flip                         AugmentationParams
    averaging                                                                    AveragingParams

    Pydantic lists the fields of the last base first.
    """

    @model_validator(mode="after")
    def _views_are_stored(self) -> "DpSgdParams":
        if self.augmentations > 1 and self.engine not in ("auto", "opacus"):
            raise ValueError(
                f"augmentations = {self.augmentations} needs stored per-example gradients, which engine "
                f"'{self.engine}' does not compute; use engine = 'auto'"
            )
        return self


class DpSgd:
    """Differentially private SGD (Abadi et al. 2016): noise once, on the sum of clipped gradients.

    Optionally with the techniques of De et al. 2022: augmentation multiplicity, a moving average of the
    weights, and large batches by gradient accumulation. None of them changes the ledger.
    """

    version: ClassVar[str] = "6"
    about: ClassVar[str] = "DP-SGD: per-example clipping, Gaussian noise, Poisson batches"
    source: ClassVar[str] = "Abadi et al. 2016, Deep Learning with Differential Privacy (CCS)"
    guarantee: ClassVar[str] = "approximate-dp"
    role: ClassVar[Role] = "private-baseline"
    caveats: ClassVar[tuple[str, ...]] = (
        "add-or-remove adjacency; the whole sequence of noisy sums counts as released",
        "the hyper-parameter search is counted, but its privacy cost is not in epsilon",
        "seeded random generators are not cryptographic: results are for study, not for deployment; with "
        "secure = true the noise, but not the sampling of batches, comes from one that is, and the run is "
        "not reproducible",
        "clipped_share and the other stats are computed from the data and not covered by the guarantee",
    )
    Params: ClassVar[type[DpSgdParams]] = DpSgdParams
    per_example: ClassVar[bool] = True
    free: ClassVar[str] = "noise_multiplier"
    extent: ClassVar[str] = "steps"
    repeatable: ClassVar[bool] = True
    mechanism: ClassVar[str] = "subsampled-gaussian"

    def planned(self, params: DpSgdParams, n_train: int) -> DpEvent:
        """The ledger of `train` on `n_train` members."""
        return planned_ledger(params, n_train)

    def train(self, members: Records, problem: Problem, params: DpSgdParams, run: Run) -> Released:
        """Train for `params.steps` steps and release the last iterate, or the average of all."""
        return train_model(problem.model(run.seed("init")), members, problem, params, run)


def planned_ledger(params: DpSgdParams, n_train: int) -> DpEvent:
    """The ledger of `train_model` on `n_train` members: `steps` Gaussian sums over Poisson samples."""
    rate = poisson_rate(n_train, params.batch_size)
    return poisson_event(rate, resolved_noise(params), params.steps)


def train_model(
    model: nn.Module, members: Records, problem: Problem, params: DpSgdParams, run: Run
) -> Released:
    """Train a model by DP-SGD and release it; dpsgd-ts and dpsgd-hf call it with their own models.

    A step of Algorithm 1 (Abadi et al. 2016), with B the expected batch size, C the clip, sigma the noise
    multiplier:

        sample    every member independently with probability B / n
        clip      g_i <- g_i min(1, C / |g_i|)
        noise     g <- (sum_i g_i + N(0, sigma^2 C^2 I)) / B
        update    w <- optimizer(w, g)
    """
    members = members.to(run.device)
    model = model.to(run.device).train()
    optimizer = make_optimizer(model.parameters(), params)
    sampler = run.sampler("poisson", members, params.batch_size)
    engine = choose_engine(model, members, problem, params, run)
    noise = make_noise(run, engine.weights, params, params.secure, sampler)
    log.info("gradients by engine '%s' (%s)", engine.name, engine.why)
    update, tally = Update(optimizer, engine.weights), Tally()
    average = Average(engine.weights, params.averaging) if params.averaging else None
    state: dict[str, Any] = {"model": model, "optimizer": optimizer, "sampler": sampler, "tally": tally}
    state |= {"average": average} if average else {}
    # Divide by the expected batch size: the realised one is private.
    divisor = run.public("divisor", params.batch_size)

    for _ in run.steps("train", params.steps, state):
        batch = sampler.draw()
        # Noise first, then add the clipped gradients to it: saves a pass over memory.
        with run.clock("noise"):
            gradient = noise.start(engine.weights, divisor)
        with run.clock("gradients"):
            clipped = engine.clipped_sum(batch.x, batch.y, params.clip, onto=gradient, share=1 / divisor)
        with run.clock("noise"):
            noise.finish(gradient, divisor)
        with run.clock("update"):
            update.step(gradient)
            if average:
                average.add()
        tally.add(clipped)
        run.observe(loss=clipped.mean_loss())

    engine.release()
    optimizer.zero_grad()
    if average:
        average.release()
    # The run provided batches and noise and writes the ledger, so that the three cannot disagree.
    return Released(model.eval(), run.ledger(), tally.stats(params.steps))


def choose_engine(
    model: nn.Module, members: Records, problem: Problem, params: DpSgdParams, run: Run
) -> Engine:
    """The configured engine, or one that averages over views if there are several."""
    if params.augmentations > 1:
        generator = run.generator("augmentation")
        return views_engine(
            model, problem.loss, members, params, params.clipping, params.physical_batch_size, generator
        )
    return make_engine(model, problem.loss, params.engine, params.clipping, params.physical_batch_size)


method = DpSgd()
