"""From a target epsilon to the parameter that just keeps it: noise, concentration or a number of steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dp_accounting import DpEvent

from harness.accounting.accountants.rdp import WHOLE_ORDERS, epsilon_rdp
from harness.accounting.adjacency import find_relation
from harness.accounting.ledger import (
    check_priceable,
    count_releases,
    describe,
    expand,
    is_private,
    natural_adjacency,
)
from harness.accounting.pricing import find_curve, price_bounds
from harness.accounting.solution_cache import default_folder, recall, remember
from workloads.errors import AccountingError

TARGETS = (0.01, 1000.0)
TIGHTNESS = 1e-3
"""The price of the answer lies within this share below the target."""
CLOSED = 1e-9
"""Two values this close, relatively, have nothing between them: the price jumps there."""
VERSION = 2
"""Raised when the same question would get another answer."""


@dataclass(frozen=True)
class Free:
    """The parameter that is solved for."""

    name: str
    low: float
    high: float
    """What is searched."""
    protects: bool
    """True where more of it costs less (noise), False where more of it costs more (steps)."""
    whole: bool = False
    remedy: str = "ask for that much, or for fewer steps or smaller batches"
    """What to do where no value is good enough."""

    def within(self, value: float) -> float:
        """The nearest value that is searched; of two whole ones, the safer."""
        value = min(max(value, self.low), self.high)
        return float(math.floor(value)) if self.whole else value


NOISE = Free("noise", 1e-2, 1e6, protects=True)
"""A noise multiplier or scale. Below the range, the Gaussian mechanism protects nobody."""
CONCENTRATION = Free(
    "concentration", 1e-6, 1e9, protects=False, remedy="ask for that much, or for fewer uses or rows"
)
COUNT = Free("count", 1, 1e7, protects=False, whole=True, remedy="ask for that much, or for more noise")
"""A number of releases."""

SEARCHES = {each.name: each for each in (NOISE, CONCENTRATION, COUNT)}
"""How each kind of parameter that a method can declare is searched.

