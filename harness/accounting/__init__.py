"""The referee's price list: from a ledger of events to a guarantee.

events.py       which events have a price, what each assumes, and a canonical description of them
pld.py, rdp.py  the accountants; another accountant is one more file
pricing.py      a ledger -> Guarantee, by all accountants, which must agree
calibration.py  a target epsilon -> the smallest noise that keeps it
"""

from harness.accounting.calibration import calibrate
from harness.accounting.guarantee import Guarantee, check
from harness.accounting.pricing import price

__all__ = ["Guarantee", "calibrate", "check", "price"]
