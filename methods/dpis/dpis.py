"""dpis: DP-SGD with importance sampling by gradient norms."""

import logging
import math
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from dp_accounting import DpEvent, GaussianDpEvent
from pydantic import Field, model_validator
from torch import Tensor

from methods.base import Amount, Count, Problem, Rate, Released, Run
from methods.dpis.importance import ImportanceSampler, boosted_rate, importance_event
from methods.gradients import Engine, make_engine
from methods.gradients.params import ClippingParams
from methods.mechanisms.draws import add_gaussian_number
from methods.mechanisms.gaussian import GaussianParams, make_noise, resolved_noise
from methods.mechanisms.line_search import pieces
from methods.search import Fixed, Search
from methods.training.noisy_descent import NoisyDescentParams
from methods.training.optimizer import make_optimizer
from methods.training.sampling import HOST
from workloads.base import Records

log = logging.getLogger(__name__)

SHORT = 1e-12
"""A clip below every gradient norm, which leaves only the direction."""


class DpisParams(ClippingParams, NoisyDescentParams, GaussianParams):
    """Parameters of dpis. Give epsilon or noise_multiplier; a planned task has both."""

    noise_multiplier: Amount | None = Field(
        default=None,
        description="Noise standard deviation over a record's contribution; solved for from epsilon.",
    )
    clip: Annotated[Rate, Search(0.1, 3, axis=3)] = Field(
        default=1.0, description="Largest L2 norm of one example's gradient."
    )
    batch_size: Annotated[Count, Search(1 / 16, 1, unit="rate", axis=1)] = Field(
        default=64, description="Expected examples per step."
    )
    boost: Annotated[Rate, Search(1.05, 2)] = Field(
        default=1.5, description="Maximum probability of a record, relative to batch_size / n; >= 1."
    )
    normaliser_noise: Annotated[Rate, Search(30, 300)] = Field(
        default=60.0, description="Noise of each normaliser: standard deviation over its sensitivity."
    )
    refresh_every: Annotated[Count, Fixed()] = Field(
        default=50, description="Steps between two measurements of the normalisers."
    )

    @model_validator(mode="after")
    def _clipping_is_flat(self) -> "DpisParams":
        if self.clipping != "flat":
            raise ValueError(
                f"clipping = '{self.clipping}': dpis samples by the norm of the whole gradient; "
                "use clipping = 'flat'"
            )
        return self

    @model_validator(mode="after")
    def _boost_is_at_least_1(self) -> "DpisParams":
        if self.boost < 1:
            raise ValueError(
                f"boost must be >= 1, got {self.boost}: 1 draws all records equally, as dp-sgd does"
            )
        return self


