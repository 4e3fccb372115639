"""Privacy accounting: from a ledger of events to a guarantee. Explained in docs/accounting.md.

ledger.py, numbers.py   which events have a price, what each assumes, which numbers they may hold
accountants/            one file each: pld, rdp, prv, pure, noisy_votes, selective; and their mathematics
group.py                groups of records
pricing.py              a ledger -> Guarantee, by all accountants, which must agree
price_cache.py          the same, computed once for the models of a cell
solver.py               a target epsilon -> the noise, concentration or steps that just meet it
filter.py               privacy budgets
tradeoff.py, ceilings.py   a ledger -> the ceiling it puts on any attack
audited.py              lower bounds on epsilon from canaries
pricelist.py            settings of a mechanism -> a quote, for `privbench price`

Names load on first use: what reads a cached solution waits for no accountant.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.accounting.filter import Allotment, Filter
    from harness.accounting.guarantee import Guarantee, check
    from harness.accounting.price_cache import price_once
    from harness.accounting.pricing import price
    from harness.accounting.solver import CONCENTRATION, COUNT, NOISE, SEARCHES, Free, calibrate
    from harness.accounting.tradeoff import Ceiling, find_ceilings, tpr_ceiling, tpr_ceilings

__all__ = [
    "CONCENTRATION",
    "COUNT",
    "NOISE",
    "SEARCHES",
    "Allotment",
    "Ceiling",
    "Filter",
    "Free",
    "Guarantee",
    "calibrate",
    "check",
    "find_ceilings",
    "price",
    "price_once",
    "tpr_ceiling",
    "tpr_ceilings",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from harness.accounting import filter, guarantee, price_cache, pricing, solver, tradeoff

    homes = (filter, guarantee, price_cache, pricing, solver, tradeoff)
    found = {each: vars(home)[each] for home in homes for each in __all__ if each in vars(home)}
    globals().update(found)
    return found[name]
