"""Paired ratios of CPU times: competitors interleaved in one process, in random order, on one thread."""

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Seconds = Callable[[], float]
"""Does some work and returns the CPU seconds of what is compared."""


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % interval, by order statistics."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """The sign test's interval of the median."""
        ordered, half = sorted(values), 0.98 * math.sqrt(len(values))
        low = max(0, math.floor(len(ordered) / 2 - half))
        high = min(len(ordered) - 1, math.ceil(len(ordered) / 2 + half))
        return cls(statistics.median(ordered), ordered[low], ordered[high])

    def scaled(self, factor: float) -> "Estimate":
        """The same in another unit."""
        return Estimate(self.median * factor, self.low * factor, self.high * factor)

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Times:
    """CPU seconds by competitor, one for each round."""

    rounds: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """The median of one competitor."""
        return statistics.median(self.rounds[name])

    def ratio(self, name: str, to: str) -> Estimate:
        """The ratio of two competitors within a round."""
        pairs = zip(self.rounds[name], self.rounds[to], strict=True)
        return Estimate.of([own / other for own, other in pairs])

    def excess(self, name: str, over: str) -> Estimate:
        """The difference of two competitors within a round."""
        pairs = zip(self.rounds[name], self.rounds[over], strict=True)
        return Estimate.of([own - other for own, other in pairs])


def interleave(competitors: Mapping[str, Seconds], rounds: int, warm_up: int = 3) -> Times:
    """Let all work once per round, in random order, so that a noisy machine hits all alike."""
    order, names = random.Random(1), list(competitors)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(warm_up + rounds):
        order.shuffle(names)
        for name in names:
            spent = competitors[name]()
            if turn >= warm_up:
                times[name].append(spent)
    return Times(times)


def timed(work: Callable[[], object]) -> Seconds:
    """The CPU time of a whole call."""

    def seconds() -> float:
        begin = time.process_time()
        work()
        return time.process_time() - begin

    return seconds
