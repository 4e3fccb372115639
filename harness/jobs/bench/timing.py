"""Figures from laps: medians, ratios to the baseline with intervals, and whether to trust them."""

import io
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from harness.jobs.bench.interleaving import Lap, Turn
from harness.store.outcomes import Variant

LEAST_STEPS = 50
"""Minimum number of steps for a reliable median."""
RATIO_BOUND, INTERVAL_BOUND, SPREAD_BOUND = 0.1, 0.2, 0.5
"""Bounds on the second copy of the baseline relative to the first: deviation of the ratio and of its interval
from 1, and the interquartile range of the ratios of single rounds."""
RESAMPLES = 1000

Numbers = NDArray[np.float64]


class Laps:
    """The laps of one training as columns; `clock` is "cpu" or "wall" (on a GPU the time between events)."""

    def __init__(self, laps: Sequence[Lap]) -> None:
        self.laps = laps

    def whole(self, clock: str) -> Numbers:
        """Seconds of the steps."""
        return np.array([lap.cpu if clock == "cpu" else lap.wall for lap in self.laps], dtype=np.float64)

    def part(self, name: str, clock: str) -> Numbers:
        """Seconds of a part of the steps; 0 for steps without it."""
        place = 1 if clock == "cpu" else 0
        return np.array([lap.clocks.get(name, (0.0, 0.0))[place] for lap in self.laps], dtype=np.float64)

    def drawing(self, clock: str) -> Numbers:
        """Seconds of drawing batches."""
        place = 1 if clock == "cpu" else 0
        return np.array([lap.drawing[place] for lap in self.laps], dtype=np.float64)

    def net(self, clock: str) -> Numbers:
        """Seconds of the steps without drawing the batch."""
        return self.whole(clock) - self.drawing(clock)

    def figures(self, clock: str) -> dict[str, Any]:
        """Step times, without comparison."""
        whole = {each: np.quantile(self.whole(each), [0.25, 0.5, 0.75]) for each in ("wall", "cpu")}
        names = sorted({name for lap in self.laps for name in lap.clocks})
        return {
            "steps": len(self.laps),
            "phases": dict(Counter(lap.phase for lap in self.laps)),
            **{f"median_{each}_seconds": _known(whole[each][1]) for each in whole},
            **{f"iqr_{each}_seconds": _known(whole[each][2] - whole[each][0]) for each in whole},
            "median_net_seconds": float(np.median(self.net(clock))),
            "seconds_per_update": self._seconds_per_update(clock),
            "clocks": {
                name: {f"median_{each}_seconds": _known(np.median(self.part(name, each))) for each in whole}
                for name in names
            },
        }

    def _seconds_per_update(self, clock: str) -> float | None:
        """Total time of all steps divided by the number of updates; None without verdicts."""
        made = sum(lap.accepted or False for lap in self.laps)
        return float(self.net(clock).sum()) / made if made else None


def _known(seconds: float) -> float | None:
    """None for NaN: CPU time on a GPU."""
    return None if math.isnan(seconds) else float(seconds)


def compare(own: Laps, reference: Laps, clock: str, seed: int) -> dict[str, Any]:
    """Ratios of median steps. The interval is a 95 % paired bootstrap over rounds."""
    above, below = own.net(clock), reference.net(clock)
    rows = np.random.default_rng(seed).integers(0, len(above), (RESAMPLES, len(above)))
    drawn = np.median(above[rows], axis=1) / np.median(below[rows], axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {
        "ratio": float(np.median(above) / np.median(below)),
        "ratio_low": float(low),
        "ratio_high": float(high),
        "ratio_whole_step": float(np.median(own.whole(clock)) / np.median(reference.whole(clock))),
        "ratio_wall": float(np.median(own.net("wall")) / np.median(reference.net("wall"))),
    }


def find_doubt(control: Variant, again: Laps, reference: Laps, clock: str, baseline: str) -> str | None:
    """Why the ratios cannot be trusted; None if they can."""
    if control.ratio is None or control.ratio_low is None or control.ratio_high is None:
        return f"{baseline} was not timed twice"
    rounds = len(reference.laps)
    if rounds < LEAST_STEPS:
        return f"only {rounds} timed steps: give --steps {LEAST_STEPS} or more"
    low, middle, high = np.quantile(again.net(clock) / reference.net(clock), [0.25, 0.5, 0.75])
    noisy = f"too noisy to trust: the second copy of {baseline} took"
    if abs(control.ratio - 1) > RATIO_BOUND:
        allowed = f"{1 - RATIO_BOUND:g} to {1 + RATIO_BOUND:g}"
        return f"{noisy} {control.ratio:.2f} times the first, allowed is {allowed}"
    if max(1 - control.ratio_low, control.ratio_high - 1) > INTERVAL_BOUND:
        return (
            f"{noisy} {control.ratio_low:.2f} to {control.ratio_high:.2f} times the first (95 %), allowed is "
            f"{1 - INTERVAL_BOUND:g} to {1 + INTERVAL_BOUND:g}"
        )
    if (high - low) / middle > SPREAD_BOUND:
        return (
            f"{noisy} {low:.2f} to {high:.2f} times the first in the middle half of the rounds, allowed is a "
            f"width of {SPREAD_BOUND:g} of the median"
        )
    return None


def lap_table(turns: Sequence[Turn], names: Sequence[str]) -> bytes:
    """Every timed step as Parquet, in the order in which they ran."""
    clocks = sorted({name for turn in turns for name in turn.lap.clocks})
    columns: dict[str, list[Any]] = {
        "round": [turn.round for turn in turns],
        "place": [turn.place for turn in turns],
        "variant": [names[turn.player] for turn in turns],
        "phase": [turn.lap.phase for turn in turns],
        "wall_seconds": [turn.lap.wall for turn in turns],
        "cpu_seconds": [_known(turn.lap.cpu) for turn in turns],
    }
    for name in clocks:
        for place, clock in enumerate(("wall", "cpu")):
            columns[f"clock_{name}_{clock}"] = [
                _known(turn.lap.clocks[name][place]) if name in turn.lap.clocks else None for turn in turns
            ]
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return sink.getvalue()
