"""dpsur: DP-SGD steps that are kept only if they pass a private test on a validation batch."""

import logging
import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from pydantic import Field, model_validator
from torch import Tensor

from methods.base import (
    Batches,
    Count,
    Level,
    Noise,
    PrivacyParams,
    Probability,
    Problem,
    Rate,
    Released,
    Run,
)
from methods.dpsur.paired_loss import PairedLoss
from methods.dpsur.rollback import Rollback
from methods.dpsur.selection import VARIANTS, VERDICTS, Allowance, count, passes, rates
from methods.gradients import make_engine
from methods.gradients.params import ClippingParams
from methods.gradients.tally import Tally
from methods.mechanisms.events import SelectiveReleaseDpEvent
from methods.search import Fixed, Search, round_up
from methods.training.noisy_descent import NoisyDescentParams
from methods.training.sampling import HOST, poisson_event, poisson_rate
from workloads.base import Records
from workloads.errors import SpecError

log = logging.getLogger(__name__)


class DpsurParams(ClippingParams, NoisyDescentParams, PrivacyParams):
    """Parameters of dpsur, by the paper's names; recipes have the paper's values."""

    epsilon: Rate = Field(description="Budget: the run stops before an attempt that would exceed it.")
    delta: Probability = Field(default=1e-5, description="Delta of the budget.")
    charge: Annotated[Literal["all_attempts", "paper"], Level()] = Field(
        default="all_attempts",
        description="What the budget is charged for: every attempt, or accepted ones only (disputed).",
    )
    variant: Annotated[Literal["clean", "official_code"], Level()] = Field(
        default="clean",
        description="The algorithm as published, or the authors' code with its leaks (charge 'paper' only).",
    )
    steps: Annotated[Count, Search(4, 100, unit="epochs", axis=2)] = Field(
        default=10_000, description="Maximum attempts; the budget should end the run earlier."
    )
    batch_size: Annotated[Count, Search(1 / 16, 1, unit="rate", axis=1)] = Field(
        default=64,
        description="Expected examples per proposal: every member is drawn with probability batch_size / n.",
    )
    clip: Annotated[Rate, Search(0.1, 3, axis=3)] = Field(
        default=0.1, description="Largest L2 norm of one example's gradient (C_t)."
    )
    sigma_t: Rate = Field(default=2.0, description="Noise of a proposal: standard deviation over clip.")
    B_v: Annotated[Count | None, Fixed()] = Field(
        default=None, description="Expected examples per validation batch; none: as many as batch_size."
    )
    C_v: Annotated[Rate, Fixed(0.001)] = Field(
        default=0.001, description="The change of the validation loss is clipped to +-C_v."
    )
    sigma_v: Annotated[Rate, Search(0.05, 0.5, name="test_share")] = Field(
        default=1.3, description="Noise of a test: standard deviation over 2 C_v."
    )
    beta: Annotated[float, Search(-1, 0, "linear")] = Field(
        default=-1.0, description="A noisy change below beta C_v is accepted."
    )

    def one_step(self, count: int, rate: float) -> dict[str, Any]:
        """The settings of one accepted attempt on all of `count` records (methods/base.py, Stepped)."""
        return super().one_step(count, rate) | {"beta": math.inf}

    @model_validator(mode="after")
    def _something_can_be_accepted(self) -> "DpsurParams":
        if not self.beta > -math.inf:
            raise ValueError(
                f"beta = {self.beta} accepts nothing, so no update would ever be released; "
                "give a finite number (the paper: -1)"
            )
        return self

    @model_validator(mode="after")
    def _official_code_has_no_honest_price(self) -> "DpsurParams":
        if self.variant == "official_code" and self.charge != "paper":
            raise ValueError(
                f"variant = 'official_code' cannot be charged '{self.charge}': "
                f"{'; '.join(VARIANTS['official_code'].unpaid)}. Give charge = 'paper', or variant = 'clean'"
            )
        return self


