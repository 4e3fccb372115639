"""Calibration: the noise, concentration or number of steps that just meets a target epsilon."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
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
from harness.accounting.numbers import check_delta
from harness.accounting.pricing import find_curve, price_bounds
from workloads.disk_cache import default_folder, digest, read_cached, write_cached
from workloads.errors import AccountingError

TARGETS = (0.01, 1000.0)
TIGHTNESS = 1e-3
"""The price of the solution lies within this share below the target."""
CLOSED = 1e-9
"""Values this close, relatively, are not split further: the price jumps between them."""
FOLDER = "calibration"
"""The name of the cache."""
VERSION = 2
"""Raised when the same problem would get another solution."""


@dataclass(frozen=True)
class Free:
    """The parameter that is solved for."""

    name: str
    low: float
    high: float
    """The range that is searched."""
    protects: bool
    """True if more of it lowers epsilon (noise), False if more of it raises epsilon (steps)."""
    whole: bool = False
    remedy: str = "ask for that much, or for fewer steps or smaller batches"
    """What to do if no value meets the target."""
    start: float | None = None
    """The share of the target to try first, if an event is too expensive to search for a first guess."""

    def within(self, value: float) -> float:
        """The nearest value in the range; of two whole ones, the more private."""
        value = min(max(value, self.low), self.high)
        return float(math.floor(value)) if self.whole else value


NOISE = Free("noise", 1e-2, 1e6, protects=True)
"""A noise multiplier or scale. Below the range, the Gaussian mechanism gives no protection."""
CONCENTRATION = Free(
    "concentration", 1e-6, 1e9, protects=False, remedy="ask for that much, or for fewer uses or rows"
)
COUNT = Free("count", 1, 1e7, protects=False, whole=True, remedy="ask for that much, or for more noise")
"""A number of releases."""
BUDGET = Free(
    "budget",
    *TARGETS,
    protects=False,
    remedy="ask for that much, or for fewer trials or more score noise",
    start=0.4,
)
"""The epsilon of one part of a mechanism, such as of each training of a search."""

SEARCHES = {each.name: each for each in (NOISE, CONCENTRATION, COUNT, BUDGET)}
"""The search of each kind of parameter that a method can declare.

