"""Privacy budgets: a filter for adaptively chosen events, an allotment for one event."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from dp_accounting import DpEvent, SelfComposedDpEvent

from harness.accounting.accountants.rdp import ORDERS, divergences, supports_rdp
from harness.accounting.adjacency import ADD_OR_REMOVE, find_relation
from harness.accounting.ledger import check_priceable, count_releases, expand, is_private
from harness.accounting.numbers import check_delta
from harness.accounting.pricing import price
from harness.accounting.solver import COUNT, calibrate
from workloads.errors import AccountingError


@dataclass
class Filter:
    """A privacy filter: stops before the budget is exceeded, even if events are chosen adaptively.

    Feldman and Zrnic 2021; Lécuyer 2021.

    Events may depend on everything released before, so their sum must hold at one Rényi order fixed
    beforehand; the best order in hindsight, and PLD, are not valid for adaptively chosen events. `likely`
    is the event the run will mostly consist of: the order is the one at which most of them fit.
    """

    epsilon: float
    delta: float
    likely: DpEvent
    adjacency: str = ADD_OR_REMOVE
    order: float = field(init=False)
    """Fixed before the first event."""
    allowed: float = field(init=False)
    """The largest sum of divergences at that order that keeps (epsilon, delta)."""
    spent: float = field(init=False, default=0.0)
    _known: dict[str, float] = field(init=False, default_factory=dict, repr=False)
    """Event to its divergence at the order: a run asks for the same few events many times."""

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise AccountingError(
                f"the budget's epsilon must be > 0 and finite, got {self.epsilon}",
                field="epsilon",
                value=self.epsilon,
                allowed=(0, math.inf),
            )
        check_delta(self.delta)
        orders = np.asarray(ORDERS, dtype=np.float64)
        # The improved conversion (Balle et al. 2020), solved for the divergence.
        allowed = (
            self.epsilon - np.log1p(-1 / orders) + (math.log(self.delta) + np.log(orders)) / (orders - 1)
        )
        uses = allowed / self._costs(self.likely)
        best = int(np.argmax(uses))
        if allowed[best] <= 0:
            raise AccountingError(
                f"epsilon {self.epsilon:g} at delta {self.delta:g} leaves no room at any Rényi order; "
                "use a larger epsilon or delta",
                field="budget",
                value=(self.epsilon, self.delta),
            )
        self.order, self.allowed = float(orders[best]), float(allowed[best])

    def admits(self, event: DpEvent) -> bool:
        """Whether the event fits into the remaining budget."""
        return self.spent + self._cost(event) <= self.allowed

    def spend(self, event: DpEvent) -> None:
        """Charge an event that is about to run; AccountingError, and no charge, if it does not fit."""
        if not self.admits(event):
            raise AccountingError(
                f"the budget of epsilon {self.epsilon:g} at delta {self.delta:g} does not admit {event}: "
                f"{self.spent:.6g} of {self.allowed:.6g} is spent at Rényi order {self.order:g}; stop here",
                field="spent",
                value=self.spent,
                allowed=self.allowed,
            )
        self.spent += self._cost(event)

    def state_dict(self) -> dict[str, float]:
        """What was spent, for a checkpoint."""
        return {"spent": self.spent}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Resume from what was spent; the order is this filter's own, from the same arguments."""
        self.spent = float(state["spent"])

    def remaining_uses(self, event: DpEvent) -> int:
        """How many more times this event fits."""
        cost = self._cost(event)
        if cost == 0:
            raise AccountingError(
                f"{event} costs nothing: it fits any number of times", field="cost", value=cost
            )
        uses = int((self.allowed - self.spent) / cost)
        # Rounding of the quotient must not admit one too many.
        return uses - 1 if self.spent + uses * cost > self.allowed else uses

    def _cost(self, event: DpEvent) -> float:
        name = repr(event)
        if name not in self._known:
            self._known[name] = float(self._costs(event)[ORDERS.index(self.order)])
        return self._known[name]

    def _costs(self, event: DpEvent) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        check_priceable(event)
        if not is_private(event):
            return np.full(len(ORDERS), np.inf)
        plain, relation = expand(event), find_relation(self.adjacency)
        if count_releases(plain) == 0:
            return np.zeros(len(ORDERS))
        if not supports_rdp(plain, relation):
            raise AccountingError(
                f"a filter needs a Rényi price, and {event} has none under {self.adjacency}",
                field="adjacency",
                value=self.adjacency,
            )
        return divergences(plain, relation)


@dataclass
class Allotment:
    """A budget of identical events: the number of uses that (epsilon, delta) covers, fixed beforehand.

    Only that event may be run, so the number of uses does not depend on any output and the tight price
    (PLD) holds, which a filter may not use. Stopping earlier costs no more.
    """

    epsilon: float
    delta: float
    event: DpEvent
    uses: int = field(init=False)
    """The total number of uses."""
    spent: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        once = price(self.event, self.delta).epsilon
        if once is None or once > self.epsilon:
            self.uses = 0
            return
        most = calibrate(
            lambda uses: SelfComposedDpEvent(self.event, int(uses)), self.epsilon, self.delta, free=COUNT
        )
        self.uses = int(most)

    def admits(self, event: DpEvent) -> bool:
        """Whether this is the budgeted event, with a use left."""
        return event == self.event and self.spent < self.uses

    def spend(self, event: DpEvent) -> None:
        """Charge a use that is about to happen; AccountingError, and no charge, if none is left."""
        if not self.admits(event):
            raise AccountingError(
                f"epsilon {self.epsilon:g} at delta {self.delta:g} covers {self.uses} uses of "
                f"{self.event}; {self.spent} are spent, and {event} is not admitted: stop here",
                field="spent",
                value=self.spent,
                allowed=self.uses,
            )
        self.spent += 1

    def remaining_uses(self, event: DpEvent) -> int:
        """How many more times the event fits; 0 for any but the budgeted event."""
        return self.uses - self.spent if event == self.event else 0

    def state_dict(self) -> dict[str, int]:
        """What was spent, for a checkpoint."""
        return {"spent": self.spent}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Resume from what was spent."""
        self.spent = int(state["spent"])
