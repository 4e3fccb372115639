"""Privacy loss distributions: the tightest upper bound, and the headline price."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_laplace_mechanism

from harness.accounting.accountants.losses import Losses, losses
from harness.accounting.accountants.pure import sampling_rate
from harness.accounting.accountants.sphere import Floats
from harness.accounting.ledger import walk
from methods.mechanisms.events import ParallelDpEvent, PureDpEvent, VonMisesFisherDpEvent


def epsilon_pld(event: DpEvent, delta: float, relation: NeighboringRelation, width: float) -> float:
    """An upper bound on epsilon by composing privacy losses rounded to a mesh (Doroshenko et al. 2022).

    Rounding is pessimistic: a coarse mesh costs tightness and never validity.
    """
    return float(PrivacyLosses(relation, width).compose(event).get_epsilon(delta))


def deltas_pld(
    event: DpEvent, epsilons: Sequence[float] | Floats, relation: NeighboringRelation, width: float
) -> tuple[Floats, Floats]:
    """The whole curve: an upper bound on delta at every epsilon, negative ones included.

    First with the record under P (removing it), then with the record under Q (adding it); equal for symmetric
    losses.
    """
    found = PrivacyLosses(relation, width).compose(event)._pld
    asked = np.asarray(epsilons, dtype=np.float64)
    removed, added = (pmf.get_delta_for_epsilon(asked) for pmf in (found._pmf_remove, found._pmf_add))
    return np.asarray(removed, dtype=np.float64), np.asarray(added, dtype=np.float64)


def supports_pld(event: DpEvent, relation: NeighboringRelation) -> bool:
    """Whether the loss distribution of the event is known under this relation."""
    return bool(PLDAccountant.supports(PrivacyLosses(relation, 1.0), event))


def mesh(epsilon: float, releases: int) -> float:
    """The mesh width that costs about 1e-4 of an epsilon of this size; time is proportional to 1 / width.

    Each of T releases adds at most about width^2 to epsilon, and the loss of one release has a standard
    deviation of about epsilon / (4 sqrt(T)), which the mesh must resolve. No release adds more than the
    width itself, the better bound if a release costs hundreds. A power of two, so that a rough
    epsilon that differs in its last digits gives the same mesh and the same price.
    """
    size, count = max(epsilon, 1e-3), max(releases, 1)
    resolved = max(1e-2 * min(size, math.sqrt(size)) / math.sqrt(count), 1e-3 * size / count)
    width = min(1e-3 * size, resolved)
    return 2.0 ** math.floor(math.log2(width))


class PrivacyLosses(PLDAccountant):  # type: ignore[misc]  # dp-accounting is untyped
    """dp-accounting's PLD accountant, extended by our events."""

    _pld: PrivacyLossDistribution

    def __init__(self, relation: NeighboringRelation, width: float) -> None:
        super().__init__(relation, value_discretization_interval=width)
        self._width = width

    def _maybe_compose(self, event: DpEvent, count: int, do_compose: bool) -> Any:
        if isinstance(event, ParallelDpEvent) and len(set(map(repr, event.events))) == 1:
            # The worst of equal parts is any of them; unequal ones have no single worst distribution.
            return self._maybe_compose(event.events[0], count, do_compose)
        if isinstance(event, LaplaceDpEvent) and self.neighboring_relation is NeighboringRelation.REPLACE_ONE:
            if do_compose:
                self._add(
                    from_laplace_mechanism(
                        event.noise_multiplier, sensitivity=2, value_discretization_interval=self._width
                    ),
                    count,
                )
            return None
        found = self._losses(event)
        if found is None:
            return super()._maybe_compose(event, count, do_compose)
        if do_compose:
            self._add(PrivacyLossDistribution(found.distribution(self._width)), count)
        return None

    def _add(self, distribution: PrivacyLossDistribution, count: int) -> None:
        # If a tail's bound overflows, dp-accounting leaves that bound out.
        with np.errstate(over="ignore"):
            self._pld = self._pld.compose(distribution.self_compose(count))

    def _losses(self, event: DpEvent) -> Losses | None:
        """The losses of events that dp-accounting does not support; None for its own."""
        relation = self.neighboring_relation
        if isinstance(event, PureDpEvent | VonMisesFisherDpEvent):
            return losses(event, relation)
        rate = sampling_rate(event, relation)
        if rate is None:
            return None
        # A Poisson sample of a Gaussian has a tighter price in dp-accounting.
        ours = isinstance(event.event, PureDpEvent | VonMisesFisherDpEvent)
        if not ours and not isinstance(event, SampledWithoutReplacementDpEvent):
            return None
        together = isinstance(event.event, ComposedDpEvent | SelfComposedDpEvent)
        whole = self._together(event.event) if together else losses(event.event, relation)
        if whole is None:
            return None
        return whole.sampled(rate) if rate > 0 else Losses(np.zeros(1), np.ones(1))

    def _together(self, event: DpEvent) -> Losses | None:
        """The losses of several of our mechanisms on one sample, on the mesh."""
        mechanisms = [
            part for part in walk(event) if not isinstance(part, ComposedDpEvent | SelfComposedDpEvent)
        ]
        if not all(isinstance(each, PureDpEvent | VonMisesFisherDpEvent) for each in mechanisms) or any(
            losses(each, self.neighboring_relation) is None for each in mechanisms
        ):
            return None
        found = PrivacyLosses(self.neighboring_relation, self._width).compose(event)._pld._pmf_remove
        table = found.to_dense_pmf()
        values = self._width * (table._lower_loss + np.arange(len(table._probs)))
        # Convolution leaves rounding errors below zero.
        return Losses(values, np.maximum(table._probs, 0.0), table._infinity_mass)
