"""private-search: the best of a random number of trainings, with the search in the price."""

import logging
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from dp_accounting import DpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from pydantic import Field, model_validator
from torch import nn

import methods
from methods.base import (
    Amount,
    Count,
    Detached,
    FreeKind,
    Params,
    Positive,
    PrivacyParams,
    Probability,
    Problem,
    Proposal,
    Rate,
    Released,
    Repeatable,
    Run,
    Solve,
)
from methods.mechanisms.draws import add_gaussian_number
from methods.mechanisms.events import OneOfDpEvent, ParallelDpEvent
from methods.mechanisms.gaussian import gaussian_event
from methods.mechanisms.line_search import pieces
from methods.mechanisms.trial_count import POISSON, TrialCount
from methods.search import Fixed
from methods.training.sampling import HOST, refuse_larger_than
from workloads.base import Records
from workloads.errors import Diverged, SpecError

log = logging.getLogger(__name__)

Candidate = dict[str, bool | int | float | str]
"""Settings of the base method that differ from its defaults."""
RATES = (0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Learning rates of the default candidates: a quarter to 32 times the default."""
POISSON_UP_TO = 7
"""The largest mean at which the Poisson distribution costs less than the geometric one."""
LEAST_SCORE_NOISE = 10.0
"""In records; at this noise a score on held-out records adds nothing to the price of usual trainings."""
NO_CANDIDATE = -1.0


class PrivateSearchParams(PrivacyParams):
    """Parameters of private-search. Give epsilon or base_epsilon; a planned task has both."""

    epsilon: Positive | None = Field(default=None, description="Target epsilon of the whole search.")
    delta: Probability = Field(default=1e-5, description="Target delta.")
    base_epsilon: Rate | None = Field(
        default=None, description="Epsilon of each training; solved for from epsilon."
    )
    base: Annotated[str, Fixed()] = Field(default="dp-sgd", description="The method that is trained.")
    candidates: Annotated[tuple[Candidate, ...], Fixed()] = Field(
        default=tuple({"learning_rate": rate} for rate in RATES),
        description="Settings of the base method, of which each trial draws one at random.",
    )
    mean: Annotated[Rate, Fixed()] = Field(default=10.0, description="Expected number of trials; >= 1.")
    shape: Annotated[Positive | Amount | None, Fixed()] = Field(
        default=None,
        description="Distribution of the number of trials: 0 logarithmic, 1 geometric, inf Poisson; none: "
        "inf up to a mean of 7, else 1.",
    )
    holdout: Annotated[Probability, Fixed()] = Field(
        default=0.2, description="Probability of a record to be held out for the scores."
    )
    score_noise: Annotated[Amount | None, Fixed()] = Field(
        default=None,
        description="Standard deviation of the noise on the number of correct held-out records; none: 10, or "
        "half a per cent of their expected number if that is more.",
    )
    steps: Annotated[Count, Fixed()] = Field(
        default=500, description="Training steps of candidates that do not state theirs."
    )
    batch_size: Annotated[Count, Fixed()] = Field(
        default=64,
        description="Expected examples per step of candidates that do not state theirs; at most the expected "
        "number of records that are not held out.",
    )
    noises: Annotated[tuple[float, ...] | None, Fixed()] = Field(
        default=None, description="Noise of each candidate; solved for from base_epsilon."
    )

    @model_validator(mode="after")
    def _one_privacy_level(self) -> "PrivateSearchParams":
        if self.epsilon is None and self.base_epsilon is None:
            raise ValueError("give epsilon (> 0) or base_epsilon (> 0); both are missing")
        return self

    @model_validator(mode="after")
    def _at_least_one_trial(self) -> "PrivateSearchParams":
        if self.mean < 1:
            raise ValueError(f"mean must be >= 1, got {self.mean}")
        return self

    @model_validator(mode="after")
    def _candidates_fit_the_base(self) -> "PrivateSearchParams":
        base = find_base(self.base)
        if not self.candidates:
            raise ValueError("candidates: give at least one table of settings, got none")
        known = base.Params.model_fields.keys() - {"epsilon", "delta", base.free}
        for candidate in self.candidates:
            strange = sorted(candidate.keys() - known)
            if strange:
                raise ValueError(
                    f"candidates: {', '.join(strange)}: give parameters of {self.base} other than epsilon, "
                    f"delta and {base.free}, which the search decides"
                )
            base.Params(**{**candidate, "epsilon": 1.0})
        return self

    def trial_count(self) -> TrialCount:
        """The distribution of the number of trials."""
        shape = self.shape
        if shape is None:
            shape = POISSON if self.mean <= POISSON_UP_TO else 1.0
        return TrialCount(self.mean, shape)


def find_base(name: str) -> Any:
    """The method that is trained; ValueError unless a private search can train it."""
    try:
        base = methods.family.load(name)
    except SpecError as error:
        raise ValueError(str(error)) from None
    if not isinstance(base, Repeatable) or not base.repeatable:
        raise ValueError(
            f"base = '{name}' cannot be searched privately: give a calibrated method that declares "
            "repeatable, such as dp-sgd"
        )
    return base


class PrivateSearch:
    """Private selection (Liu and Talwar 2019; Papernot and Steinke 2022) over settings of a private method.

    A random number of trials each draw a candidate, train it on the members that are not held out, and count
    the correct predictions on the held-out ones with noise. Only the model of the best score is released.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "Best of a random number of private trainings, with the search in the price"
    source: ClassVar[str] = (
        "Papernot and Steinke 2022, Hyperparameter Tuning with Renyi Differential Privacy (ICLR); Liu and "
        "Talwar 2019, Private Selection from Private Candidates (STOC)"
    )
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "add-or-remove adjacency; epsilon covers the released model and the number of its candidate",
        "the number of trials must stay secret: run time, memory, the table of steps and the log show it, "
        "which the guarantee does not cover",
        "the list of candidates must be chosen without looking at the members",
        "held-out members train no model, and are neither members nor non-members in accuracies and attacks",
        "where the number of trials is Poisson it may be 0, and the untrained model is released",
        "seeded random generators are not cryptographic: results are for study, not for deployment",
    )
    Params: ClassVar[type[PrivateSearchParams]] = PrivateSearchParams
    per_example: ClassVar[bool] = True
    free: ClassVar[str] = "base_epsilon"
    free_kind: ClassVar[FreeKind] = "budget"
    settled: ClassVar[str] = "noises"

    def settle(self, params: PrivateSearchParams, n_train: int, solve: Solve) -> PrivateSearchParams:
        """Solve for the noise of every candidate at base_epsilon."""
        base, expected = find_base(params.base), expected_members(n_train, params)
        asked = candidate_params(params, n_train)
        noises = tuple(getattr(solve(base, each, expected), base.free) for each in asked)
        return params.model_copy(update={"noises": noises})

    def over(self, base: str, n_train: int) -> Proposal:
        """A search over settings of a base method, with records held out."""
        try:
            find_base(base)
        except ValueError as error:
            raise SpecError(str(error), field="method", value=base) from None
        held_out: float = PrivateSearchParams.model_fields["holdout"].default
        return Proposal(max(1, round(n_train * (1 - held_out))), {"base": base}, "candidates")

    def planned(self, params: PrivateSearchParams, n_train: int) -> DpEvent:
        """The ledger of `train` on `n_train` members: the best of the trials, whatever they draw."""
        base, expected = find_base(params.base), expected_members(n_train, params)
        events: list[DpEvent] = []
        for candidate in solved_candidates(params, n_train):
            event = base.planned(candidate, expected)
            events += [] if event in events else [event]
        score = gaussian_event(score_noise(n_train, params))
        trial = ParallelDpEvent((OneOfDpEvent(tuple(events)), score))
        count = params.trial_count()
        return RepeatAndSelectDpEvent(trial, count.mean, count.shape)

    def detached(self, params: PrivateSearchParams) -> str | None:
        """As the base method."""
        base = find_base(params.base)
        usual = base.Params(**{**params.candidates[0], "epsilon": 1.0})
        return base.detached(usual) if isinstance(base, Detached) else None

    def train(self, members: Records, problem: Problem, params: PrivateSearchParams, run: Run) -> Released:
        """Run the trials and release the model of the best score."""
        members = members.to(run.device)
        count, base = len(members), find_base(params.base)
        candidates, noise = solved_candidates(params, count), score_noise(count, params)
        # Independent coins: in a split of exact sizes one record would move another.
        coins = torch.rand(count, generator=run.generator("holdout", HOST), dtype=torch.float64)
        held = (coins < params.holdout).to(run.device)
        training, validation = (members.take(rows.nonzero().flatten()) for rows in (~held, held))
        trials = params.trial_count().draw(run.generator("trials", HOST))
        drawn = torch.randint(len(candidates), (trials,), generator=run.generator("candidates", HOST))

        best: tuple[float, int, nn.Module] | None = None
        for number, choice in enumerate(drawn.tolist()):
            with run.trial(f"trial-{number}", expected_members(count, params)):
                model = base.train(training, problem, candidates[choice], run).predictor
            score = run.mechanism(
                "score",
                count_correct(model, validation),
                partial(add_gaussian_number, multiplier=noise, sensitivity=1.0, secure=False),
                sensitivity=1.0,
                scale=noise,
                event=gaussian_event(noise),
                stream="score",
                device=HOST,
            )
            log.info("trial %d, candidate %d: score %.1f (not to be published)", number, choice, score)
            if best is None or score > best[0]:
                best = score, choice, model
        ledger, aside = run.ledger(self.planned(params, count)), held.nonzero().flatten()
        if best is None:
            untrained = problem.model(run.seed("init")).to(run.device).eval()
            return Released(untrained, ledger, {"candidate": NO_CANDIDATE}, aside)
        _, winner, model = best
        if not all(bool(each.isfinite().all()) for each in model.parameters()):
            raise Diverged("winner", 0, "weights")
        return Released(model, ledger, {"candidate": float(winner)}, aside)


