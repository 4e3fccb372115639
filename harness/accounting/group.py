"""Group privacy: the guarantee for the owner of k records."""

import math

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from scipy.stats import binom

from methods.mechanisms.events import PureDpEvent
from workloads.errors import AccountingError

LARGE = 700.0
"""Beyond this epsilon e^epsilon overflows a double, and nothing is guaranteed."""


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """The delta at epsilon * size: delta (e^{k eps} - 1) / (e^eps - 1), at most 1.

    The exact sum of the k steps from one data set to the other.
    """
    _check(size)
    if epsilon < 1e-300:  # the quotient's limit
        return min(1.0, size * delta)
    if size * epsilon > LARGE:
        return 1.0 if delta else 0.0
    return min(1.0, delta * (math.expm1(size * epsilon) / math.expm1(epsilon)))


def group_event(event: DpEvent, size: int) -> DpEvent:
    """The event that `size` records together are exposed to, which has its own price.

    Much tighter than converting an epsilon. Records are sampled independently, so a binomial number of them
    is in a Poisson sample.
    """
    _check(size)
    if isinstance(event, NoOpDpEvent):
        return event
    if isinstance(event, GaussianDpEvent | LaplaceDpEvent):
        return type(event)(event.noise_multiplier / size)
    if isinstance(event, PureDpEvent):
        return PureDpEvent(size * event.epsilon)
    if isinstance(event, SelfComposedDpEvent):
        return SelfComposedDpEvent(group_event(event.event, size), event.count)
    if isinstance(event, ComposedDpEvent):
        return ComposedDpEvent([group_event(part, size) for part in event.events])
    if isinstance(event, PoissonSampledDpEvent) and isinstance(event.event, GaussianDpEvent):
        counts = range(size + 1)
        chances = np.asarray(binom.pmf(list(counts), size, event.sampling_probability))
        return MixtureOfGaussiansDpEvent(
            event.event.noise_multiplier,
            [float(count) for count in counts],
            (chances / chances.sum()).tolist(),
        )
    raise AccountingError(
        f"no group price for {event}; price it for one record and use group_delta, which is looser",
        field="event",
        value=type(event).__name__,
    )


def _check(size: int) -> None:
    if size < 1:
        raise AccountingError(
            f"a group has at least 1 record, got {size}", field="size", value=size, allowed=1
        )
