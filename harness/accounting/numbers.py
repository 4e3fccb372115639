"""The numbers an event may hold, and the bound that an impossible one breaks."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent, RepeatAndSelectDpEvent

from methods.mechanisms.events import (
    MetricDpEvent,
    NoisyVotesDpEvent,
    PureDpEvent,
    SelectiveReleaseDpEvent,
    VonMisesFisherDpEvent,
)
from workloads.errors import AccountingError

Rule = tuple[str, Callable[[Any], bool], str]
"""A field, the condition on its value, and the condition in words. NaN fails every comparison here."""


class Impossible(NamedTuple):
    """A field whose value breaks its bound."""

    field: str
    value: object
    allowed: str


def check_delta(delta: float | None) -> float:
    """The delta; AccountingError unless it lies strictly between 0 and 1."""
    if delta is None or not 0 < delta < 1:
        raise AccountingError(
            f"delta must be > 0 and < 1, got {delta}", field="delta", value=delta, allowed=(0, 1)
        )
    return delta


def _amount(value: Any) -> bool:
    return bool(0 <= value < math.inf)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


AMOUNT = ">= 0 and finite"
COUNT = "a whole number >= 1"

RULES: dict[type[DpEvent], tuple[Rule, ...]] = {
    GaussianDpEvent: (("noise_multiplier", _amount, AMOUNT),),
    LaplaceDpEvent: (("noise_multiplier", _amount, AMOUNT),),
    PoissonSampledDpEvent: (("sampling_probability", lambda q: 0 <= q <= 1, "in [0, 1]"),),
    SelfComposedDpEvent: (("count", _count, COUNT),),
    SampledWithoutReplacementDpEvent: (
        ("source_dataset_size", _count, COUNT),
        ("sample_size", _count, COUNT),
    ),
    ZCDpEvent: (("rho", _amount, AMOUNT), ("xi", _amount, AMOUNT)),
    RepeatAndSelectDpEvent: (
        ("mean", lambda mean: 1 <= mean < math.inf, ">= 1 and finite"),
        ("shape", lambda shape: shape >= 0, ">= 0"),
    ),
    MixtureOfGaussiansDpEvent: (
        ("standard_deviation", _amount, AMOUNT),
        ("sampling_probs", lambda chances: abs(sum(chances) - 1) < 1e-9, "probabilities that add up to 1"),
    ),
    PureDpEvent: (("epsilon", _amount, AMOUNT),),
    MetricDpEvent: (("epsilon", _amount, AMOUNT), ("diameter", _amount, AMOUNT)),
    VonMisesFisherDpEvent: (
        ("dimension", lambda size: _count(size) and size >= 2, "a whole number >= 2"),
        ("kappa", _amount, AMOUNT),
    ),
    NoisyVotesDpEvent: (
        (
            "aggregator",
            lambda name: name in ("laplace", "gaussian", "confident"),
            "laplace, gaussian or confident",
        ),
        ("noise", _amount, AMOUNT),
        ("threshold_noise", _amount, AMOUNT),
        ("votes", lambda rows: all(_is_row(row) for row in rows), "rows of at least two counts >= 0"),
    ),
    SelectiveReleaseDpEvent: (
        ("attempts", _whole, "a whole number >= 0"),
        ("accepted", _whole, "a whole number >= 0"),
        ("beta", lambda beta: beta == beta, "a number"),
        ("charge", lambda name: name in ("all_attempts", "paper"), "all_attempts or paper"),
    ),
}


def find_impossible(event: DpEvent) -> Impossible | None:
    """The first impossible number of an event; None if all are possible."""
    for name, holds, bound in RULES.get(type(event), ()):
        value = getattr(event, name)
        if not holds(value):
            return Impossible(name, value, bound)
    return _disagreement(event)


def _disagreement(event: DpEvent) -> Impossible | None:
    """Two fields that contradict each other."""
    if isinstance(event, SampledWithoutReplacementDpEvent) and event.sample_size > event.source_dataset_size:
        bound = f"at most source_dataset_size, {event.source_dataset_size}"
        return Impossible("sample_size", event.sample_size, bound)
    if isinstance(event, SelectiveReleaseDpEvent) and event.accepted > event.attempts:
        return Impossible("accepted", event.accepted, f"at most attempts, {event.attempts}")
    if isinstance(event, NoisyVotesDpEvent):
        if event.aggregator == "confident" and event.noise and not event.threshold_noise:
            return Impossible("threshold_noise", event.threshold_noise, "> 0 for a confident vote")
        if event.answered and len(event.answered) != len(event.votes):
            return Impossible("answered", event.answered, f"one entry per query, {len(event.votes)} in all")
        if event.most_answers is not None and not sum(event.answered) <= event.most_answers:
            bound = f"at least the {sum(event.answered)} answered"
            return Impossible("most_answers", event.most_answers, bound)
    return None


def _is_row(row: Any) -> bool:
    return len(row) >= 2 and all(_whole(count) for count in row)
