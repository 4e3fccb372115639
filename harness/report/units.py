"""Units of figures as text: accuracies and rates in per cent, the AUC as a number; with their intervals.

Views and CSV files hold fractions; the terminal, rendered tables and the page all show these units.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.report.reading import Row

NO_BETTER = "no better than the most common class"
"""Stated wherever such an accuracy is shown."""
MARK = "†"
"""The sign of an accuracy that is no better than the most common class."""


@dataclass(frozen=True)
class Unit:
    """How a figure is shown: multiplied by `scale`, with this many digits and a sign."""

    scale: float
    digits: int
    sign: str

    def amount(self, value: float) -> str:
        """The number alone."""
        return f"{self.scale * value:.{self.digits}f}"


PERCENT, NUMBER = Unit(100, 1, " %"), Unit(1, 3, "")
FINE = {"tpr_at_0p1pct": Unit(100, 2, " %"), "tpr_at_0p01pct": Unit(100, 3, " %")}
"""Rates that are small because their false-positive rate is."""


def unit_of(column: str) -> Unit:
    """The unit of a column of the view `frontier`: per cent unless it is an AUC."""
    return FINE.get(column) or (NUMBER if column.endswith("auc") else PERCENT)


def show_whole(row: Row, column: str, unit: Unit | None = None) -> str | None:
    """A figure with both ends of its interval, if it has one: `96.6 % [96.0, 97.1]`."""

    def whole(shown: Unit, value: float, low: float, high: float) -> str:
        return f"{shown.amount(value)}{shown.sign} [{shown.amount(low)}, {shown.amount(high)}]"

    return _show(row, column, unit or unit_of(column), whole)


def show_short(row: Row, column: str, unit: Unit | None = None) -> str | None:
    """A figure with the larger half of its interval: `96.6 ± 0.6 %`.

    The shorter half is covered too; `show_whole` has both.
    """

    def short(shown: Unit, value: float, low: float, high: float) -> str:
        return f"{shown.amount(value)} ± {shown.amount(max(value - low, high - value))}{shown.sign}"

    return _show(row, column, unit or unit_of(column), short)


def _show(row: Row, column: str, unit: Unit, band: Callable[[Unit, float, float, float], str]) -> str | None:
    """A figure, by `band` if it has an interval; None if it is null."""
    value, low, high = row[column], row[f"{column}_low"], row[f"{column}_high"]
    if value is None:
        return None
    return f"{unit.amount(value)}{unit.sign}" if low is None or high is None else band(unit, value, low, high)


def is_no_better(row: Row) -> bool:
    """Whether an accuracy is not above that of the most common class; False if that is not known."""
    return row.get("beats_majority") is False


def note_majority(rows: Sequence[Row]) -> str | None:
    """The footnote of marked accuracies: what it means and the share of the most common class."""
    marked = [row for row in rows if is_no_better(row)]
    if not marked:
        return None
    shares = [row["majority_accuracy"] for row in marked]
    ends = dict.fromkeys(PERCENT.amount(share) for share in (min(shares), max(shares)))
    span = " to ".join(ends)
    return f"{MARK} {NO_BETTER} of the test records, which has {span} %."
