"""Privacy losses as weighted atoms: the PLD of a custom mechanism, or of a sample of one.

An atom is a value of the privacy loss log(dP/dQ) with its mass under P, for a mechanism's worst pair (P, Q).
"""

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, NeighboringRelation
from dp_accounting.pld.pld_pmf import DensePLDPmf, PLDPmf
from scipy.stats import norm

from harness.accounting.accountants.sphere import Floats, cosine_losses
from methods.mechanisms.events import PureDpEvent, VonMisesFisherDpEvent

NODES = 2**16 + 1
"""Of a continuous loss: 40 standard deviations in steps of 0.0006."""


@dataclass(frozen=True)
class Losses:
    """The losses of one use of a mechanism. Symmetric pairs only: swapping P and Q changes nothing."""

    values: Floats
    masses: Floats
    certain: float = 0.0
    """Mass at an infinite loss: the truncated tails."""

    def sampled(self, rate: float) -> "Losses":
        """The losses when a record is sampled with probability `rate`.

        Balle, Barthe and Gaboardi 2018 (theorems 8 and 9): delta'(eps') <= rate * delta(eps) at
        e^eps' = 1 + rate (e^eps - 1) >= 1, both for Poisson sampling with add-or-remove and for a sample of
        fixed size with replace-one. The relation is symmetric, so the same curve bounds both directions, and
        a curve with its mirror image is the curve of a pair (Zhu, Dong and Wang 2022, proposition 10).
        """
        if rate == 1:
            return self
        above = self.values > 0
        loss, under_q = self.values[above], self.masses[above] * np.exp(-self.values[above])
        # log(1 + rate (e^loss - 1)) where e^loss may overflow
        less = np.logaddexp(math.log1p(-rate), math.log(rate) + loss)
        upper = (1 - rate) * under_q + rate * self.masses[above]
        certain = rate * self.certain
        middle = max(0.0, 1 - certain - float(upper.sum() + under_q.sum()))
        values, masses = np.concatenate([less, -less, [0.0]]), np.concatenate([upper, under_q, [middle]])
        return Losses(values, masses, certain)

    def distribution(self, width: float) -> PLDPmf:
        """The losses on a mesh, by connecting the dots (Doroshenko et al. 2022): a pessimistic bound.

        Each atom goes to the two mesh points beside it, in shares that keep its mass under P and under Q.
        """
        cell = np.floor(self.values / width)
        upper = self.masses * np.expm1(cell * width - self.values) / math.expm1(-width)
        lowest = int(cell.min())
        index = (cell - lowest).astype(np.int64)
        size = int(index.max()) + 2
        probabilities = np.bincount(index, self.masses - upper, size) + np.bincount(index + 1, upper, size)
        return DensePLDPmf(width, lowest, np.maximum(probabilities, 0.0), self.certain, True)


def losses(event: DpEvent, relation: NeighboringRelation) -> Losses | None:
    """The losses of one symmetric mechanism; None if they are not implemented."""
    if isinstance(event, PureDpEvent):
        share = 1 / (1 + math.exp(-event.epsilon))
        return Losses(np.array([event.epsilon, -event.epsilon]), np.array([share, 1 - share]))
    if isinstance(event, VonMisesFisherDpEvent) and covers(event, relation):
        if event.kappa == 0:
            return Losses(np.zeros(1), np.ones(1))
        return Losses(*cosine_losses(event.dimension, event.kappa, NODES))
    if isinstance(event, GaussianDpEvent):
        shift = sensitivity(relation) / event.noise_multiplier
        nodes = np.linspace(-20, 20, NODES)
        masses = norm.pdf(nodes)
        return Losses(shift * nodes + shift**2 / 2, masses / masses.sum())
    return None


def covers(event: VonMisesFisherDpEvent, relation: NeighboringRelation) -> bool:
    """Whether the event has a price under this relation: a sum of unit vectors reveals their number."""
    return relation is NeighboringRelation.REPLACE_ONE or not event.per_example


def sensitivity(relation: NeighboringRelation) -> float:
    """How far one record moves a sum of vectors of norm at most 1."""
    return 2.0 if relation is NeighboringRelation.REPLACE_ONE else 1.0


def solve_epsilon(losses: Floats, masses: Floats, delta: float) -> float:
    """Where delta(epsilon) = sum of masses (1 - e^(epsilon - loss))_+ meets delta.

    Losses ascend. 0 if delta(0) is below delta already.
    """
    above = losses > 0
    loss, mass = losses[above], np.maximum(masses[above], 0.0)

    def excess(epsilon: float, first: int) -> float:
        return float(mass[first:] @ -np.expm1(epsilon - loss[first:])) - delta

    if excess(0.0, 0) <= 0:
        return 0.0
    low, high = -1, len(loss) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if excess(loss[middle], middle) > 0 else (low, middle)
    # Between two atoms delta is linear in e^epsilon, here taken relative to the upper one.
    weighted = float(mass[high:] @ np.exp(loss[high] - loss[high:]))
    return max(0.0, float(loss[high]) + math.log((float(mass[high:].sum()) - delta) / weighted))