class Dpsur:
    """Selective update and release (Fu et al. 2024, Algorithm 2), charged for every attempt.

    An attempt is a DP-SGD step on one Poisson sample and a test on another: the change of the mean loss,
    clipped and with Gaussian noise, must be below beta C_v. Otherwise the step is reverted.
    """

    version: ClassVar[str] = "4"
    about: ClassVar[str] = "DPSUR: DP-SGD steps that are kept only if a noisy validation loss falls"
    source: ClassVar[str] = (
        "Fu et al. 2024, DPSUR: Accelerating Differentially Private Stochastic Gradient Descent Using "
        "Selective Update and Release (PVLDB 17)"
    )
    guarantee: ClassVar[str] = "claimed-disputed"
    caveats: ClassVar[tuple[str, ...]] = (
        "the paper charges accepted updates only; its theorem is about redrawing the noise of one fixed "
        "number, while the algorithm redraws the proposal, and in the worst case the claimed epsilon is "
        "exceeded in 12 of the paper's 16 settings (docs/methods/dpsur.md)",
        "the epsilon of a result charges every attempt; beside it are the paper's charge and a worst-case "
        "lower bound for releasing accepted updates only, to compare with that charge",
        "with charge = 'paper' the run stops by the paper's charge, epsilon is the actual cost of all "
        "attempts, above the target, and the result's kind is claimed-disputed",
        "variant = 'official_code' has only the paper's epsilon: rejected gradients stay in the optimizer's "
        "state, a raw loss is carried from step to step, and sums are divided by the realised batch size",
        "the paper argues that beta = -1 separates good from bad proposals best; beta = 0 does",
        "add-or-remove adjacency; seeded random generators are not cryptographic; with secure = true all "
        "noise, but not the sampling of batches, comes from one that is, and the run is not reproducible",
        "the stats are computed from the data and not covered by the guarantee",
    )
    Params: ClassVar[type[DpsurParams]] = DpsurParams
    per_example: ClassVar[bool] = True
    mechanism: ClassVar[str] = "selective"
    spending: ClassVar[str] = "sigma_t"

    def bound(self, params: DpsurParams) -> float | None:
        """The budget, if it was charged for every attempt, as the harness accounts for it."""
        return params.epsilon if params.charge == "all_attempts" else None

    def spent(self, values: dict[str, Any], n_train: int) -> DpEvent:
        """The event of `steps` attempts, with the noise of tests that `derive` gives."""
        tests = self.derive(values, n_train)
        return SelfComposedDpEvent(
            ComposedDpEvent(
                [
                    poisson_event(poisson_rate(n_train, values["batch_size"]), values["sigma_t"], 1),
                    poisson_event(poisson_rate(n_train, tests["B_v"]), tests["sigma_v"], 1),
                ]
            ),
            values["steps"],
        )

    def derive(self, values: dict[str, Any], n_train: int) -> dict[str, Any]:
        """Tests on half a batch, with the share of the budget that was drawn for them.

        The cost of a noisy sum over a Poisson sample grows about as (rate / noise)^2.
        """
        batch, share = values["batch_size"], values["sigma_v"]
        judges = max(1, round(batch / 2))
        ratio = judges / batch * math.sqrt((1 - share) / share)
        return {"B_v": judges, "sigma_v": round_up(values["sigma_t"] * ratio)}

    def train(self, members: Records, problem: Problem, params: DpsurParams, run: Run) -> Released:
        """Attempt until the budget or `params.steps` is used up; release the last accepted iterate."""
        members = members.to(run.device)
        model = problem.model(run.seed("init")).to(run.device).train()
        engine = make_engine(model, problem.loss, params.engine, params.clipping, params.physical_batch_size)
        log.info("gradients by engine '%s' (%s)", engine.name, engine.why)
        weights = Rollback(engine.weights, params)
        first = members.take(torch.zeros(1, dtype=torch.int64, device=run.device))
        losses = PairedLoss(model, problem.loss, engine.weights, weights.pairs(), first)
        variant = VARIANTS[params.variant](weights, losses)
        sampler, validation = make_samplers(members, params, run)
        proposal, test = release_events(sampler, validation, params)
        noise = proposal_noise(engine.weights, proposal, params, run)
        test_noise = make_test_noise(test, params, run)
        attempt = ComposedDpEvent([proposal, test])
        allowance = make_allowance(attempt, params, run)
        tally, verdicts = Tally(), dict.fromkeys(VERDICTS, 0)
        state = {"weights": weights, "sampler": sampler, "validation": validation, "variant": variant}
        state |= {"allowance": allowance, "tally": tally, "verdicts": verdicts}

        for _ in run.steps("train", allowance.most(params.steps), state):
            if not allowance.admits():
                break
            batch, judges = sampler.draw(), validation.draw()
            with run.clock("gradients"):
                clipped = engine.clipped_sum(batch.x, batch.y, params.clip)
            with run.clock("noise"):
                means = noise.noisy_mean(clipped.sums, variant.divisor(params.batch_size, len(batch)))
            with run.clock("update"):
                weights.keep()
                weights.update(means)
            with run.clock("test"):
                change = variant.change(judges)
                accepted = passes(change, params.C_v, params.beta, test_noise)
                variant.settle(accepted)
            allowance.pay(accepted)
            tally.add(clipped)
            count(verdicts, change, accepted, params.C_v)
            run.verdict(accepted)
            run.observe(loss=clipped.mean_loss())

        engine.release()
        weights.release()
        warn(verdicts, allowance, params)
        attempts = verdicts["attempts"]
        numbers = (verdicts["accepted"], attempts, params.beta, params.charge, variant.unpaid)
        ledger = run.ledger(SelectiveReleaseDpEvent(attempt, *numbers))
        return Released(model.eval(), ledger, rates(verdicts) | tally.stats(attempts))


