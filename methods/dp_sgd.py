"""dp-sgd: clipped per-example gradients, summed with Gaussian noise over Poisson batches."""

import logging
from typing import Any, ClassVar

from dp_accounting import DpEvent
from pydantic import Field, model_validator
from torch import nn

from methods.base import Count, Problem, Released, Role, Run
from methods.gradients import Engine, make_engine
from methods.gradients.params import ClippingParams
from methods.gradients.tally import Tally
from methods.gradients.views import AugmentationParams, views_engine
from methods.mechanisms.gaussian import GaussianParams, make_noise, resolved_noise
from methods.training.averaging import Average, AveragingParams
from methods.training.optimizer import OptimizerParams, make_optimizer
from methods.training.sampling import HOST, PoissonSampler, poisson_event, poisson_rate
from workloads.base import Records

log = logging.getLogger(__name__)


class DpSgdParams(AveragingParams, AugmentationParams, ClippingParams, OptimizerParams, GaussianParams):
    """Parameters of dp-sgd. Give epsilon or noise_multiplier; a planned task holds both.

    epsilon, delta, noise_multiplier, clip                                       GaussianParams
    steps, batch_size, learning_rate, optimizer, momentum, weight_decay          OptimizerParams
    clipping, engine, physical_batch_size, secure                                ClippingParams
    augmentations, augmentation_shift, augmentation_flip                         AugmentationParams
    averaging                                                                    AveragingParams

    Pydantic lists the fields of the last base first.
    """

    batch_size: Count = Field(
        default=64, description="Expected examples per step; each member joins with batch_size / n."
    )

    @model_validator(mode="after")
    def _views_are_stored(self) -> "DpSgdParams":
        if self.augmentations > 1 and self.engine not in ("auto", "opacus"):
            raise ValueError(
                f"augmentations = {self.augmentations} averages stored gradients, which engine "
                f"'{self.engine}' does not have; use engine = 'auto'"
            )
        return self


class DpSgd:
    """Differentially private SGD (Abadi et al. 2016): noise once, on the sum of clipped gradients.

    Optionally with what the best results use (De et al. 2022): several views of an image, a moving average of
    the weights, and batches of any size in pieces. None of them changes the ledger.
    """

    version: ClassVar[str] = "5"
    about: ClassVar[str] = "DP-SGD: per-example clipping, Gaussian noise, Poisson batches"
    source: ClassVar[str] = "Abadi et al. 2016, Deep Learning with Differential Privacy (CCS)"
    guarantee: ClassVar[str] = "approximate-dp"
    role: ClassVar[Role] = "private-baseline"
    caveats: ClassVar[tuple[str, ...]] = (
        "add-or-remove adjacency; the whole sequence of noisy sums counts as released",
        "the search for hyper-parameters is counted but not priced",
        "the seeded generators are not cryptographic: results are for study, not for deployment; with "
        "secure = true the noise is, the choice of batches is not, and the run cannot be repeated",
        "clipped_share and the other stats are read from the data and not covered by the guarantee",
    )
    Params: ClassVar[type[DpSgdParams]] = DpSgdParams
    free: ClassVar[str] = "noise_multiplier"
    extent: ClassVar[str] = "steps"
    mechanism: ClassVar[str] = "subsampled-gaussian"

    def planned(self, params: DpSgdParams, n_train: int) -> DpEvent:
        """The ledger that `train` on `n_train` members will hold."""
        return planned_ledger(params, n_train)

    def train(self, members: Records, problem: Problem, params: DpSgdParams, run: Run) -> Released:
        """Train for `params.steps` steps and release the last iterate, or the average of all."""
        return train_model(problem.model(run.seed("init")), members, problem, params, run)


def planned_ledger(params: DpSgdParams, n_train: int) -> DpEvent:
    """What `train_model` on `n_train` members releases: `steps` Gaussian sums over Poisson samples."""
    rate = poisson_rate(n_train, params.batch_size)
    return poisson_event(rate, resolved_noise(params), params.steps)


def train_model(
    model: nn.Module, members: Records, problem: Problem, params: DpSgdParams, run: Run
) -> Released:
    """Train a model by DP-SGD and release it; dpsgd-ts and dpsgd-hf call it with models of their own.

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
    sampler = PoissonSampler(len(members), params.batch_size, run.generator("sampling", HOST), run.device)
    engine = choose_engine(model, members, problem, params, run)
    noise = make_noise(engine.weights, params, params.secure, run.generator("noise"))
    log.info("gradients by engine '%s' (%s)", engine.name, engine.why)
    tally = Tally()
    average = Average(engine.weights, params.averaging) if params.averaging else None
    state: dict[str, Any] = {"model": model, "optimizer": optimizer, "sampler": sampler, "tally": tally}
    state |= {"average": average} if average else {}
    # The expected batch size divides: the realised one would be released unpaid.
    divisor = params.batch_size

    for _ in run.steps("train", params.steps, state):
        with run.clock("batch"):
            batch = members.take(sampler.draw())
        # Noise comes first and the clipped gradients are added onto it: one pass over memory less.
        with run.clock("noise"):
            gradient = noise.start(engine.weights, divisor)
        with run.clock("gradients"):
            clipped = engine.clipped_sum(batch.x, batch.y, params.clip, onto=gradient, share=1 / divisor)
        with run.clock("noise"):
            noise.finish(gradient, divisor)
        with run.clock("update"):
            for weight, mean in zip(engine.weights, gradient, strict=True):
                weight.grad = mean
            optimizer.step()
            if average:
                average.add()
        tally.add(clipped)
        run.observe(loss=clipped.mean_loss())

    engine.release()
    optimizer.zero_grad()
    if average:
        average.release()
    # The sampler that drew the batches writes the ledger, so that the two cannot disagree.
    return Released(model.eval(), sampler.event(resolved_noise(params)), tally.stats(params.steps))


def choose_engine(
    model: nn.Module, members: Records, problem: Problem, params: DpSgdParams, run: Run
) -> Engine:
    """The engine that was asked for; one that averages over views where there are several."""
    if params.augmentations > 1:
        generator = run.generator("augmentation")
        return views_engine(
            model, problem.loss, members, params, params.clipping, params.physical_batch_size, generator
        )
    return make_engine(model, problem.loss, params.engine, params.clipping, params.physical_batch_size)


method = DpSgd()
