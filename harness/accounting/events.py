"""Which events have a price, what each takes for granted, and how to write one down."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attr
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

from workloads.errors import AccountingError

ASSUMPTIONS: dict[type[DpEvent], tuple[str, ...]] = {
    NoOpDpEvent: (),
    NonPrivateDpEvent: (),
    GaussianDpEvent: (
        "one record changes a released sum by at most the clipping norm, and every coordinate gets "
        "Gaussian noise of noise_multiplier times that norm",
    ),
    PoissonSampledDpEvent: ("every record enters every batch independently with the stated probability",),
    ComposedDpEvent: ("all intermediate releases are public",),
    SelfComposedDpEvent: ("all intermediate releases are public",),
}
"""The events that have a price, each with what its mechanism must really have done."""


def check_priceable(event: DpEvent) -> None:
    """An event that is not in the list, or has impossible numbers, is an AccountingError."""
    for part in walk(event):
        if type(part) not in ASSUMPTIONS:
            known = ", ".join(sorted(kind.__name__ for kind in ASSUMPTIONS))
            raise AccountingError(
                f"no price for the event {type(part).__name__}; the ledger may hold: {known}"
            )
        problem = _impossible(part)
        if problem:
            raise AccountingError(f"impossible event in a ledger: {problem}")


def is_private(event: DpEvent) -> bool:
    """False where some part of a priceable event gives data away without noise."""
    if isinstance(event, PoissonSampledDpEvent) and event.sampling_probability == 0:
        return True
    if isinstance(event, NonPrivateDpEvent):
        return False
    if isinstance(event, GaussianDpEvent) and event.noise_multiplier == 0:
        return False
    return all(is_private(part) for part in parts(event))


def count_releases(event: DpEvent) -> int:
    """How many times something about the data is let out; 0 where the event is made of nothing."""
    if isinstance(event, NoOpDpEvent):
        return 0
    if isinstance(event, SelfComposedDpEvent):
        return int(event.count) * count_releases(event.event)
    if isinstance(event, ComposedDpEvent):
        return sum(count_releases(part) for part in event.events)
    return 1


def assumptions(event: DpEvent) -> tuple[str, ...]:
    """Everything the event takes for granted, each statement once."""
    found = [line for part in walk(event) for line in ASSUMPTIONS[type(part)]]
    return tuple(dict.fromkeys(found))


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
    """An event as plain JSON values: equal events, and only they, give equal descriptions."""
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


def _impossible(event: DpEvent) -> str | None:
    """What is wrong with the numbers of one event; comparisons are written so that NaN fails them."""
    if isinstance(event, GaussianDpEvent) and not 0 <= event.noise_multiplier < math.inf:
        return f"noise_multiplier must be >= 0 and finite, got {event.noise_multiplier}"
    if isinstance(event, PoissonSampledDpEvent) and not 0 <= event.sampling_probability <= 1:
        return f"sampling_probability must be in [0, 1], got {event.sampling_probability}"
    if isinstance(event, SelfComposedDpEvent) and not (isinstance(event.count, int) and event.count >= 1):
        return f"count must be a whole number >= 1, got {event.count}"
    return None
