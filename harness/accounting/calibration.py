"""From a target epsilon to the smallest noise that keeps it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dp_accounting import DpEvent

from harness.accounting.adjacency import ADD_OR_REMOVE, find_relation
from harness.accounting.cache import default_folder, recall, remember
from harness.accounting.events import check_priceable, describe, is_private
from harness.accounting.pricing import price_private
from harness.accounting.rdp import WHOLE_ORDERS, epsilon_rdp
from workloads.errors import AccountingError

TARGETS = (0.01, 1000.0)
NOISES = (1e-2, 1e6)
"""Noise multipliers that are searched. Below, the Gaussian mechanism protects nobody."""
TIGHTNESS = 1e-3
"""The price of the answer lies within this share below the target."""
ROUNDS = 40
VERSION = 1
"""Raised when the same question would get another answer."""


def calibrate(
    event_of: Callable[[float], DpEvent],
    target_epsilon: float,
    delta: float,
    *,
    adjacency: str = ADD_OR_REMOVE,
    cache: Path | None = None,
) -> float:
    """The smallest noise, to 0.1 % in epsilon, whose price is at or below the target.

    Args:
        event_of: Noise to what would be done with it; the price must not rise with the noise.
        target_epsilon: From 0.01 to 1000, or infinite, which needs no noise: 0.
        delta: The delta of the guarantee.
        adjacency: Which data sets are neighbours.
        cache: The folder that keeps answers; a folder of the user's by default.

    Raises:
        AccountingError: The target is out of range or out of reach; says what can be reached.
    """
    if target_epsilon == math.inf:
        return 0.0
    if not TARGETS[0] <= target_epsilon <= TARGETS[1]:
        raise AccountingError(
            f"epsilon can be calibrated from {TARGETS[0]} to {TARGETS[1]:g}, or be inf; got {target_epsilon}"
        )
    if not 0 < delta < 1:
        raise AccountingError(f"delta must be > 0 and < 1, got {delta}")
    folder = cache or default_folder()
    question = _question(event_of, target_epsilon, delta, adjacency)
    known = recall(folder, question)
    if known is not None:
        return known
    search = Search(event_of, target_epsilon, delta, adjacency)
    noise = search.run()
    remember(folder, question, noise)
    return noise


@dataclass
class Search:
    """One search for the noise: Rényi prices give the first guess, PLD prices decide."""

    event_of: Callable[[float], DpEvent]
    target: float
    delta: float
    adjacency: str
    too_little: float | None = None
    """The largest noise known to be above the target."""
    enough: float | None = None
    """The smallest noise known to be at or below it."""
    seen: dict[float, float] = field(default_factory=dict)
    """Noise to PLD epsilon, in the order of trying."""

    def run(self) -> float:
        """Close in on the target from both sides."""
        noise = self.guess()
        for _ in range(ROUNDS):
            epsilon = self.price(noise)
            if epsilon <= self.target:
                self.enough = noise
            else:
                self.too_little = noise
            if self.is_close():
                break
            noise = self.next()
        if self.enough is None:
            raise self.unreachable()
        return self.enough

    def guess(self) -> float:
        """Where the Rényi price meets the target, to a few per cent: usually slightly too much noise."""
        relation = find_relation(self.adjacency)

        def renyi(noise: float) -> float:
            return epsilon_rdp(self.event_of(noise), self.delta, relation, WHOLE_ORDERS)

        # Finitely many orders cannot show an epsilon near 0; there epsilon is in proportion to 1 / noise.
        aim = max(self.target, 2 * renyi(NOISES[1]))
        low, high = (math.log(noise) for noise in NOISES)
        while high - low > 0.05:
            middle = (low + high) / 2
            low, high = (low, middle) if renyi(math.exp(middle)) <= aim else (middle, high)
        return _within(math.exp(high) * aim / self.target)

    def price(self, noise: float) -> float:
        """The PLD epsilon of this noise, as `price` computes it."""
        event = self.event_of(noise)
        check_priceable(event)
        if not is_private(event):
            raise AccountingError(f"noise {noise:.4g} gives no guarantee at all: {event}")
        relation = find_relation(self.adjacency)
        self.seen[noise] = price_private(event, self.delta, relation)["pld"]
        return self.seen[noise]

    def is_close(self) -> bool:
        """The best noise is within the tightness, or at an end of what is searched."""
        if self.enough is None:
            return self.too_little == NOISES[1]
        if self.seen[self.enough] >= self.target * (1 - TIGHTNESS) or self.enough == NOISES[0]:
            return True
        # A jump of the price leaves nothing between the two sides.
        return self.too_little is not None and self.enough / self.too_little < 1 + 1e-9

    def next(self) -> float:
        """The next noise to try: the secant's, or the middle where the secant leaves what is known."""
        low = math.log(self.too_little if self.too_little is not None else NOISES[0])
        high = math.log(self.enough if self.enough is not None else NOISES[1])
        proposal = self.secant()
        both_sides = self.too_little is not None and self.enough is not None
        # Every fifth try halves, so that a jump in the prices cannot keep the secant on one side.
        if both_sides and (len(self.seen) % 5 == 0 or not low < proposal < high):
            proposal = (low + high) / 2
        return _within(math.exp(proposal))

    def secant(self) -> float:
        """The logarithm of the noise at which a line through the last two prices meets the target.

        In logarithms epsilon over noise is nearly a line; with one price its slope is taken as -1.
        """
        aim = math.log(self.target * (1 - TIGHTNESS / 2))
        # A price of 0 has no logarithm; a billionth of the target is as far off.
        floor = self.target * 1e-9
        *before, (x, y) = [(math.log(n), math.log(max(e, floor))) for n, e in self.seen.items()]
        slope = (y - before[-1][1]) / (x - before[-1][0]) if before else -1.0
        # At most tenfold at once, and never uphill: far from the target the line is a poor guide.
        step = (aim - y) / min(slope, -0.1)
        return x + min(max(step, -math.log(10)), math.log(10))

    def unreachable(self) -> AccountingError:
        """What can be reached instead."""
        noise = max(self.seen)
        return AccountingError(
            f"epsilon {self.target:g} at delta {self.delta:g} cannot be reached: with noise {noise:g} "
            f"it is still {self.seen[noise]:.6g}; ask for that much, or for fewer steps or smaller batches"
        )


def _within(noise: float) -> float:
    return min(max(noise, NOISES[0]), NOISES[1])


def _question(
    event_of: Callable[[float], DpEvent], target: float, delta: float, adjacency: str
) -> dict[str, Any]:
    """What the answer depends on. Two members of a family of events stand for all of it."""
    return {
        "family": [describe(event_of(noise)) for noise in (1.0, 2.5)],
        "target": repr(float(target)),
        "delta": repr(float(delta)),
        "adjacency": adjacency,
        "versions": {"calibration": VERSION, "dp-accounting": version("dp-accounting")},
    }
