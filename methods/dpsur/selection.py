"""Selective release: the test of a proposal, the effect of a rejected one, and its charge."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from dp_accounting import DpEvent

from methods.base import Budget, Noise
from methods.dpsur.paired_loss import PairedLoss
from methods.dpsur.rollback import Rollback
from workloads.base import Records

UNSEEN = 1e5
"""The authors' value for the loss of the initial model: the first proposal always looks good."""


class Clean:
    """Algorithm 2 of DPSUR: both losses on one validation batch; a rejected update leaves no trace."""

    unpaid: ClassVar[tuple[str, ...]] = ()
    """What is released without noise."""
    overdraws: ClassVar[bool] = False
    """Whether one more attempt is made when the budget is spent."""

    def __init__(self, weights: Rollback, losses: PairedLoss) -> None:
        self.weights, self.losses = weights, losses

    def divisor(self, expected: int, realised: int) -> int:
        """The divisor of a batch's noisy sum."""
        return expected

    def change(self, records: Records) -> float:
        """The change of the mean loss of these records by the update since the last `keep`."""
        after, before = self.losses(records).tolist()
        return float(after - before)

    def settle(self, accepted: bool) -> None:
        """Keep the update, or revert it."""
        if not accepted:
            self.weights.revert()

    def state_dict(self) -> dict[str, Any]:
        """The state between attempts, besides the weights."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state."""


class OfficialCode(Clean):
    """The authors' public code (JeffffffFu/DPSUR), leaks included."""

    unpaid: ClassVar[tuple[str, ...]] = (
        "the noisy sum is divided by the realised batch size, which is private",
        "the test compares with the raw loss of an older batch, so that sampling does not amplify it",
        "rejected gradients stay in the optimizer's memory, and in the weights until the first acceptance",
    )
    overdraws: ClassVar[bool] = True

    def __init__(self, weights: Rollback, losses: PairedLoss) -> None:
        super().__init__(weights, losses)
        self.last_loss: float | None = None
        """Of the last accepted update, on its own batch."""
        self.loss = UNSEEN

    def divisor(self, expected: int, realised: int) -> int:
        """See Clean."""
        return max(realised, 1)

    def change(self, records: Records) -> float:
        """The loss on these records minus that of the last accepted update on its own."""
        self.loss = float(self.losses(records)[0])
        return self.loss - (UNSEEN if self.last_loss is None else self.last_loss)

    def settle(self, accepted: bool) -> None:
        """Keep the loss, or revert only the weights; before the first acceptance not even them."""
        if accepted:
            self.last_loss = self.loss
        elif self.last_loss is not None:
            self.weights.revert_weights()

    def state_dict(self) -> dict[str, Any]:
        """The raw loss of the last accepted update."""
        return {"last_loss": self.last_loss}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See Clean."""
        self.last_loss = state["last_loss"]


VERDICTS = ("attempts", "accepted", "good", "good_accepted", "bad", "bad_accepted")
VARIANTS: dict[str, type[Clean]] = {"clean": Clean, "official_code": OfficialCode}


class Allowance:
    """Whether one more attempt is allowed. The budget is charged for all attempts, or accepted ones only."""

    def __init__(self, budget: Budget, attempt: DpEvent, charge: str, overdraws: bool) -> None:
        self.budget, self.attempt, self.charge = budget, attempt, charge
        self.overdraft = int(overdraws)
        """Attempts that are allowed beyond the budget."""

    def most(self, limit: int) -> int:
        """The maximum number of attempts; `limit` if rejected ones are free."""
        return min(limit, self.budget.remaining_uses(self.attempt)) if self.charge != "paper" else limit

    def admits(self) -> bool:
        """Whether the budget covers one more attempt, or an overdraft is left."""
        return self.budget.admits(self.attempt) or self.overdraft > 0

    def pay(self, accepted: bool) -> None:
        """Charge an attempt that was admitted."""
        if not self.budget.admits(self.attempt):
            self.overdraft -= 1
        elif accepted or self.charge == "all_attempts":
            self.budget.spend(self.attempt)

    def state_dict(self) -> dict[str, Any]:
        """What was spent."""
        return {"budget": self.budget.state_dict(), "overdraft": self.overdraft}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what was spent."""
        self.budget.load_state_dict(state["budget"])
        self.overdraft = int(state["overdraft"])


def passes(change: float, bound: float, beta: float, noise: Noise) -> bool:
    """The test: whether a change of the loss, clipped to +-bound and with noise, is below beta bound."""
    value = torch.tensor([clip_change(change, bound)], dtype=torch.float64)
    return float(noise.noisy_mean([value], 1)[0]) < beta * bound


def clip_change(change: float, bound: float) -> float:
    """Clip the change to +-bound; NaN counts as the worst."""
    return bound if math.isnan(change) else min(max(change, -bound), bound)


def count(verdicts: dict[str, int], change: float, accepted: bool, bound: float) -> None:
    """Count an attempt. Good and bad proposals are those at the ends of the clipping range."""
    clipped = clip_change(change, bound)
    verdicts["attempts"] += 1
    verdicts["accepted"] += accepted
    for kind, end in (("good", -bound), ("bad", bound)):
        verdicts[kind] += clipped == end
        verdicts[f"{kind}_accepted"] += accepted and clipped == end


def rates(verdicts: Mapping[str, int]) -> dict[str, float]:
    """The verdicts as stats; acceptance rates of kinds that did not occur are left out."""
    attempts = verdicts["attempts"]
    found = {"attempts": float(attempts), "accepted": float(verdicts["accepted"])}
    found["acceptance_rate"] = verdicts["accepted"] / attempts
    for kind in ("good", "bad"):
        found[f"{kind}_share"] = verdicts[kind] / attempts
        if verdicts[kind]:
            found[f"{kind}_acceptance_rate"] = verdicts[f"{kind}_accepted"] / verdicts[kind]
    return found