def expected_members(n_train: int, params: PrivateSearchParams) -> int:
    """The expected number of members that are not held out, which rates refer to; at least 1."""
    return max(1, round(n_train * (1 - params.holdout)))


def score_noise(n_train: int, params: PrivateSearchParams) -> float:
    """The standard deviation of the noise on a score, in records."""
    if params.score_noise is not None:
        return params.score_noise
    return max(LEAST_SCORE_NOISE, params.holdout * n_train / 200)


def candidate_params(params: PrivateSearchParams, n_train: int) -> list[Params]:
    """The parameters of every candidate, without their noise."""
    refuse_larger_than(n_train, params.batch_size)
    base = find_base(params.base)
    shared = {
        "steps": params.steps,
        "batch_size": min(params.batch_size, expected_members(n_train, params)),
        "delta": params.delta,
        "epsilon": params.base_epsilon,
    }
    return [base.Params(**{**shared, **candidate}) for candidate in params.candidates]


def solved_candidates(params: PrivateSearchParams, n_train: int) -> list[Params]:
    """The parameters of every candidate in a planned task."""
    if params.noises is None or len(params.noises) != len(params.candidates):
        raise SpecError(
            f"noises is {params.noises}: the noise of {len(params.candidates)} candidates must be solved for "
            "from base_epsilon before training",
            field="noises",
            value=params.noises,
            allowed=len(params.candidates),
        )
    free = find_base(params.base).free
    solved = zip(candidate_params(params, n_train), params.noises, strict=True)
    return [each.model_copy(update={free: noise}) for each, noise in solved]


@torch.no_grad()
def count_correct(model: nn.Module, records: Records) -> float:
    """The number of records with the right label; one whose logits are not finite is wrong."""
    correct = 0
    for part in pieces(records):
        logits = model(part.x)
        right = (logits.argmax(1) == part.y) & logits.isfinite().all(1)
        correct += int(right.sum())
    return float(correct)


method = PrivateSearch()
