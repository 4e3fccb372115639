"""DP-SGD's steps: the part that dp-sgd and the methods that change its model have in common."""

import logging
from functools import partial
from typing import Any

import torch
from dp_accounting import DpEvent
from pydantic import Field, model_validator
from torch import nn

from methods.augmentation import (
    AugmentationParams,
    ManyViewsEngine,
    random_views,
    refuse_others_than_images,
)
from methods.averaging import Average, AveragingParams
from methods.base import Problem, Released, Run
from methods.bounds import Count
from methods.gaussian import GaussianParams, make_noise, resolved_noise
from methods.gradients import Engine, make_engine
from methods.gradients.tally import Tally
from methods.optimizer import OptimizerParams, make_optimizer
from methods.sampling import PoissonSampler, poisson_event, poisson_rate
from workloads.base import Records

log = logging.getLogger(__name__)


class PrivateDescentParams(GaussianParams, OptimizerParams, AugmentationParams, AveragingParams):
    """What DP-SGD has. Give epsilon or noise_multiplier; a planned task holds both."""

    batch_size: Count = Field(
        default=64, description="Expected examples per step; each member joins with batch_size / n."
    )

    @model_validator(mode="after")
    def _views_are_stored(self) -> "PrivateDescentParams":
        if self.augmentations > 1 and self.engine not in ("auto", "opacus"):
            raise ValueError(
                f"augmentations = {self.augmentations} averages stored gradients, which engine "
                f"'{self.engine}' does not have; use engine = 'auto'"
            )
        return self


def descent_event(params: PrivateDescentParams, n_train: int) -> DpEvent:
    """The ledger that `descend_privately` on `n_train` members will hold."""
    rate = poisson_rate(n_train, params.batch_size)
    return poisson_event(rate, resolved_noise(params), params.steps)


def descend_privately(
    model: nn.Module, members: Records, problem: Problem, params: PrivateDescentParams, run: Run
) -> Released:
    """Train the model for `params.steps` steps of DP-SGD (Abadi et al. 2016) and release it.

    Released is the last iterate or, with `params.averaging`, the average of all. The phase is "train".
    """
    noise_multiplier = resolved_noise(params)
    members = members.to(run.device)
    model = model.to(run.device).train()
    optimizer = make_optimizer(model.parameters(), params)
    sampler = PoissonSampler(len(members), params.batch_size, run.generator("sampling"))
    engine = choose_engine(model, members, problem, params, run)
    noise = make_noise(engine.weights, params, run.generator("noise"))
    log.info("gradients by engine '%s' (%s)", engine.name, engine.why)
    tally = Tally()
    average = Average(engine.weights, params.averaging) if params.averaging else None
    state: dict[str, Any] = {"model": model, "optimizer": optimizer, "sampler": sampler, "tally": tally}
    state |= {"average": average} if average else {}
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
            if average:
                average.add()
        tally.add(clipped)
        run.observe(loss=clipped.mean_loss())

    engine.release()
    optimizer.zero_grad()
    if average:
        average.release()
    return Released(model.eval(), sampler.event(noise_multiplier), tally.stats(params.steps))


def choose_engine(
    model: nn.Module, members: Records, problem: Problem, params: PrivateDescentParams, run: Run
) -> Engine:
    """The engine that was asked for; one that averages over views where there are several."""
    if params.augmentations == 1:
        return make_engine(model, problem.loss, params.engine, params.clipping, params.physical_batch_size)
    first = members.take(torch.zeros(1, dtype=torch.int64, device=run.device))
    refuse_others_than_images(first.x, params.augmentation_shift)
    copies, generator = params.augmentations, run.generator("augmentation")
    views = partial(
        random_views,
        copies=copies,
        shift=params.augmentation_shift,
        flip=params.augmentation_flip,
        generator=generator,
    )
    return ManyViewsEngine(model, problem.loss, params.clipping, params.physical_batch_size, copies, views)