class Dpis:
    """Importance sampling (Wei et al. 2022): large gradients are drawn more often, with less weight.
    Every drawn record contributes a vector of norm K / (N batch_size), with K the sum of all clipped norms
    and N the number of members, both noisy. This is less than dp-sgd's clip / batch_size, and so is the
    noise.
    """

    version: ClassVar[str] = "3"
    about: ClassVar[str] = "DPIS: DP-SGD with importance sampling by gradient norms"
    source: ClassVar[str] = (
        "Wei et al. 2022, DPIS: An Enhanced Mechanism for Differentially Private SGD with Importance "
        "Sampling (CCS); a re-implementation, since its code is not public"
    )
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "a re-implementation from the paper's description: without its adaptive clipping, and with a bound "
        "on sampling probabilities (boost) that is fixed in advance, so that epsilon is, too",
        "the ledger charges every step at the largest probability a record may have, boost * batch_size / n, "
        "and every refresh for both normalisers; if clipped norms exceed clip / boost on average, the actual "
        "probabilities are below the charged one",
        "computes the gradient norms of up to boost batches in every step, and of all members at every "
        "refresh",
        "add-or-remove adjacency; seeded random generators are not cryptographic; with secure = true the "
        "noise, but not the sampling of batches, comes from one that is, and the run is not reproducible",
        "the hyper-parameter search is counted, but its privacy cost is not in epsilon",
        "the stats are computed from the data and not covered by the guarantee",
    )
    Params: ClassVar[type[DpisParams]] = DpisParams
    per_example: ClassVar[bool] = True
    free: ClassVar[str] = "noise_multiplier"

    def planned(self, params: DpisParams, n_train: int) -> DpEvent:
        """The ledger of `train` on `n_train` members."""
        rate = boosted_rate(n_train, params.batch_size, params.boost)
        refreshes = math.ceil(params.steps / params.refresh_every)
        noise = resolved_noise(params)
        return importance_event(rate, noise, params.steps, params.normaliser_noise, refreshes)

    def derive(self, values: dict[str, Any], n_train: int) -> dict[str, Any]:
        """Four measurements of the normalisers."""
        return {"refresh_every": math.ceil(values["steps"] / 4)}

    def train(self, members: Records, problem: Problem, params: DpisParams, run: Run) -> Released:
        """Train for `params.steps` steps and release the last iterate."""
        members = members.to(run.device)
        model = problem.model(run.seed("init")).to(run.device).train()
        optimizer = make_optimizer(model.parameters(), params)
        engine = make_engine(model, problem.loss, params.engine, "flat", params.physical_batch_size)
        log.info("gradients by engine '%s' (%s)", engine.name, engine.why)
        sampler = ImportanceSampler(members, params.batch_size, params.clip, params.boost, run)
        noise = make_noise(run, engine.weights, params, params.secure, sampler.batches)
        sizes = {"candidates": 0, "drawn": 0}
        state = {"model": model, "optimizer": optimizer, "sampler": sampler, "sizes": sizes}

        for step in run.steps("train", params.steps, state):
            if step % params.refresh_every == 0:
                with run.clock("refresh"):
                    refresh(sampler, engine, members, params, run)
            wide = sampler.candidates()
            with run.clock("norms"):
                norms = clipped_norms(engine, wide, params.clip)
            batch = sampler.keep(norms)
            with run.clock("gradients"):
                # The noise is scaled for gradients of norm clip; here they have norm share.
                divisor = run.public("divisor", params.clip / sampler.share)
                means = noise.start(engine.weights, divisor)
                clipped = engine.clipped_sum(batch.x, batch.y, SHORT, means, sampler.share / SHORT)
                noise.finish(means, divisor)
            with run.clock("update"):
                for weight, mean in zip(engine.weights, means, strict=True):
                    weight.grad = mean
                optimizer.step()
            sizes["candidates"] += len(wide)
            sizes["drawn"] += len(batch)
            run.observe(loss=clipped.mean_loss(), share=sampler.share)

        engine.release()
        optimizer.zero_grad()
        stats = {f"mean_{name}": count / params.steps for name, count in sizes.items()}
        return Released(model.eval(), run.ledger(), stats | {"last_share": sampler.share})


def refresh(
    sampler: ImportanceSampler,
    engine: Engine,
    members: Records,
    params: DpisParams,
    run: Run,
) -> None:
    """Remeasure the normalisers: one record changes the sum of norms by at most clip and the count by 1."""
    sums = [clipped_norms(engine, part, params.clip).sum() for part in pieces(members)]
    total = sum(torch.stack(sums).tolist())
    sampler.refresh(measure(total, params.clip, params, run), measure(len(members), 1.0, params, run))


def measure(value: float, sensitivity: float, params: DpisParams, run: Run) -> float:
    """Release a normaliser with noise."""
    noise = params.normaliser_noise
    release = partial(add_gaussian_number, multiplier=noise, sensitivity=sensitivity, secure=params.secure)
    noisy: float = run.mechanism(
        "normalisers",
        value,
        release,
        sensitivity=sensitivity,
        scale=noise * sensitivity,
        event=GaussianDpEvent(noise),
        stream="normalisers",
        device=HOST,
    )
    return noisy


def clipped_norms(engine: Engine, records: Records, clip: float) -> Tensor:
    """(B,): norms of clipped gradients; 0 if a gradient is not finite."""
    norms = engine.norms(records.x, records.y)
    return torch.where(torch.isfinite(norms), norms, 0.0).clamp(max=clip)


method = Dpis()
