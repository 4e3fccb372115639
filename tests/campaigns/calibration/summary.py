"""Coverage and error rates from the counts, their bounds, and the tables of docs/calibration.md.

The truth is the expectation over masks and training randomness on the pool. It is estimated by the mean over
all other cells of the same pool, so that no cell contributes to its own truth; with C cells this adds 1 / C
to the variance of a deviation, less than 0.1 points of coverage from 100 cells on. Cells drawn from K stored
models deviate from the mean over those K by sqrt(1 - M / K) of the deviation of new models, and are corrected
for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from harness.leakage.intervals import quantile
from harness.leakage.matrices import Bools, Floats
from tests.campaigns.calibration.counts import Counts
from tests.campaigns.calibration.measured import (
    ATTACKS,
    AXES,
    DEFAULTS,
    EQUAL,
    FIGURES,
    METHODS,
    ONE_BETTER,
    PAIRS,
    STRONGEST,
    winners,
)

NULL, LEAK = "no leakage", "leakage"
LOWEST_MEAN, HIGHEST_MEAN = 0.93, 0.995
"""Of a default attack over its figures."""
LOWEST_ENTRY = 0.925
"""The 99 % upper limit of no single entry may be below."""
LEVEL = 0.05
ROWS = (*ATTACKS, STRONGEST)


@dataclass(frozen=True)
class Entry:
    """The intervals of one figure of one attack over many cells."""

    found: Floats
    """(cells, 3)"""
    drawn: float = 0.0
    """Share of the stored models that a cell is drawn from; 0 for synthetic ones."""

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.found)

    @property
    def mean(self) -> float:
        """The truth, estimated from all cells."""
        return float(self.found[:, 0].mean())

    @property
    def deviation(self) -> float:
        """The standard deviation of the figure between cells."""
        return float(self.found[:, 0].std(ddof=1) / np.sqrt(1 - self.drawn))

    @property
    def covered(self) -> int:
        """Cells whose interval contains the mean of the others."""
        value, low, high = self.found.T
        truth = (value.sum() - value) / (self.cells - 1)
        at = value + (truth - value) / np.sqrt(1 - self.drawn)
        return int(((low <= at) & (at <= high)).sum())

    @property
    def coverage(self) -> float:
        """The share of covered cells."""
        return self.covered / self.cells

    @property
    def upper(self) -> float:
        """The 99 % upper limit of the coverage (Clopper and Pearson 1934)."""
        return (
            float(stats.beta.ppf(0.99, self.covered + 1, self.cells - self.covered)) if self.missed else 1.0
        )

    @property
    def missed(self) -> int:
        """Cells whose interval does not contain it."""
        return self.cells - self.covered

    def above(self, chance: float) -> float:
        """The share of cells whose low end is above chance."""
        return float((self.found[:, 1] > chance).mean())

    def relative_error(self, models: int) -> float:
        """Mean standard error over true standard deviation, of a figure with a symmetric interval."""
        errors = (self.found[:, 2] - self.found[:, 1]) / 2 / quantile(models)
        return float(errors.mean() / self.deviation)


def entries(
    counts: Counts, kind: str, models: int, attack: str, stored: int | None = None
) -> dict[str, Entry]:
    """By figure, if there are enough cells for a mean of the others."""
    share = models / stored if stored else 0.0
    found = {figure: Entry(counts.intervals(kind, models, attack, figure), share) for figure in FIGURES}
    return {figure: entry for figure, entry in found.items() if entry.cells > 1}


def broken(counts: Counts, models: Iterable[int]) -> list[str]:
    """Violations of the bounds on coverage of synthetic cells, as text."""
    found = []
    for count in models:
        for kind in (NULL, LEAK):
            for attack in ROWS:
                of = entries(counts, kind, count, attack)
                where = f"{attack}, {count} models, {kind}"
                found += [
                    f"{where}: {figure} is covered in {entry.coverage:.1%} of {entry.cells} cells, at most "
                    f"{entry.upper:.1%}, below {LOWEST_ENTRY:.1%}"
                    for figure, entry in of.items()
                    if entry.upper < LOWEST_ENTRY
                ]
                mean = float(np.mean([entry.coverage for entry in of.values()])) if of else LOWEST_MEAN
                if attack in DEFAULTS and not LOWEST_MEAN <= mean <= HIGHEST_MEAN:
                    found.append(
                        f"{where}: mean coverage {mean:.1%}, allowed {LOWEST_MEAN:.1%}-{HIGHEST_MEAN:.1%}"
                    )
    return found


def coverage_table(
    counts: Counts, kinds: Iterable[str], models: Iterable[int], stored: int | None = None
) -> str:
    """Mean (lowest-highest) over figures, a row for each attack."""
    columns = [(count, kind) for count in models for kind in kinds if counts.number(kind, count) > 1]
    head = ["attack", *(f"M = {count}, {kind}" for count, kind in columns)]
    rows = []
    for attack in ROWS:
        cells = [attack]
        for count, kind in columns:
            shares = [each.coverage for each in entries(counts, kind, count, attack, stored).values()]
            cells.append(f"{_percent(np.mean(shares))} ({_percent(min(shares))}-{_percent(max(shares))})")
        rows.append(cells)
    numbers = [counts.number(kind, count) for count, kind in columns]
    rows.append(["cells", *(f"{number:,}" for number in numbers)])
    rows.append(["s.e. of an entry", *(_percent(np.sqrt(0.95 * 0.05 / number)) for number in numbers)])
    return markdown(head, rows)


def entry_table(
    counts: Counts, kinds: Iterable[str], models: Iterable[int], stored: int | None = None
) -> str:
    """The coverage of every figure of every attack."""
    columns = [(count, kind) for count in models for kind in kinds if counts.number(kind, count) > 1]
    rows = []
    for attack in ROWS:
        for figure in FIGURES:
            if (attack, figure) == (STRONGEST, "BA"):
                continue
            found = [entries(counts, kind, count, attack, stored)[figure] for count, kind in columns]
            rows.append([attack, figure, *(_percent(each.coverage) for each in found)])
    return markdown(["attack", "figure", *(f"M = {count}, {kind}" for count, kind in columns)], rows)


def null_table(counts: Counts, models: Iterable[int]) -> str:
    """The figures of attacks without leakage."""
    rows = []
    for attack in ROWS:
        for count in models:
            of = entries(counts, NULL, count, attack)
            if not of:
                continue
            means = [f"{_plain(of[name])}" if name in of else "" for name in FIGURES]
            sizes = [each.above(FIGURES[name]) for name, each in of.items()]
            rows.append([attack, str(count), *means, f"{_percent(min(sizes))}-{_percent(max(sizes))}"])
    return markdown(["attack", "M", *FIGURES, "low end above chance"], rows)


def leak_table(counts: Counts, models: Iterable[int]) -> str:
    """The figures of attacks with leakage, and their standard errors relative to the truth."""
    rows = []
    for attack in ROWS:
        for count in models:
            of = entries(counts, LEAK, count, attack)
            if not of:
                continue
            means = [f"{_plain(of[name])}" if name in of else "" for name in FIGURES]
            ratios = [f"{of[name].relative_error(count):.2f}" if name in of else "" for name in ("AUC", "BA")]
            rows.append([attack, str(count), *means, *ratios])
    return markdown(["attack", "M", *FIGURES, "s.e. / s.d., AUC", "BA"], rows)


def comparison_table(counts: Counts, models: Iterable[int]) -> str:
    """False winners and power of the paired tests."""
    same = np.array([METHODS - 1 not in pair for pair in PAIRS])
    rows = []
    for axis in AXES:
        for count in models:
            equal = counts.p_values(EQUAL, count, axis, len(PAIRS))
            better = counts.p_values(ONE_BETTER, count, axis, len(PAIRS))
            if not len(equal) or not len(better):
                continue
            won, won_better = _winners(equal), _winners(better)
            rows.append(
                [
                    axis,
                    str(count),
                    _percent(np.mean(equal < LEVEL)),
                    _percent(np.mean((equal < LEVEL).any(axis=1))),
                    _percent(np.mean(won.any(axis=1))),
                    _percent(np.mean(won_better[:, same].any(axis=1))),
                    "" if axis == "accuracy" else _percent(np.mean(better[:, ~same] < LEVEL)),
                    "" if axis == "accuracy" else _percent(np.mean(won_better[:, ~same])),
                    f"{len(equal):,} + {len(better):,}",
                ]
            )
    head = ["axis", "M", "a pair, p < .05", "any pair, p < .05", "any pair, Holm", "any equal pair, Holm"]
    return markdown([*head, "power, one pair", "power, Holm", "tables"], rows)


def _winners(p_values: Floats) -> Bools:
    return np.array([winners(row.tolist()) for row in p_values])


def _percent(share: float | np.floating) -> str:
    return f"{100 * float(share):.1f}"


def _plain(entry: Entry) -> str:
    return f"{entry.mean:.4f} ± {entry.deviation / np.sqrt(entry.cells):.4f}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