def make_samplers(members: Records, params: DpsurParams, run: Run) -> tuple[Batches, Batches]:
    """Independent Poisson samplers of proposals and of their tests."""
    size = params.batch_size if params.B_v is None else params.B_v
    if size > len(members):
        raise SpecError(
            f"B_v = {size} is larger than the {len(members)} members of a model; give 1 to {len(members)}",
            field="B_v",
            value=size,
            allowed=(1, len(members)),
        )
    return (
        run.sampler("poisson", members, params.batch_size),
        run.sampler("poisson", members, size, "validation-sampling"),
    )


def release_events(sampler: Batches, validation: Batches, params: DpsurParams) -> tuple[DpEvent, DpEvent]:
    """The DP events of one proposal and of its test."""
    return (
        sampler.event(GaussianDpEvent(params.sigma_t)),
        validation.event(GaussianDpEvent(params.sigma_v)),
    )


def proposal_noise(weights: Sequence[Tensor], event: DpEvent, params: DpsurParams, run: Run) -> Noise:
    """Gaussian noise of a proposal."""
    scale, secure = params.sigma_t * params.clip, params.secure
    return run.noise("proposal", weights, scale, sensitivity=params.clip, event=event, secure=secure)


def make_test_noise(event: DpEvent, params: DpsurParams, run: Run) -> Noise:
    """Gaussian noise of a test. The clipped change has a range of 2 C_v."""
    width = 2 * params.C_v
    return run.noise(
        "test",
        [torch.zeros(1, dtype=torch.float64)],
        params.sigma_v * 2 * params.C_v,
        sensitivity=width,
        event=event,
        secure=params.secure,
        stream="validation-noise",
        device=HOST,  # which decides what comes next
    )


def make_allowance(attempt: DpEvent, params: DpsurParams, run: Run) -> Allowance:
    """The run's budget; SpecError if it does not allow a single attempt."""
    # If every attempt is charged, their maximum number does not depend on the data.
    budget = run.budget(params.epsilon, params.delta, attempt, alone=params.charge == "all_attempts")
    if not budget.admits(attempt):
        raise SpecError(
            f"epsilon = {params.epsilon:g} does not allow one attempt with sigma_t = {params.sigma_t:g} "
            f"and sigma_v = {params.sigma_v:g}; give more noise, smaller batches or a larger epsilon",
            field="epsilon",
            value=params.epsilon,
        )
    return Allowance(budget, attempt, params.charge, VARIANTS[params.variant].overdraws)


def warn(verdicts: dict[str, int], allowance: Allowance, params: DpsurParams) -> None:
    """Warn if nothing was trained, or if the run ended before its budget."""
    if verdicts["accepted"] == 0:
        log.warning(
            "none of %d attempts was accepted: the released model is untrained; raise beta = %g or epsilon",
            verdicts["attempts"],
            params.beta,
        )
    if verdicts["attempts"] == params.steps and allowance.admits():
        log.warning(
            "steps = %d attempts were made before the budget of epsilon = %g was spent (%d accepted); "
            "give more steps to spend it",
            params.steps,
            params.epsilon,
            verdicts["accepted"],
        )


method = Dpsur()
