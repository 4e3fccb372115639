"""Rényi accounting: fast, valid, slightly loose. The check on PLD and the first guess of calibration."""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attr
import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from dp_accounting.rdp import RdpAccountant, compute_epsilon

from harness.accounting.accountants.losses import covers
from harness.accounting.accountants.pure import amplified, epsilon_pure, renyi_pure, sampling_rate
from harness.accounting.accountants.renyi import renyi_mixture, renyi_sampled
from harness.accounting.accountants.sphere import Floats, renyi_von_mises_fisher
from methods.mechanisms.events import OneOfDpEvent, ParallelDpEvent, PureDpEvent, VonMisesFisherDpEvent

ORDERS = tuple([1 + x / 10 for x in range(1, 100)] + list(range(11, 64)) + [128, 256, 512])
WHOLE_ORDERS = (*range(2, 64), 128, 256, 512)
"""Closed forms instead of series: much faster, looser for a large epsilon. Good for a guess."""

ODDS = (2.5, 4.0, 10.0)
"""One loss in this many is cut off on either side by a lower bound; the best of these counts."""
ROUNDING = 1e-9
"""Added to every Rényi divergence: rounding makes tiny ones negative, and dp-accounting then returns 0."""


def epsilon_rdp(
    event: DpEvent,
    delta: float,
    relation: NeighboringRelation,
    orders: Sequence[float] = ORDERS,
) -> float:
    """An upper bound on epsilon: Mironov, Talwar and Zhang 2019, conversion of Balle et al. 2020.

    Orders at which the series does not converge or overflows are left out, which only raises the bound.
    """
    return convert(orders, divergences(event, relation, orders), delta)


