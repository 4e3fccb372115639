"""From a ledger to a guarantee, by accountants that must agree."""

import math

from dp_accounting import DpEvent, NeighboringRelation

from harness.accounting.accountants.noisy_votes import epsilon_of_votes
from harness.accounting.accountants.pld import epsilon_pld, mesh, supports_pld
from harness.accounting.accountants.prv import Estimate, epsilon_prv, sampled_gaussians
from harness.accounting.accountants.pure import epsilon_pure
from harness.accounting.accountants.rdp import (
    ORDERS,
    convert,
    convert_classic,
    divergences,
    epsilon_proved,
    epsilon_rdp,
    has_exact_divergences,
    supports_rdp,
)
from harness.accounting.accountants.selective import find_selection, worst_case_lower
from harness.accounting.accountants.sphere import Floats
from harness.accounting.adjacency import find_relation
from harness.accounting.guarantee import Guarantee
from harness.accounting.ledger import (
    assumptions,
    check_priceable,
    count_releases,
    expand,
    is_private,
    natural_adjacency,
    walk,
)
from methods.mechanisms.events import ClaimedDpEvent, NoisyVotesDpEvent, SelectiveReleaseDpEvent
from workloads.errors import AccountingError

AGREEMENT = 0.01
"""By which share PLD may exceed RDP, besides one mesh width.

Both are upper bounds and the exact epsilon lies below RDP's, so PLD may exceed it only by its own
upward rounding, which stays below this share where the mesh is in proportion to epsilon. How far RDP may lie
above PLD depends on the event: PLD is never below what the same Rényi divergences prove.
"""

NOT_SANITISED = (
    "epsilons.data_dependent reads the private votes and is not sanitised: it must not be published; the "
    "headline does not use it"
)
DISPUTED = (
    "epsilons.paper charges accepted attempts only, as Fu et al. 2024 do; that claim does not hold in the "
    "worst case; the headline does not use it"
)
CLAIMED = "epsilons.paper is what the authors charge, which does not cover all that was let out"
AFTER_THE_FACT = (
    "here accepted attempts decided how many attempts there were, so epsilon is what they cost after the "
    "fact and no bound that was fixed beforehand"
)


def price(event: DpEvent, delta: float | None, adjacency: str | None = None) -> Guarantee:
    """What the event is worth at this delta; AccountingError where that cannot be said for certain.

    Only an event without any guarantee may come without a delta; delta 0 asks for a pure guarantee. The
    neighbours are those the event speaks of, unless `adjacency` names others.
    """
    check_priceable(event)
    adjacency = adjacency or natural_adjacency(event)
    relation = find_relation(adjacency)
    if not is_private(event):
        return _price_claim(event, delta, adjacency, relation)
    if delta == 0:
        return _price_pure(event, adjacency, relation)
    if delta is None or not 0 < delta < 1:
        raise AccountingError(f"delta must be > 0 and < 1, got {delta}")
    epsilons = price_private(event, delta, relation)
    accountant = "pld" if "pld" in epsilons else "rdp"
    after = any(run.charge == "paper" for run in find_releases(event))
    told = {NOT_SANITISED: "data_dependent" in epsilons, DISPUTED: "paper" in epsilons, AFTER_THE_FACT: after}
    return Guarantee(
        kind="claimed-disputed" if after else "approximate-dp",
        epsilon=epsilons[accountant],
        delta=delta,
        adjacency=adjacency,
        accountant=accountant,
        epsilons=epsilons,
        assumptions=assumptions(event) + tuple(line for line, holds in told.items() if holds),
        lower_bounds=price_lower(event, delta),
    )


def price_private(event: DpEvent, delta: float, relation: NeighboringRelation) -> dict[str, float]:
    """Epsilon by every accountant that has a theorem for it, for an event that is priceable and private."""
    plain = expand(event)
    releases = count_releases(plain)
    if releases == 0:
        return {"pld": 0.0, "rdp": 0.0, "rdp_classic": 0.0}
    curve = find_curve(plain, relation)
    found, width = price_bounds(plain, delta, relation, curve)
    found["rdp_classic"] = convert_classic(ORDERS, curve, delta)
    opinion = ask_prv(plain, delta, relation, curve)
    if opinion is not None:
        check_opinion(found["pld"], opinion, width)
        found["prv"] = opinion.upper
    pure = epsilon_pure(plain, relation)
    if pure is not None:
        found["pure"] = pure
    return found | price_asides(event, delta, relation)


def price_bounds(
    plain: DpEvent,
    delta: float,
    relation: NeighboringRelation,
    curve: Floats,
    refuse_infinite: bool = True,
) -> tuple[dict[str, float], float]:
    """The bounds by PLD and RDP, checked against each other, and the mesh of the first.

    The one price that calibration and the headline share. An event whose losses are not known is priced by
    RDP alone. An infinite price is refused unless a search passes by. `curve` comes from find_curve.
    """
    found = {"rdp": convert(ORDERS, curve, delta)}
    width = 0.0
    if supports_pld(plain, relation) and math.isfinite(found["rdp"]):
        width = mesh(found["rdp"], count_releases(plain))
        found["pld"] = epsilon_pld(plain, delta, relation, width)
    for name, epsilon in found.items():
        if refuse_infinite and not math.isfinite(epsilon):
            raise AccountingError(
                f"{name.upper()} accounting finds no finite epsilon at delta {delta} for {plain}; "
                "use more noise or a larger delta"
            )
    if len(found) == 2:
        proved = epsilon_proved(ORDERS, curve, delta) if has_exact_divergences(plain, relation) else 0.0
        check_agreement(found["pld"], found["rdp"], proved, width)
    return dict(sorted(found.items())), width


