"""The ceiling a guarantee puts on any membership attack: TPR at an FPR, AUC, balanced accuracy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, SelfComposedDpEvent
from scipy.special import ndtr, ndtri

from harness.accounting.accountants.losses import sensitivity
from harness.accounting.accountants.pld import deltas_pld, mesh, supports_pld
from harness.accounting.accountants.rdp import epsilon_rdp, supports_rdp
from harness.accounting.adjacency import find_relation
from harness.accounting.guarantee import Guarantee
from harness.accounting.ledger import (
    check_priceable,
    count_releases,
    expand,
    is_private,
    natural_adjacency,
)
from workloads.errors import AccountingError

CURVE_DELTA = 1e-5
"""At which epsilon measures a curve's width; it sets the mesh, not whether the answer is valid."""
POINTS = 4001


@dataclass(frozen=True)
class Ceiling:
    """The largest TPR any attack can have at an FPR, and what that rests on."""

    fpr: float
    tpr: float
    basis: str
    """`gaussian` (exact), `pld` (the whole curve), `epsilon-delta` (one point of it) or `none`."""


def tpr_ceiling(source: DpEvent | Guarantee, fpr: float, adjacency: str | None = None) -> Ceiling:
    """The ceiling from an event, by its whole trade-off curve, or from a guarantee, by its (epsilon, delta).

    An event gives the tighter one. Gaussians are exact; else the curve comes from the PLD by duality:
    TPR <= delta(eps) + e^eps FPR at every eps (Dong, Roth and Su 2022).
    """
    return tpr_ceilings(source, [fpr], adjacency)[0]


def tpr_ceilings(
    source: DpEvent | Guarantee, fprs: Sequence[float], adjacency: str | None = None
) -> tuple[Ceiling, ...]:
    """The ceilings at several false positive rates, from one curve."""
    for fpr in fprs:
        if not 0 <= fpr <= 1:
            raise AccountingError(f"the false positive rate must be from 0 to 1, got {fpr}")
    if isinstance(source, Guarantee):
        return tuple(_from_guarantee(source, fpr) for fpr in fprs)
    check_priceable(source)
    if not is_private(source):
        return tuple(Ceiling(fpr, 1.0, "none") for fpr in fprs)
    plain = expand(source)
    relation = find_relation(adjacency or natural_adjacency(source))
    inverse = inverse_variance(plain)
    if inverse is not None:
        mu = sensitivity(relation) * math.sqrt(inverse)
        return tuple(Ceiling(fpr, tpr_from_gaussian(mu, fpr), "gaussian") for fpr in fprs)
    if not supports_pld(plain, relation) or not supports_rdp(plain, relation):
        raise AccountingError(
            f"no trade-off curve for {plain}: its privacy losses are not known; take the ceiling of its price"
        )
    size = epsilon_rdp(plain, CURVE_DELTA, relation)
    width = mesh(size, count_releases(plain))
    epsilons = np.linspace(-1.5 * size - 1, 1.5 * size + 1, POINTS)
    deltas = deltas_pld(plain, epsilons, relation, width)
    slopes = np.exp(np.minimum(epsilons, 700.0))
    return tuple(Ceiling(fpr, float(min(1.0, (deltas + slopes * fpr).min())), "pld") for fpr in fprs)


def _from_guarantee(promise: Guarantee, fpr: float) -> Ceiling:
    if promise.epsilon is None:
        return Ceiling(fpr, 1.0, "none")
    return Ceiling(fpr, tpr_from_epsilon(promise.epsilon, promise.delta or 0.0, fpr), "epsilon-delta")


def inverse_variance(event: DpEvent) -> float | None:
    """The sum of 1 / noise^2 where the event is made of Gaussians only; None where it is not."""
    if isinstance(event, GaussianDpEvent):
        return 1 / float(event.noise_multiplier) ** 2
    if isinstance(event, SelfComposedDpEvent):
        inner = inverse_variance(event.event)
        return None if inner is None else int(event.count) * inner
    if isinstance(event, ComposedDpEvent):
        found = [inverse_variance(part) for part in event.events]
        known = [each for each in found if each is not None]
        return math.fsum(known) if len(known) == len(found) else None
    return None


def tpr_from_epsilon(epsilon: float, delta: float, fpr: float) -> float:
    """Kairouz et al. 2015: the least of 1, delta + e^eps FPR and 1 - e^-eps (1 - delta - FPR)."""
    steep = delta + math.exp(min(epsilon, 700.0)) * fpr
    flat = 1 - math.exp(-epsilon) * (1 - delta - fpr)
    return min(1.0, steep, flat)


def tpr_from_gaussian(mu: float, fpr: float) -> float:
    """mu-GDP: Phi(Phi^-1(FPR) + mu), exact for a Gaussian with noise 1 / mu."""
    return float(ndtr(ndtri(fpr) + mu))


def accuracy_ceiling(epsilon: float, delta: float) -> float:
    """The largest balanced accuracy under (epsilon, delta)-DP: (e^eps + delta) / (1 + e^eps)."""
    odds = math.exp(-epsilon)
    return (1 + delta * odds) / (1 + odds)


def auc_ceiling(epsilon: float, delta: float) -> float:
    """The largest AUC under (epsilon, delta)-DP: the area under the two lines of tpr_from_epsilon."""
    corner = (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon))
    height = 1 - corner
    return corner * (delta + height) / 2 + (1 - delta - corner) * (height + 1) / 2 + delta


def auc_from_gaussian(mu: float) -> float:
    """The AUC ceiling of mu-GDP: Phi(mu / sqrt 2)."""
    return float(ndtr(mu / math.sqrt(2)))
