"""Privacy accounting: from a ledger of events to a guarantee. Explained in docs/accounting.md.

ledger.py, numbers.py   which events have a price, what each assumes, which numbers they may hold
accountants/            one file each: pld, rdp, prv, pure, noisy_votes, selective; and their mathematics
group.py                groups of records
pricing.py              a ledger -> Guarantee, by all accountants, which must agree
solver.py               a target epsilon -> the noise, concentration or steps that just meet it
filter.py               privacy budgets
tradeoff.py, ceilings.py   a ledger -> the ceiling it puts on any attack
audited.py              lower bounds on epsilon from canaries
pricelist.py            settings of a mechanism -> a quote, for `privbench price`
"""

from harness.accounting.filter import Allotment, Filter
from harness.accounting.guarantee import Guarantee, check
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
    "tpr_ceiling",
    "tpr_ceilings",
]
