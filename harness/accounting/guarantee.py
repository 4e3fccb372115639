"""The guarantee of a ledger: its kind, its numbers and its assumptions."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from dp_accounting import DpEvent

from harness.accounting.ledger import is_private, natural_adjacency, walk
from methods.mechanisms.events import ClaimedDpEvent, SelectiveReleaseDpEvent
from workloads.errors import AccountingError

TARGET_SLACK = 1e-6
"""The relative excess of a price over its target that is allowed.

Calibration stays at or below the target with the same function that prices, so on one machine the excess is
zero. Another machine's FFT may round the last bits of a double differently; this leaves room for that and is
far below any printed digit.
"""


@dataclass(frozen=True)
class Guarantee:
    """A privacy guarantee, computed by the harness from a method's ledger."""

    kind: str
    """approximate-dp, pure-dp (at delta 0), claimed-disputed, or none."""
    epsilon: float | None
    """The headline: the PLD upper bound, or RDP's if PLD has none. None without a guarantee, or with a claim
    only."""
    delta: float | None
    adjacency: str
    accountant: str
    """Which of the epsilons is the headline."""
    epsilons: dict[str, float] = field(default_factory=dict)
    """Epsilon by every accountant: pld, rdp, rdp_classic, prv, pure. Shown only: data_dependent, paper."""
    assumptions: tuple[str, ...] = ()
    lower_bounds: dict[str, float] = field(default_factory=dict)
    """Lower bounds on epsilon. worst_case: of releasing accepted attempts only."""

    def asdict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self) | {"assumptions": list(self.assumptions)}


def check(guarantee: Guarantee, target: float | None) -> None:
    """AccountingError if the price exceeds the target epsilon beyond TARGET_SLACK; None is no target."""
    if target is None or target == math.inf:
        return
    if math.isnan(target):
        raise AccountingError("the target epsilon is not a number", field="target_epsilon", value=target)
    if guarantee.epsilon is None:
        raise AccountingError(
            f"the target epsilon is {target}, but the ledger gives no guarantee (kind '{guarantee.kind}')",
            field="epsilon",
            value=None,
            allowed=target,
        )
    if not guarantee.epsilon <= target * (1 + TARGET_SLACK):
        raise AccountingError(
            f"the ledger costs epsilon {guarantee.epsilon:.6g} at delta {guarantee.delta:.3g}, "
            f"above its target {target:.6g}",
            field="epsilon",
            value=guarantee.epsilon,
            allowed=target,
        )


def without_guarantee(event: DpEvent, adjacency: str | None = None) -> Guarantee | None:
    """The price of a priceable event that has no guarantee and claims none; None for any other event.

    The only price that needs no accountant.
    """
    claims = (isinstance(each, SelectiveReleaseDpEvent | ClaimedDpEvent) for each in walk(event))
    if is_private(event) or any(claims):
        return None
    return Guarantee("none", None, None, adjacency or natural_adjacency(event), "none")