A wrong declaration cannot break a promise, since the finished ledger is priced again.
"""


def calibrate(
    event_of: Callable[[float], DpEvent],
    target_epsilon: float,
    delta: float,
    *,
    free: Free = NOISE,
    adjacency: str | None = None,
    cache: Path | None = None,
) -> float:
    """The value, to 0.1 % in epsilon, whose price is just at or below the target.

    Args:
        event_of: A value to what would be done with it; the price must not rise with noise, nor fall with
            what is not noise.
        target_epsilon: From 0.01 to 1000, or infinite, which needs no noise: 0.
        delta: The delta of the guarantee.
        free: What is solved for and where it is searched.
        adjacency: Which data sets are neighbours; those the event speaks of by default.
        cache: The folder that keeps answers; a folder of the user's by default.

    Raises:
        AccountingError: The target is out of range or out of reach; says what can be reached.
    """
    if target_epsilon == math.inf and free.protects:
        return 0.0
    if not TARGETS[0] <= target_epsilon <= TARGETS[1]:
        raise AccountingError(
            f"epsilon can be calibrated from {TARGETS[0]} to {TARGETS[1]:g}"
            f"{', or be inf' if free.protects else f'; any {free.name} will do beyond'}; got {target_epsilon}"
        )
    if not 0 < delta < 1:
        raise AccountingError(f"delta must be > 0 and < 1, got {delta}")
    folder = cache or default_folder("calibration")
    question = _question(event_of, target_epsilon, delta, free, adjacency)
    known = recall(folder, question)
    if known is not None:
        return float(known)
    value = Search(event_of, target_epsilon, delta, free, adjacency).run()
    remember(folder, question, value)
    return value


@dataclass
class Search:
    """One search: Rényi prices give the first guess, the headline price decides.

    Positions are logarithms of the value, with the sign that makes the price fall to the right.
    """

    event_of: Callable[[float], DpEvent]
    target: float
    delta: float
    free: Free
    adjacency: str | None
    dear: float | None = None
    """The rightmost position known to be above the target."""
    good: float | None = None
    """The leftmost position known to be at or below it."""
    seen: dict[float, float] = field(default_factory=dict)
    """Position to price."""

    def run(self) -> float:
        """Close in on the target from both sides until the price is close or nothing is left between."""
        left, right = self.ends()
        position = self.place(self.guess())
        stride = math.log(1.1)
        while True:
            if self.price(position) <= self.target:
                self.good = position
            else:
                self.dear = position
            if self.is_close(left, right):
                break
            if self.good is None:
                position = self.place(min(self.seen_last() + stride, right))
            elif self.dear is None:
                position = self.place(max(self.seen_last() - stride, left))
            else:
                position = self.between()
            stride *= 2
        if self.good is None:
            raise self.unreachable()
        return self.value(self.good)

    def ends(self) -> tuple[float, float]:
        """The leftmost and the rightmost position."""
        low, high = math.log(self.free.low), math.log(self.free.high)
        return (low, high) if self.free.protects else (-high, -low)

    def value(self, position: float) -> float:
        """The value at a position."""
        raw = math.exp(position if self.free.protects else -position)
        return float(round(raw)) if self.free.whole else min(max(raw, self.free.low), self.free.high)

    def place(self, position: float) -> float:
        """The position, moved to the nearest whole value where only those count."""
        if not self.free.whole:
            return position
        whole = self.free.within(math.exp(position if self.free.protects else -position) + 1e-9)
        return math.log(whole) if self.free.protects else -math.log(whole)

    def seen_last(self) -> float:
        """The position priced last."""
        return next(reversed(self.seen))

    def guess(self) -> float:
        """Where the Rényi price meets the target, to a few per cent: usually slightly too private."""
        left, right = self.ends()
        # Finitely many orders cannot show an epsilon near 0; there epsilon is in proportion to the value.
        aim = max(self.target, 2 * self.renyi(right))
        while right - left > 0.05:
            middle = (left + right) / 2
            left, right = (left, middle) if self.renyi(middle) <= aim else (middle, right)
        return min(max(right + math.log(aim / self.target), self.ends()[0]), self.ends()[1])

    def renyi(self, position: float) -> float:
        """The Rényi price at a position, at whole orders."""
        return epsilon_rdp(self.event(self.place(position)), self.delta, self.relation(), WHOLE_ORDERS)

    def event(self, position: float) -> DpEvent:
        """What would be done at a position, in words that accountants know; refused where it has no price."""
        value = self.value(position)
        event = self.event_of(int(value) if self.free.whole else value)
        check_priceable(event)
        if not is_private(event):
            raise AccountingError(f"{self.free.name} {value:.4g} gives no guarantee at all: {event}")
        return expand(event)

    def relation(self) -> Any:
        """dp-accounting's name of the neighbours."""
        return find_relation(self.adjacency or natural_adjacency(self.event(self.ends()[1])))

    def price(self, position: float) -> float:
        """The headline price of a position, as `price` computes it."""
        event = self.event(position)
        if count_releases(event) == 0:
            self.seen[position] = 0.0
        else:
            relation = self.relation()
            curve = find_curve(event, relation)
            found, _ = price_bounds(event, self.delta, relation, curve, refuse_infinite=False)
            self.seen[position] = found.get("pld", found["rdp"])
        return self.seen[position]

    def is_close(self, left: float, right: float) -> bool:
        """The best value is within the tightness, at an end of what is searched, or next to a dear one."""
        if self.good is None:
            return self.dear is not None and self.dear >= self.place(right)
        if self.seen[self.good] >= self.target * (1 - TIGHTNESS) or self.good <= self.place(left):
            return True
        if self.dear is None:
            return False
        if self.free.whole:
            return abs(self.value(self.good) - self.value(self.dear)) <= 1
        return self.good - self.dear < CLOSED

    def between(self) -> float:
        """A position inside the bracket: the chord's, or every other time the middle.

        The price may fall off a cliff (few steps at a tiny rate), where a chord from far away creeps along
        one side for ever; halving every other time bounds the number of prices by the logarithm of the range.
        """
        if self.dear is None or self.good is None:
            raise RuntimeError("there is no bracket yet")
        middle = (self.dear + self.good) / 2
        high, low = self.seen[self.dear], self.seen[self.good]
        chosen = middle
        if len(self.seen) % 2 and math.isfinite(high) and low > 0:
            # In logarithms epsilon over the value is nearly a line.
            aim = math.log(self.target * (1 - TIGHTNESS / 2))
            share = (math.log(high) - aim) / (math.log(high) - math.log(low))
            chord = self.dear + share * (self.good - self.dear)
            chosen = chord if self.dear < chord < self.good else middle
        placed = self.place(chosen)
        return placed if placed not in (self.dear, self.good) else self.place_inside()

    def place_inside(self) -> float:
        """A whole value strictly between the two sides."""
        if self.dear is None or self.good is None or not self.free.whole:
            raise RuntimeError("nothing is left between the two sides")
        inside = (self.value(self.dear) + self.value(self.good)) // 2
        return math.log(inside) if self.free.protects else -math.log(inside)

    def unreachable(self) -> AccountingError:
        """What can be reached instead."""
        best = max(self.seen)
        return AccountingError(
            f"epsilon {self.target:g} at delta {self.delta:g} cannot be reached: with {self.free.name} "
            f"{self.value(best):g} it is still {self.seen[best]:.6g}; {self.free.remedy}"
        )


def _question(
    event_of: Callable[[float], DpEvent], target: float, delta: float, free: Free, adjacency: str | None
) -> dict[str, Any]:
    """What the answer depends on. Two members of a family of events stand for all of it."""
    probes = (1, 3) if free.whole else (1.0, 2.5)
    return {
        "family": [describe(event_of(value)) for value in probes],
        "free": [free.name, free.low, free.high, free.protects, free.whole],
        "target": repr(float(target)),
        "delta": repr(float(delta)),
        "adjacency": adjacency,
        "versions": {"calibration": VERSION, "dp-accounting": version("dp-accounting")},
    }
