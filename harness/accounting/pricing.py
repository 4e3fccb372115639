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
from harness.accounting.guarantee import Guarantee, without_guarantee
from harness.accounting.ledger import (
    assumptions,
    check_priceable,
    count_releases,
    expand,
    is_private,
    natural_adjacency,
    walk,
)
from harness.accounting.numbers import check_delta
from methods.mechanisms.events import ClaimedDpEvent, NoisyVotesDpEvent, SelectiveReleaseDpEvent
from workloads.errors import AccountingError

AGREEMENT = 0.01
"""The relative excess of PLD over RDP that is allowed, besides one mesh width.

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
CLAIMED = "epsilons.paper is what the authors charge, which does not cover every release"
AFTER_THE_FACT = (
    "the number of attempts depended on how many were accepted, so epsilon is their cost after the fact, "
    "not a bound fixed in advance"
)


def price(event: DpEvent, delta: float | None, adjacency: str | None = None) -> Guarantee:
    """The guarantee of an event at this delta; AccountingError if no accountant can prove one.

    Only an event without any guarantee may come without a delta; delta 0 asks for a pure guarantee. The
    adjacency is the event's own unless `adjacency` names another.
    """
    check_priceable(event)
    adjacency = adjacency or natural_adjacency(event)
    relation = find_relation(adjacency)
    nothing = without_guarantee(event, adjacency)
    if nothing is not None:
        return nothing
    if not is_private(event):
        return _price_claim(event, delta, adjacency, relation)
    if delta == 0:
        return _price_pure(event, adjacency, relation)
    delta = check_delta(delta)
    epsilons = price_private(event, delta, relation)
    accountant = "pld" if "pld" in epsilons else "rdp"
    after = any(run.charge == "paper" for run in find_releases(event))
    notes = {
        NOT_SANITISED: "data_dependent" in epsilons,
        DISPUTED: "paper" in epsilons,
        AFTER_THE_FACT: after,
    }
    return Guarantee(
        kind="claimed-disputed" if after else "approximate-dp",
        epsilon=epsilons[accountant],
        delta=delta,
        adjacency=adjacency,
        accountant=accountant,
        epsilons=epsilons,
        assumptions=assumptions(event) + tuple(line for line, holds in notes.items() if holds),
        lower_bounds=price_lower(event, delta),
    )


def price_private(event: DpEvent, delta: float, relation: NeighboringRelation) -> dict[str, float]:
    """Epsilon by every accountant with a theorem for the event, which is priceable and private."""
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
    """The bounds by PLD and RDP, checked against each other, and the mesh width of PLD.

    Calibration and the headline share this price. An event whose losses are not known is priced by RDP alone.
    An infinite price is refused except during a search. `curve` comes from find_curve.
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
                "use more noise or a larger delta",
                field=name,
                value=epsilon,
            )
    if len(found) == 2:
        proved = epsilon_proved(ORDERS, curve, delta) if has_exact_divergences(plain, relation) else 0.0
        check_agreement(found["pld"], found["rdp"], proved, width)
    return dict(sorted(found.items())), width


def find_curve(plain: DpEvent, relation: NeighboringRelation) -> Floats:
    """Rényi divergences at all orders; AccountingError if there is no theorem for the event."""
    if not supports_rdp(plain, relation):
        adjacency = relation.name.lower()
        raise AccountingError(
            f"RDP accounting has no price under {adjacency} adjacency for {plain}",
            field="adjacency",
            value=adjacency,
        )
    return divergences(plain, relation)


def check_agreement(pld: float, rdp: float, proved: float, width: float) -> None:
    """AccountingError if PLD contradicts the Rényi divergences: one of the two accountants is wrong.

    PLD may exceed their upper bound by its own rounding only, and never lies below their lower bound.
    """
    if pld > rdp * (1 + AGREEMENT) + width:
        raise AccountingError(
            f"the accountants disagree: epsilon is {pld:.6g} by PLD and {rdp:.6g} by RDP, "
            "an upper bound that PLD cannot exceed",
            field="pld",
            value=pld,
            allowed=(proved, rdp),
        )
    if pld < proved:
        raise AccountingError(
            f"the accountants disagree: epsilon is {pld:.6g} by PLD, but the Rényi divergences prove "
            f"at least {proved:.6g}",
            field="pld",
            value=pld,
            allowed=(proved, rdp),
        )


def ask_prv(plain: DpEvent, delta: float, relation: NeighboringRelation, curve: Floats) -> Estimate | None:
    """The PRV estimate, if the event consists of sampled Gaussians and is within its numerical range."""
    gaussians = sampled_gaussians(plain)
    if gaussians is None or relation is NeighboringRelation.REPLACE_ONE:
        return None
    rough = convert(ORDERS, curve, delta / 1e4)
    return epsilon_prv(gaussians, delta, rough) if math.isfinite(rough) else None


def check_opinion(pld: float, opinion: Estimate, width: float) -> None:
    """AccountingError if PLD lies outside PRV's interval by more than its own rounding."""
    if not opinion.lower <= pld <= opinion.upper * (1 + AGREEMENT) + width:
        raise AccountingError(
            f"the accountants disagree: epsilon is {pld:.6g} by PLD, and between {opinion.lower:.6g} and "
            f"{opinion.upper:.6g} by PRV",
            field="pld",
            value=pld,
            allowed=(opinion.lower, opinion.upper),
        )


def price_asides(event: DpEvent, delta: float, relation: NeighboringRelation) -> dict[str, float]:
    """Prices that are shown and never used: data-dependent ones of votes, and those the authors charge."""
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
    """The selective releases in an event."""
    return [part for part in walk(event) if isinstance(part, SelectiveReleaseDpEvent)]


def find_claims(event: DpEvent) -> list[SelectiveReleaseDpEvent | ClaimedDpEvent]:
    """The parts of an event whose authors charge differently from this accounting."""
    return [part for part in walk(event) if isinstance(part, SelectiveReleaseDpEvent | ClaimedDpEvent)]


def price_lower(event: DpEvent, delta: float) -> dict[str, float]:
    """A lower bound on the worst-case epsilon of releasing accepted attempts only."""
    run = find_selection(event)
    if run is None or run.accepted == 0 or run.rate == 1:
        return {}
    return {"worst_case": worst_case_lower(run, delta)}


def _price_claim(
    event: DpEvent, delta: float | None, adjacency: str, relation: NeighboringRelation
) -> Guarantee:
    """The price without a guarantee: none, or a claim beyond what the noise covers."""
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
            f"delta must be > 0 and < 1, got 0: under {adjacency} some part of {event} has no pure epsilon",
            field="delta",
            value=0.0,
            allowed=(0, 1),
        )
    return Guarantee("pure-dp", epsilon, 0.0, adjacency, "pure", {"pure": epsilon}, assumptions(event))
