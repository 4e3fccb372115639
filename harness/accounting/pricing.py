"""From a ledger to a guarantee, by two accountants that must agree."""

import math

from dp_accounting import DpEvent, NeighboringRelation

from harness.accounting.adjacency import ADD_OR_REMOVE, find_relation
from harness.accounting.events import assumptions, check_priceable, count_releases, is_private
from harness.accounting.guarantee import Guarantee
from harness.accounting.pld import epsilon_pld, mesh, supports_pld
from harness.accounting.rdp import epsilon_rdp, supports_rdp
from workloads.errors import AccountingError

AGREEMENT = 0.01
"""By which share PLD may exceed RDP, besides one mesh width.

Both are upper bounds and the exact epsilon lies below RDP's, so PLD may exceed it only by its own
upward rounding, which stays below this share where the mesh is in proportion to epsilon.
"""


def price(event: DpEvent, delta: float | None, adjacency: str = ADD_OR_REMOVE) -> Guarantee:
    """What the event is worth at this delta; AccountingError where that cannot be said for certain.

    Only an event without any guarantee may come without a delta.
    """
    relation = find_relation(adjacency)
    check_priceable(event)
    if not is_private(event):
        return Guarantee("none", None, None, adjacency, "none")
    if delta is None or not 0 < delta < 1:
        raise AccountingError(f"delta must be > 0 and < 1, got {delta}")
    epsilons = price_private(event, delta, relation)
    return Guarantee(
        kind="approximate-dp",
        epsilon=epsilons["pld"],
        delta=delta,
        adjacency=adjacency,
        accountant="pld",
        epsilons=epsilons,
        assumptions=assumptions(event),
    )


def price_private(event: DpEvent, delta: float, relation: NeighboringRelation) -> dict[str, float]:
    """Epsilon by every accountant, for an event that is priceable and private."""
    if count_releases(event) == 0:
        return {"pld": 0.0, "rdp": 0.0}
    for name, supports in (("PLD", supports_pld), ("RDP", supports_rdp)):
        if not supports(event, relation):
            raise AccountingError(
                f"{name} accounting has no price under {relation.name.lower()} adjacency for {event}"
            )
    rdp = epsilon_rdp(event, delta, relation)
    width = mesh(rdp, count_releases(event))
    pld = epsilon_pld(event, delta, relation, width)
    for name, epsilon in (("PLD", pld), ("RDP", rdp)):
        if not math.isfinite(epsilon):
            raise AccountingError(
                f"{name} accounting finds no finite epsilon at delta {delta} for {event}; "
                "use more noise or a larger delta"
            )
    check_agreement(pld, rdp, width)
    return {"pld": pld, "rdp": rdp}


def check_agreement(pld: float, rdp: float, width: float) -> None:
    """PLD above RDP by more than its own rounding is an AccountingError: one of them is wrong."""
    if pld > rdp * (1 + AGREEMENT) + width:
        raise AccountingError(
            f"the accountants disagree: PLD says epsilon {pld:.6g}, RDP says {rdp:.6g}, "
            "and RDP is an upper bound that PLD cannot exceed"
        )
