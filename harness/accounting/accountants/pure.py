"""Pure differential privacy: epsilons without a delta, and the rules they compose by."""

import math

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from numpy.typing import ArrayLike

from harness.accounting.accountants.losses import covers, sensitivity
from harness.accounting.accountants.sphere import Floats
from methods.mechanisms.events import OneOfDpEvent, ParallelDpEvent, PureDpEvent, VonMisesFisherDpEvent


def epsilon_pure(event: DpEvent, relation: NeighboringRelation) -> float | None:
    """The epsilon at delta = 0 by basic composition; None if it is infinite."""
    if isinstance(event, NoOpDpEvent):
        return 0.0
    if isinstance(event, PureDpEvent):
        return float(event.epsilon)
    if isinstance(event, LaplaceDpEvent):
        return sensitivity(relation) / float(event.noise_multiplier)
    if isinstance(event, VonMisesFisherDpEvent):
        return 2 * event.kappa if covers(event, relation) else None
    if isinstance(event, ComposedDpEvent | ParallelDpEvent | OneOfDpEvent):
        found = [epsilon_pure(part, relation) for part in event.events]
        known = [epsilon for epsilon in found if epsilon is not None]
        if len(known) < len(found):
            return None
        return math.fsum(known) if isinstance(event, ComposedDpEvent) else max(known, default=0.0)
    inner = getattr(event, "event", None)
    base = epsilon_pure(inner, relation) if inner is not None else None
    if base is None:
        return None
    if isinstance(event, SelfComposedDpEvent):
        return float(event.count * base)
    if isinstance(event, RepeatAndSelectDpEvent):
        return (2 + event.shape) * base if math.isfinite(event.shape) else None
    rate = sampling_rate(event, relation)
    return None if rate is None else amplified(base, rate)


def sampling_rate(event: DpEvent, relation: NeighboringRelation) -> float | None:
    """The probability that a record is sampled, if amplification has a theorem under this relation.

    Poisson sampling belongs to add-or-remove, a sample of fixed size to replace-one.
    """
    if isinstance(event, PoissonSampledDpEvent) and relation is not NeighboringRelation.REPLACE_ONE:
        return float(event.sampling_probability)
    if isinstance(event, SampledWithoutReplacementDpEvent) and relation is NeighboringRelation.REPLACE_ONE:
        return float(event.sample_size / event.source_dataset_size)
    return None


def amplified(epsilon: float, rate: float) -> float:
    """log(1 + rate (e^epsilon - 1)): the epsilon of a sample (Balle, Barthe and Gaboardi 2018)."""
    if rate in (0, 1):
        return rate * epsilon
    if epsilon > 1:
        return float(np.logaddexp(math.log1p(-rate), math.log(rate) + epsilon))
    return math.log1p(rate * math.expm1(epsilon))


def renyi_pure(epsilon: float, orders: ArrayLike) -> Floats:
    """The largest D_a that (epsilon, 0)-DP allows: that of randomised response.

    log((sinh(a e) - sinh((a - 1) e)) / sinh e) / (a - 1) (Bun and Steinke 2016, proposition 3.3), in
    the form log((e^{(a-1) e} + e^{-a e}) / (1 + e^{-e})) / (a - 1) that cannot overflow.
    """
    orders = np.asarray(orders, dtype=np.float64)
    top = np.logaddexp((orders - 1) * epsilon, -orders * epsilon) - np.logaddexp(0.0, -epsilon)
    # The two logarithms cancel for a small epsilon; a e^2 / 2 bounds it there.
    bound = np.maximum(top, 0.0) / (orders - 1) + 1e-15
    return np.asarray(np.minimum(bound, orders * epsilon**2 / 2))
