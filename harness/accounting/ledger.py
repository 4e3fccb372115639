"""The events that have a price, what each assumes, and their description as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attr
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent, RepeatAndSelectDpEvent

from harness.accounting.adjacency import ADD_OR_REMOVE, REPLACE_ONE
from harness.accounting.numbers import Impossible, find_impossible
from methods.mechanisms.events import (
    ClaimedDpEvent,
    MetricDpEvent,
    NoisyVotesDpEvent,
    OneOfDpEvent,
    ParallelDpEvent,
    PureDpEvent,
    SelectiveReleaseDpEvent,
    VonMisesFisherDpEvent,
)
from workloads.errors import AccountingError

PUBLIC = "all intermediate releases are public"
PUBLIC_SIZE = "the number of records is public"
"""Of every price: members are drawn in a fixed number, by which sampling rates are computed."""

ASSUMPTIONS: dict[type[DpEvent], tuple[str, ...]] = {
    NoOpDpEvent: (),
    NonPrivateDpEvent: (),
    GaussianDpEvent: (
        "one record changes a released sum by at most the clipping norm, and every coordinate gets "
        "Gaussian noise of noise_multiplier times that norm",
    ),
    LaplaceDpEvent: (
        "one record changes a released sum by at most a known L1 norm, and every coordinate gets "
        "Laplace noise with noise_multiplier times that norm as its scale",
    ),
    MixtureOfGaussiansDpEvent: (
        "the records of one group enter every batch independently, each with its own influence bounded",
    ),
    PoissonSampledDpEvent: ("every record enters every batch independently with the stated probability",),
    SampledWithoutReplacementDpEvent: (
        "every batch is a fresh uniform sample of the stated size without replacement",
    ),
    ComposedDpEvent: (PUBLIC,),
    SelfComposedDpEvent: (PUBLIC,),
    ZCDpEvent: ("the mechanism's concentrated-DP parameters were proved elsewhere",),
    RepeatAndSelectDpEvent: (
        "the number of trials was drawn from the stated distribution, independently of the data, and only "
        "the best trial is released (Papernot and Steinke 2022)",
    ),
    PureDpEvent: ("the mechanism's pure epsilon was proved elsewhere",),
    MetricDpEvent: ("no two records are further apart than the stated diameter of the metric",),
    VonMisesFisherDpEvent: (
        "only directions are released, each drawn from the von Mises-Fisher distribution around the true "
        "one; lengths are not used",
    ),
    ParallelDpEvent: ("every record is in exactly one part, and the parts were made without looking at it",),
    OneOfDpEvent: ("which of the parts was run was drawn independently of the data",),
    NoisyVotesDpEvent: (
        "one record is in the shard of one teacher and so moves one vote; queries do not depend on "
        "unreleased private data",
    ),
    SelectiveReleaseDpEvent: (
        "every attempt is paid for, accepted or not; how many attempts there may be was fixed beforehand "
        "or decided by a privacy filter",
    ),
    ClaimedDpEvent: (),
}
"""The events that have a price, each with what its mechanism must have done."""

BY_REPLACEMENT = (SampledWithoutReplacementDpEvent, VonMisesFisherDpEvent)
"""Events on data sets of a fixed public size: neighbours differ by a replaced record."""


def check_priceable(event: DpEvent) -> None:
    """AccountingError if an event has no price or holds impossible numbers."""
    for part in walk(event):
        if type(part) not in ASSUMPTIONS:
            known, name = sorted(kind.__name__ for kind in ASSUMPTIONS), type(part).__name__
            raise AccountingError(
                f"no price for the event {name}; a ledger may hold: {', '.join(known)}",
                field="event",
                value=name,
                allowed=known,
            )
        problem = find_impossible(part)
        if problem:
            raise AccountingError(_describe_impossible(problem), **problem._asdict())


def _describe_impossible(problem: Impossible) -> str:
    return f"impossible event in a ledger: {problem.field} must be {problem.allowed}, got {problem.value}"


def is_private(event: DpEvent) -> bool:
    """False if some part of a priceable event releases data without noise."""
    if isinstance(event, PoissonSampledDpEvent) and event.sampling_probability == 0:
        return True
    if isinstance(event, NonPrivateDpEvent):
        return False
    if isinstance(event, SelectiveReleaseDpEvent | ClaimedDpEvent) and event.unpaid:
        return False
    noise = getattr(event, "noise_multiplier", getattr(event, "standard_deviation", None))
    if noise == 0 or (isinstance(event, NoisyVotesDpEvent) and event.noise == 0):
        return False
    return all(is_private(part) for part in parts(event))


def count_releases(event: DpEvent) -> int:
    """The number of releases in an event; 0 for an empty one."""
    if isinstance(event, NoOpDpEvent):
        return 0
    if isinstance(event, SelfComposedDpEvent):
        return int(event.count) * count_releases(event.event)
    if isinstance(event, ComposedDpEvent):
        return sum(count_releases(part) for part in event.events)
    if isinstance(event, ParallelDpEvent | OneOfDpEvent):
        return max((count_releases(part) for part in event.events), default=0)
    return 1


def check_search(whole: DpEvent, trials: Sequence[DpEvent], beside: Sequence[tuple[DpEvent, int]]) -> None:
    """AccountingError unless `whole` covers a search: the best of several trials.

    Args:
        whole: The event of the search. The first part of a trial is its training, the others are what each
            trial releases about other records, such as its score.
        trials: The event of every training.
        beside: The other releases, each with its count.
    """
    if not isinstance(whole, RepeatAndSelectDpEvent):
        raise AccountingError(
            f"{len(trials)} trials were run, of which a RepeatAndSelectDpEvent is the ledger, got {whole}",
            field="ledger",
            value=type(whole).__name__,
            allowed="RepeatAndSelectDpEvent",
        )
    training, *others = whole.event.events if isinstance(whole.event, ParallelDpEvent) else [whole.event]
    candidates = training.events if isinstance(training, OneOfDpEvent) else (training,)
    for event in trials:
        if event not in candidates:
            raise AccountingError(
                f"a trial released {event}, which is none of the ledger's candidates",
                field="trial",
                value=event,
                allowed=candidates,
            )
    for event, count in beside:
        if event not in others or count > len(trials):
            raise AccountingError(
                f"{count} x {event} beside {len(trials)} trials is not covered by the ledger",
                field="beside",
                value=(event, count),
                allowed=tuple((each, len(trials)) for each in others),
            )


def natural_adjacency(event: DpEvent) -> str:
    """The adjacency of an event: replace-one if it fixes the number of records."""
    fixed = any(
        isinstance(part, BY_REPLACEMENT) and getattr(part, "per_example", True) for part in walk(event)
    )
    return REPLACE_ONE if fixed else ADD_OR_REMOVE


def assumptions(event: DpEvent) -> tuple[str, ...]:
    """Everything a price of the event assumes, each statement once."""
    found = [line for part in walk(event) for line in ASSUMPTIONS[type(part)]]
    return tuple(dict.fromkeys([*found, PUBLIC_SIZE]))


def expand(event: DpEvent, charge: str = "all_attempts") -> DpEvent:
    """The same event in terms that every accountant supports, without reading private data.

    A metric guarantee becomes a pure one, votes become noisy counts, and selective release becomes all its
    attempts; with charge = "paper" only the accepted ones, as Fu et al. 2024 count. A claim becomes what is
    claimed.
    """
    if isinstance(event, MetricDpEvent):
        return PureDpEvent(event.epsilon * event.diameter)
    if isinstance(event, NoisyVotesDpEvent):
        return expand_votes(event)
    if isinstance(event, SelectiveReleaseDpEvent):
        count = event.accepted if charge == "paper" else event.attempts
        return repeat(expand(event.event, charge), count)
    if isinstance(event, ClaimedDpEvent):
        return expand(event.event, charge)
    if isinstance(event, ComposedDpEvent):
        return ComposedDpEvent([expand(part, charge) for part in event.events])
    if isinstance(event, ParallelDpEvent | OneOfDpEvent):
        return attr.evolve(event, events=tuple(expand(part, charge) for part in event.events))
    if isinstance(getattr(event, "event", None), DpEvent):
        return attr.evolve(event, event=expand(event.event, charge))
    return event


def expand_votes(event: NoisyVotesDpEvent) -> DpEvent:
    """The noisy counts behind the labels: one moved vote changes two counts by one, the largest by one."""
    queries = len(event.votes)
    if event.aggregator == "laplace":
        return repeat(LaplaceDpEvent(event.noise), 2 * queries)
    count = GaussianDpEvent(event.noise / 2**0.5)
    if event.aggregator == "gaussian":
        return repeat(count, queries)
    answers = sum(event.answered) if event.answered else queries
    if event.most_answers is not None:
        answers = event.most_answers
    return ComposedDpEvent([repeat(GaussianDpEvent(event.threshold_noise), queries), repeat(count, answers)])


def repeat(event: DpEvent, count: int) -> DpEvent:
    """The event `count` times; no event if that is 0."""
    return SelfComposedDpEvent(event, count) if count else NoOpDpEvent()


def walk(event: DpEvent) -> Iterator[DpEvent]:
    """The event and all events inside it."""
    yield event
    for part in parts(event):
        yield from walk(part)


def parts(event: DpEvent) -> list[DpEvent]:
    """The events directly inside an event."""
    inside: list[DpEvent] = []
    for field in attr.fields(type(event)):
        value = getattr(event, field.name)
        inside += [value] if isinstance(value, DpEvent) else []
        if isinstance(value, Sequence) and not isinstance(value, str):
            inside += [each for each in value if isinstance(each, DpEvent)]
    return inside


def describe(value: Any) -> Any:
    """An event as plain JSON values: equal events, and only those, have equal descriptions."""
    if isinstance(value, DpEvent):
        fields = {f.name: describe(getattr(value, f.name)) for f in attr.fields(type(value))}
        return {"event": f"{type(value).__module__}.{type(value).__qualname__}", **fields}
    if isinstance(value, Mapping):
        return {str(key): describe(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [describe(each) for each in value]
    if isinstance(value, float):
        return repr(float(value))
    return value if isinstance(value, str | int | bool | None) else repr(value)