def find_curve(plain: DpEvent, relation: NeighboringRelation) -> Floats:
    """Rényi divergences at all orders; AccountingError where there is no theorem for the event."""
    if not supports_rdp(plain, relation):
        raise AccountingError(
            f"RDP accounting has no price under {relation.name.lower()} adjacency for {plain}"
        )
    return divergences(plain, relation)


def check_agreement(pld: float, rdp: float, proved: float, width: float) -> None:
    """PLD outside what Rényi divergences allow is an AccountingError: one of the two accountants is wrong.

    Not above their upper bound by more than PLD's own rounding, and not below their lower one.
    """
    if pld > rdp * (1 + AGREEMENT) + width:
        raise AccountingError(
            f"the accountants disagree: PLD says epsilon {pld:.6g}, RDP says {rdp:.6g}, "
            "and RDP is an upper bound that PLD cannot exceed"
        )
    if pld < proved:
        raise AccountingError(
            f"the accountants disagree: PLD says epsilon {pld:.6g}, and the Rényi divergences prove that it "
            f"is at least {proved:.6g}"
        )


def ask_prv(plain: DpEvent, delta: float, relation: NeighboringRelation, curve: Floats) -> Estimate | None:
    """The third opinion, where the event is made of sampled Gaussians and not beyond its numbers."""
    gaussians = sampled_gaussians(plain)
    if gaussians is None or relation is NeighboringRelation.REPLACE_ONE:
        return None
    rough = convert(ORDERS, curve, delta / 1e4)
    return epsilon_prv(gaussians, delta, rough) if math.isfinite(rough) else None


def check_opinion(pld: float, opinion: Estimate, width: float) -> None:
    """PLD outside the interval that PRV is sure of, beyond its own rounding, is an AccountingError."""
    if not opinion.lower <= pld <= opinion.upper * (1 + AGREEMENT) + width:
        raise AccountingError(
            f"the accountants disagree: PLD says epsilon {pld:.6g}, PRV says it lies between "
            f"{opinion.lower:.6g} and {opinion.upper:.6g}"
        )


def price_asides(event: DpEvent, delta: float, relation: NeighboringRelation) -> dict[str, float]:
    """Prices that are shown and never used: of the votes as they fell, and of what authors charge for."""
    found: dict[str, float] = {}
    if any(isinstance(part, NoisyVotesDpEvent) for part in walk(event)):
        votes = epsilon_of_votes(event, delta, relation)
        found |= {} if votes is None else {"data_dependent": votes}
    if find_claims(event):
        claimed = expand(event, "paper")
        if supports_rdp(claimed, relation):
            found["paper"] = epsilon_rdp(claimed, delta, relation) if count_releases(claimed) else 0.0
    return found


def find_releases(event: DpEvent) -> list[SelectiveReleaseDpEvent]:
    """The runs of accepting and rejecting in an event."""
    return [part for part in walk(event) if isinstance(part, SelectiveReleaseDpEvent)]


def find_claims(event: DpEvent) -> list[SelectiveReleaseDpEvent | ClaimedDpEvent]:
    """The parts of an event for which authors charge otherwise than we do."""
    return [part for part in walk(event) if isinstance(part, SelectiveReleaseDpEvent | ClaimedDpEvent)]


def price_lower(event: DpEvent, delta: float) -> dict[str, float]:
    """What selective release costs at least, in the worst case, where accepted attempts only are let out."""
    run = find_selection(event)
    if run is None or run.accepted == 0 or run.rate == 1:
        return {}
    return {"worst_case": worst_case_lower(run, delta)}


def _price_claim(
    event: DpEvent, delta: float | None, adjacency: str, relation: NeighboringRelation
) -> Guarantee:
    """Without a guarantee: nothing is promised, or authors claim more than their noise covers."""
    unpaid = tuple(line for claim in find_claims(event) for line in claim.unpaid)
    if not unpaid or not delta or not is_private(expand(event, "paper")):
        return Guarantee("none", None, None, adjacency, "none")
    claimed, lower = price_asides(event, delta, relation), price_lower(event, delta)
    charged = DISPUTED if find_releases(event) else CLAIMED
    assumed = (charged, *(f"not covered by any price: {line}" for line in unpaid))
    return Guarantee("claimed-disputed", None, delta, adjacency, "none", claimed, assumed, lower)


def _price_pure(event: DpEvent, adjacency: str, relation: NeighboringRelation) -> Guarantee:
    epsilon = epsilon_pure(expand(event), relation)
    if epsilon is None:
        raise AccountingError(
            f"delta must be > 0 and < 1, got 0: under {adjacency} some part of {event} has no pure epsilon"
        )
    return Guarantee("pure-dp", epsilon, 0.0, adjacency, "pure", {"pure": epsilon}, assumptions(event))