def divergences(event: DpEvent, relation: NeighboringRelation, orders: Sequence[float] = ORDERS) -> Floats:
    """An upper bound on D_a at every order; infinite if it could not be computed."""
    with _quiet(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = Renyi(orders, relation).compose(event).rdp
    return np.where(np.isnan(found), np.inf, np.maximum(found, 0) + ROUNDING)


def convert(orders: Sequence[float], found: Floats, delta: float) -> float:
    """The improved conversion (Balle et al. 2020; Canonne, Kamath and Steinke 2020)."""
    return float(compute_epsilon(orders, found, delta)[0])


def convert_classic(orders: Sequence[float], found: Floats, delta: float) -> float:
    """The conversion of Mironov 2017 that older papers print: D_a + log(1 / delta) / (a - 1)."""
    return max(0.0, float(np.min(found + math.log(1 / delta) / (np.asarray(orders) - 1))))


def epsilon_proved(orders: Sequence[float], found: Floats, delta: float) -> float:
    """A lower bound on epsilon from the exact divergences of one pair: Chernoff's bound reversed.

    With M(t) = t D_{1+t}, tilt the distribution of the loss L by e^{tL - M(t)}. By Markov's inequality at two
    other orders, L then lies between `low` and `high` but for a share 2 / odds. Hence P[L >= low] is at least
    (1 - 2 / odds) e^{M(t) - t high}, and delta(eps) >= (1 - e^{eps - low}) P[L >= low].
    """
    # At other orders the series for a sampled Gaussian is an upper bound, up to several times too large.
    exact = np.isfinite(found) & (np.mod(orders, 1) == 0)
    # E[e^{tL}] is 1 at t = 0, and at t = -1, where it sums the other distribution.
    tilts = np.concatenate([[-1.0, 0.0], np.asarray(orders, dtype=np.float64)[exact] - 1])
    moments = np.concatenate([[0.0, 0.0], tilts[2:] * np.maximum(found[exact] - ROUNDING, 0.0)])
    steps, rises = tilts[None, :] - tilts[:, None], moments[None, :] - moments[:, None]
    best = 0.0
    for odds in ODDS:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            high = np.where(steps > 0, (rises + math.log(odds)) / steps, np.inf).min(axis=1)
            low = np.where(steps < 0, (rises + math.log(odds)) / steps, -np.inf).max(axis=1)
            chance = (1 - 2 / odds) * np.exp(moments - tilts * high)
            proved = np.where(chance > delta, low + np.log1p(-delta / chance), 0.0)
        best = max(best, float(proved[tilts > 0].max(initial=0.0)))
    return best


def has_exact_divergences(event: DpEvent, relation: NeighboringRelation) -> bool:
    """Whether the divergences at whole orders are exact for one pair of neighbours, not only bounds."""
    if isinstance(event, ComposedDpEvent):
        return all(has_exact_divergences(part, relation) for part in event.events)
    if isinstance(event, SelfComposedDpEvent):
        return has_exact_divergences(event.event, relation)
    if isinstance(event, PoissonSampledDpEvent):
        return isinstance(event.event, GaussianDpEvent) and relation is not NeighboringRelation.REPLACE_ONE
    return isinstance(
        event, NoOpDpEvent | GaussianDpEvent | LaplaceDpEvent | PureDpEvent | VonMisesFisherDpEvent
    )


def supports_rdp(event: DpEvent, relation: NeighboringRelation) -> bool:
    """Whether Rényi accounting has a theorem for the event under this relation."""
    return bool(Renyi(ORDERS, relation).supports(event))


class Renyi(RdpAccountant):  # type: ignore[misc]  # dp-accounting is untyped
    """dp-accounting's RDP accountant, with our events and the full sensitivity under replace-one.

    A GaussianDpEvent's noise is relative to the norm of one record. Replacing a record moves the sum by twice
    that norm; dp-accounting's PLD counts it so, its RDP does not.
    """

    _rdp: Floats

    def _maybe_compose(self, event: DpEvent, count: int, do_compose: bool) -> Any:
        if isinstance(event, ParallelDpEvent | OneOfDpEvent):
            return self._largest(event, count, do_compose)
        if not self._is_ours(event):
            return super()._maybe_compose(self._full_reach(event), count, do_compose)
        if do_compose:
            self._rdp += count * self._divergence(event, np.asarray(self._orders, dtype=np.float64))
        return None

    def _is_ours(self, event: DpEvent) -> bool:
        if isinstance(event, VonMisesFisherDpEvent):
            return covers(event, self.neighboring_relation)
        if isinstance(event, PureDpEvent):
            return True
        if isinstance(event, MixtureOfGaussiansDpEvent):
            return self.neighboring_relation is not NeighboringRelation.REPLACE_ONE
        sampled = isinstance(event, PoissonSampledDpEvent | SampledWithoutReplacementDpEvent)
        return (
            sampled
            and self._is_ours_inside(event.event)
            and sampling_rate(event, self.neighboring_relation) is not None
        )

    def _is_ours_inside(self, event: DpEvent) -> bool:
        if isinstance(event, ComposedDpEvent):
            return all(self._is_ours_inside(part) for part in event.events)
        if isinstance(event, SelfComposedDpEvent):
            return self._is_ours_inside(event.event)
        if isinstance(event, PureDpEvent | VonMisesFisherDpEvent):
            return self._is_ours(event)
        return isinstance(event, LaplaceDpEvent)

    def _divergence(self, event: DpEvent, orders: Floats) -> Floats:
        """D_a of one use of a custom event."""
        if isinstance(event, VonMisesFisherDpEvent):
            return renyi_von_mises_fisher(event.dimension, event.kappa, orders)
        if isinstance(event, PureDpEvent):
            return renyi_pure(event.epsilon, orders)
        if isinstance(event, ComposedDpEvent):
            return np.asarray(np.sum([self._divergence(part, orders) for part in event.events], axis=0))
        if isinstance(event, SelfComposedDpEvent):
            return np.asarray(event.count * self._divergence(event.event, orders))
        if isinstance(event, MixtureOfGaussiansDpEvent):
            return renyi_mixture(event.standard_deviation, event.sensitivities, event.sampling_probs, orders)
        rate = sampling_rate(event, self.neighboring_relation)
        pure = epsilon_pure(event.event, self.neighboring_relation)
        if rate is None or pure is None:
            raise TypeError(f"not a custom event: {event}")
        # A mechanism that is (epsilon, 0)-DP stays so on a sample, with a smaller epsilon.
        found = renyi_pure(amplified(pure, rate), orders)
        inner = event.event
        if isinstance(event, SampledWithoutReplacementDpEvent) and holds_directions_only(inner):
            found = np.minimum(found, renyi_sampled(lambda a: self._divergence(inner, a), pure, rate, orders))
        return found

    def _full_reach(self, event: DpEvent) -> DpEvent:
        """The event with its noise halved under replace-one, where one record moves a sum by two norms."""
        if self.neighboring_relation is not NeighboringRelation.REPLACE_ONE:
            return event
        # The event inside a sample is never visited on its own; compositions are, part by part.
        if isinstance(event, SampledWithoutReplacementDpEvent):
            return attr.evolve(event, event=_halve(event.event))
        return _halve(event) if isinstance(event, GaussianDpEvent | LaplaceDpEvent) else event

    def _largest(self, event: ParallelDpEvent | OneOfDpEvent, count: int, do_compose: bool) -> Any:
        """Disjoint parts, or one of several: at every order the largest of their divergences."""
        before, largest = self._rdp, np.zeros_like(self._orders, dtype=np.float64)
        for part in event.events:
            if do_compose:
                self._rdp = np.zeros_like(largest)
            problem = self._maybe_compose(part, 1, do_compose)
            if problem is not None:
                return problem
            largest = np.maximum(largest, self._rdp) if do_compose else largest
        if do_compose:
            self._rdp = before + count * largest
        return None


def holds_directions_only(event: DpEvent) -> bool:
    """Whether an event is one or several von Mises-Fisher draws."""
    if isinstance(event, ComposedDpEvent):
        return all(holds_directions_only(part) for part in event.events)
    if isinstance(event, SelfComposedDpEvent):
        return holds_directions_only(event.event)
    return isinstance(event, VonMisesFisherDpEvent)


def _halve(event: DpEvent) -> DpEvent:
    """The event with half the noise everywhere inside."""
    if isinstance(event, GaussianDpEvent | LaplaceDpEvent):
        return type(event)(event.noise_multiplier / 2)
    if isinstance(event, SelfComposedDpEvent):
        return SelfComposedDpEvent(_halve(event.event), event.count)
    if isinstance(event, ComposedDpEvent):
        return ComposedDpEvent([_halve(part) for part in event.events])
    return event


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence dp-accounting's warnings about skipped orders."""
    logger = logging.getLogger("absl")
    logger.addFilter(_is_no_note)
    try:
        yield
    finally:
        logger.removeFilter(_is_no_note)


def _is_no_note(record: logging.LogRecord) -> bool:
    return "failed to converge" not in str(record.msg)
