"""The trade-off curve of a ledger, and the ceiling it puts on any membership attack."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    NoOpDpEvent,
    SelfComposedDpEvent,
)

from harness.accounting.accountants.losses import sensitivity
from harness.accounting.accountants.pld import deltas_pld, mesh, supports_pld
from harness.accounting.accountants.rdp import epsilon_rdp, supports_rdp
from harness.accounting.adjacency import find_relation
from harness.accounting.ceilings import (
    BINDING,
    LARGEST,
    ONCE,
    PLD_TWICE,
    Ceilings,
    Curve,
    bound_attacks,
    bound_by_epsilon,
    curve_of_epsilon,
    curve_of_gaussian,
    curve_of_lines,
)
from harness.accounting.guarantee import Guarantee
from harness.accounting.ledger import (
    check_priceable,
    count_releases,
    describe,
    expand,
    is_private,
    natural_adjacency,
)
from workloads.disk_cache import default_folder, digest, read_cached, write_cached
from workloads.errors import AccountingError

CURVE_DELTA = 1e-5
"""The delta at which epsilon measures a curve's width: it sets the mesh, not the validity."""
POINTS = 4001
VERSION = 2
"""Of cached ceilings; raised when the same event would get others."""


@dataclass(frozen=True)
class Tradeoff:
    """The trade-off curves of an event, one for each direction of its neighbours."""

    add: Curve
    """The record is in under the alternative: the bound on an attack on its membership."""
    remove: Curve
    """The record is in under the null hypothesis."""
    both: Curve
    """An upper bound on the two."""
    basis: str
    """`gaussian` (exact) or `pld`."""


@dataclass(frozen=True)
class Ceiling:
    """The largest TPR of any attack at an FPR, and its basis."""

    fpr: float
    tpr: float
    basis: str
    """`gaussian` (exact), `pld` (the whole curve), `epsilon-delta` (one point of it) or `none`."""


def find_ceilings(event: DpEvent, guarantee: Guarantee, cache: Path | None = None) -> Ceilings | None:
    """The ceilings on attacks whose membership masks have a fixed size; None without a guarantee.

    From the whole curve of the event if its privacy losses are known, cached for the next model of the cell;
    else from the guarantee's (epsilon, delta).
    """
    if guarantee.kind not in BINDING or guarantee.epsilon is None:
        return None
    plain, relation = expand(event), find_relation(guarantee.adjacency)
    if not has_tradeoff(plain, relation):
        return bound_by_epsilon(guarantee.epsilon, guarantee.delta or 0.0, guarantee.adjacency)
    folder = cache or default_folder("ceilings")
    question = _question(plain, guarantee.adjacency)
    known = read_cached(folder, question)
    if known is not None:
        return Ceilings(**known)
    curves = find_tradeoff(plain, relation)
    found = (
        bound_attacks(curves.both, None, ONCE)
        if relation is NeighboringRelation.REPLACE_ONE
        else bound_attacks(curves.add, curves.remove, PLD_TWICE)
    )
    write_cached(folder, question, found.asdict())
    return found


def tpr_ceiling(source: DpEvent | Guarantee, fpr: float, adjacency: str | None = None) -> Ceiling:
    """The ceiling for one record whose membership is a fair coin, like a canary's.

    From an event's whole trade-off curve, or from a guarantee's (epsilon, delta), which is looser.
    Gaussians are exact.
    """
    return tpr_ceilings(source, [fpr], adjacency)[0]


def tpr_ceilings(
    source: DpEvent | Guarantee, fprs: Sequence[float], adjacency: str | None = None
) -> tuple[Ceiling, ...]:
    """The ceilings at several false positive rates, from one curve."""
    for fpr in fprs:
        if not 0 <= fpr <= 1:
            message = f"the false positive rate must be from 0 to 1, got {fpr}"
            raise AccountingError(message, field="fpr", value=fpr, allowed=(0, 1))
    curve, basis = _curve_of(source, adjacency)
    tprs = [1.0] * len(fprs) if curve is None else curve(list(fprs)).tolist()
    return tuple(Ceiling(fpr, tpr, basis) for fpr, tpr in zip(fprs, tprs, strict=True))


def _curve_of(source: DpEvent | Guarantee, adjacency: str | None) -> tuple[Curve | None, str]:
    """A curve and its basis; None without a guarantee."""
    if isinstance(source, Guarantee):
        if source.epsilon is None:
            return None, "none"
        return curve_of_epsilon(source.epsilon, source.delta or 0.0), "epsilon-delta"
    check_priceable(source)
    if not is_private(source):
        return None, "none"
    plain, relation = expand(source), find_relation(adjacency or natural_adjacency(source))
    if not has_tradeoff(plain, relation):
        raise AccountingError(
            f"no trade-off curve for {plain}: its privacy losses are not known; "
            "use the ceiling of its guarantee",
            field="event",
            value=type(plain).__name__,
        )
    curves = find_tradeoff(plain, relation)
    return curves.both, curves.basis


def has_tradeoff(plain: DpEvent, relation: NeighboringRelation) -> bool:
    """Whether the curves of an expanded event are known under this relation."""
    if inverse_variance(plain) is not None:
        return True
    return supports_pld(plain, relation) and supports_rdp(plain, relation)


def find_tradeoff(plain: DpEvent, relation: NeighboringRelation) -> Tradeoff:
    """The curves of an expanded event that has them.

    Exact for Gaussians; else from the PLD by duality: TPR <= delta(eps) + e^eps FPR at every eps (Dong, Roth
    and Su 2022), with the delta of one direction each.
    """
    inverse = inverse_variance(plain)
    if inverse is not None:
        curve = curve_of_gaussian(sensitivity(relation) * math.sqrt(inverse))
        return Tradeoff(curve, curve, curve, "gaussian")
    size = epsilon_rdp(plain, CURVE_DELTA, relation)
    width = mesh(size, count_releases(plain))
    reach = min(1.5 * size + 1, LARGEST)
    epsilons = np.linspace(-reach, reach, POINTS)
    slopes = np.exp(epsilons)
    # "Removed" is dp-accounting's name for the loss of a data set that has the record.
    removed, added = deltas_pld(plain, epsilons, relation, width)
    return Tradeoff(
        add=curve_of_lines(slopes, removed),
        remove=curve_of_lines(slopes, added),
        both=curve_of_lines(slopes, np.maximum(removed, added)),
        basis="pld",
    )


def inverse_variance(event: DpEvent) -> float | None:
    """The sum of 1 / noise^2 if the event consists of Gaussians only, else None."""
    if isinstance(event, NoOpDpEvent):
        return 0.0
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


def _question(plain: DpEvent, adjacency: str) -> dict[str, Any]:
    """All that ceilings depend on. The event by its digest: a ledger may have thousands of parts."""
    versions = {"ceilings": VERSION, "dp-accounting": version("dp-accounting")}
    return {"event": digest(describe(plain)), "adjacency": adjacency, "versions": versions}