A wrong declaration cannot break a guarantee, since the finished ledger is priced as well.
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
        event_of: From a value to the event; the price must not rise with noise, nor fall with any other
            parameter.
        target_epsilon: From 0.01 to 1000, or infinite, which needs no noise: 0.
        delta: The delta of the guarantee.
        free: The parameter that is solved for, and its range.
        adjacency: Which data sets are neighbours; the event's own by default.
        cache: The folder of cached solutions; in the user's cache by default.

    Raises:
        AccountingError: The target is out of range or infeasible; `allowed` is what can be reached.
    """
    if target_epsilon == math.inf and free.protects:
        return 0.0
    if not TARGETS[0] <= target_epsilon <= TARGETS[1]:
        beyond = ", or be inf" if free.protects else f"; beyond, any {free.name} will do"
        raise AccountingError(
            f"epsilon can be calibrated from {TARGETS[0]} to {TARGETS[1]:g}{beyond}; got {target_epsilon}",
            field="epsilon",
            value=target_epsilon,
            allowed=TARGETS,
        )
    check_delta(delta)
    folder = cache or default_folder(FOLDER)
    question = _question(event_of, target_epsilon, delta, free, adjacency)
    known = read_cached(folder, question)
    if known is not None:
        return float(known)
    value = Search(event_of, target_epsilon, delta, free, adjacency).run()
    write_cached(folder, question, value)
    return value


class Unsolved(Exception):
    """A solution that is not in the cache; `question` is the same for the same problem."""

    def __init__(self, question: str) -> None:
        self.question = question
        super().__init__(question)


def calibrated(
    event_of: Callable[[float], DpEvent], target_epsilon: float, delta: float, *, free: Free = NOISE
) -> float:
    """What `calibrate` found before; Unsolved if it has to be computed."""
    if target_epsilon == math.inf and free.protects:
        return 0.0
    question = _question(event_of, target_epsilon, delta, free, None)
    known = read_cached(default_folder(FOLDER), question)
    if known is None:
        raise Unsolved(digest(question))
    return float(known)


@dataclass
class Search:
    """A search for one value: Rényi prices give the first guess, the headline price decides.

    Positions are logarithms of the value, signed so that the price falls to the right.
    """

    event_of: Callable[[float], DpEvent]
    target: float
    delta: float
    free: Free
    adjacency: str | None
    above: float | None = None
    """The rightmost position known to be above the target."""
    good: float | None = None
    """The leftmost position known to be at or below it."""
    seen: dict[float, float] = field(default_factory=dict)
    """Position to price."""

    def run(self) -> float:
        """Bracket the target until the price is close to it or the bracket is empty."""
        left, right = self.ends()
        position = self.place(self.guess())
        stride = math.log(1.1)
        while True:
            if self.price(position) <= self.target:
                self.good = position
            else:
                self.above = position
            if self.is_close(left, right):
                break
            if self.good is None:
                position = self.place(min(self.seen_last() + stride, right))
            elif self.above is None:
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
        """The position, rounded to a whole value if only those count."""
        if not self.free.whole:
            return position
        whole = self.free.within(math.exp(position if self.free.protects else -position) + 1e-9)
        return math.log(whole) if self.free.protects else -math.log(whole)

    def seen_last(self) -> float:
        """The position priced last."""
        return next(reversed(self.seen))

    def guess(self) -> float:
        """The position at which the Rényi price meets the target, to a few per cent: usually too private."""
        if self.free.start is not None:
            return -math.log(self.free.within(self.free.start * self.target))
        left, right = self.ends()
        # Finitely many orders cannot resolve an epsilon near 0; there it is proportional to the value.
        aim = max(self.target, 2 * self.renyi(right))
        while right - left > 0.05:
            middle = (left + right) / 2
            left, right = (left, middle) if self.renyi(middle) <= aim else (middle, right)
        return min(max(right + math.log(aim / self.target), self.ends()[0]), self.ends()[1])

    def renyi(self, position: float) -> float:
        """The Rényi price at a position, at whole orders."""
        return epsilon_rdp(self.event(self.place(position)), self.delta, self.relation(), WHOLE_ORDERS)

    def event(self, position: float) -> DpEvent:
        """The expanded event at a position; AccountingError if it has no price."""
        value = self.value(position)
        event = self.event_of(int(value) if self.free.whole else value)
        check_priceable(event)
        if not is_private(event):
            message = f"{self.free.name} {value:.4g} gives no guarantee at all: {event}"
            raise AccountingError(message, field=self.free.name, value=value)
        return expand(event)

    def relation(self) -> Any:
        """dp-accounting's name of the adjacency."""
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
        """The best value is tight, at an end of the range, or next to one that exceeds the target."""
        if self.good is None:
            return self.above is not None and self.above >= self.place(right)
        if self.seen[self.good] >= self.target * (1 - TIGHTNESS) or self.good <= self.place(left):
            return True
        if self.above is None:
            return False
        if self.free.whole:
            return abs(self.value(self.good) - self.value(self.above)) <= 1
        return self.good - self.above < CLOSED

    def between(self) -> float:
        """A position inside the bracket: by the chord, and every other time the middle.

        The price may be nearly a step function (few steps at a tiny rate), on which the chord hardly
        advances; halving every other time bounds the number of prices by the logarithm of the range.
        """
        if self.above is None or self.good is None:
            raise RuntimeError("no bracket yet")
        middle = (self.above + self.good) / 2
        high, low = self.seen[self.above], self.seen[self.good]
        chosen = middle
        if len(self.seen) % 2 and math.isfinite(high) and low > 0:
            # On a log-log scale epsilon over the value is nearly linear.
            aim = math.log(self.target * (1 - TIGHTNESS / 2))
            share = (math.log(high) - aim) / (math.log(high) - math.log(low))
            chord = self.above + share * (self.good - self.above)
            chosen = chord if self.above < chord < self.good else middle
        placed = self.place(chosen)
        return placed if placed not in (self.above, self.good) else self.place_inside()

    def place_inside(self) -> float:
        """A whole value strictly inside the bracket."""
        if self.above is None or self.good is None or not self.free.whole:
            raise RuntimeError("the bracket is empty")
        inside = (self.value(self.above) + self.value(self.good)) // 2
        return math.log(inside) if self.free.protects else -math.log(inside)

    def unreachable(self) -> AccountingError:
        """The error for an infeasible target, with the lowest epsilon in reach."""
        best = max(self.seen)
        return AccountingError(
            f"epsilon {self.target:g} at delta {self.delta:g} cannot be reached: with {self.free.name} "
            f"{self.value(best):g} it is still {self.seen[best]:.6g}; {self.free.remedy}",
            field="epsilon",
            value=self.target,
            allowed=self.seen[best],
        )


def _question(
    event_of: Callable[[float], DpEvent], target: float, delta: float, free: Free, adjacency: str | None
) -> dict[str, Any]:
    """All that the solution depends on. Two members of a family of events represent it."""
    probes = (1, 3) if free.whole else (1.0, 2.5)
    return {
        "family": [describe(event_of(value)) for value in probes],
        "free": [free.name, free.low, free.high, free.protects, free.whole],
        "target": repr(float(target)),
        "delta": repr(float(delta)),
        "adjacency": adjacency,
        "versions": {"calibration": VERSION, "dp-accounting": _installed()},
    }


@cache
def _installed() -> str:
    """The version of dp-accounting, read once: thousands of trials are planned together."""
    return version("dp-accounting")
