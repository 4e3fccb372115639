"""What a ledger is worth: a kind of promise, its numbers, and what it takes for granted."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from workloads.errors import AccountingError

TARGET_SLACK = 1e-6
"""How far, relatively, a price may lie above its target.

Calibration stays at or below the target with the very function that prices, so on one machine the
excess is zero. Another machine's FFT rounds in the last bits of a double; this leaves room for that and is
far below any digit that is printed.
"""


@dataclass(frozen=True)
class Guarantee:
    """A promise, as computed by the harness from what a method did."""

    kind: str
    """approximate-dp, pure-dp (at delta 0), claimed-disputed, or none."""
    epsilon: float | None
    """The headline: the PLD upper bound, or RDP's where PLD has none. None where nothing is promised, or
    only claimed."""
    delta: float | None
    adjacency: str
    accountant: str
    """Which of the epsilons is the headline."""
    epsilons: dict[str, float] = field(default_factory=dict)
    """The price by every accountant: pld, rdp, rdp_classic, prv, pure. Shown only: data_dependent, paper."""
    assumptions: tuple[str, ...] = ()
    lower_bounds: dict[str, float] = field(default_factory=dict)
    """What the worst case costs at least. worst_case: of letting out accepted attempts only."""

    def asdict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self) | {"assumptions": list(self.assumptions)}


def check(guarantee: Guarantee, target: float | None) -> None:
    """A price above the target epsilon (beyond TARGET_SLACK) is an AccountingError; None promises nothing."""
    if target is None or target == math.inf:
        return
    if math.isnan(target):
        raise AccountingError("the target epsilon is not a number")
    if guarantee.epsilon is None:
        raise AccountingError(
            f"the target epsilon is {target}, but the ledger gives no guarantee (kind '{guarantee.kind}')"
        )
    if not guarantee.epsilon <= target * (1 + TARGET_SLACK):
        raise AccountingError(
            f"the ledger costs epsilon {guarantee.epsilon:.6g} at delta {guarantee.delta:.3g}, "
            f"above its target {target:.6g}"
        )
