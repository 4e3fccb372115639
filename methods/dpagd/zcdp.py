"""Zero-concentrated differential privacy: adaptive budgets and conversions."""

import math
from typing import Any


class ZcdpBudget:
    """A zCDP budget, fixed in advance. Part of the state of `run.steps`.

    Each release and its cost may depend on everything released before: as long as the sum stays within `rho`,
    the whole run is rho-zCDP (Whitehouse et al. 2023).
    """

    def __init__(self, rho: float) -> None:
        self.rho, self.spent = rho, 0.0

    def admits(self, price: float) -> bool:
        """Whether this cost fits into the budget."""
        # Equal shares of the budget must fit, whichever way their sum is rounded.
        return self.spent + price <= self.rho * (1 + 1e-12)

    def spend(self, price: float) -> None:
        """Charge a cost that was admitted."""
        self.spent += price

    def state_dict(self) -> dict[str, Any]:
        """What was spent."""
        return {"spent": self.spent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what was spent."""
        self.spent = float(state["spent"])


def rho_of(epsilon: float, delta: float) -> float:
    """The rho with rho + 2 sqrt(rho ln(1 / delta)) = epsilon (Bun and Steinke 2016, proposition 1.3)."""
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def gaussian_deviation(sensitivity: float, rho: float) -> float:
    """The standard deviation of Gaussian noise that costs rho: sensitivity / sqrt(2 rho)."""
    return sensitivity / math.sqrt(2 * rho)


def pure_epsilon(rho: float) -> float:
    """The epsilon of a pure mechanism that costs rho: sqrt(2 rho)."""
    return math.sqrt(2 * rho)
