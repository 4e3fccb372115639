"""What a report is made for: a screen, or one or two columns of a paper; with its panels and columns."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes

from workloads.errors import SpecError

Columns = Literal["1", "2"]
BASE = 9.0
"""The text size in points that all sizes in this package are relative to."""
PRINTED = 2.4
"""Height of a row of panels in print, in inches."""
PANELS = {
    "frontier": ("frontier", "auc", "roc"),
    "frontier-cost": ("time", "memory"),
    "calibration": ("frontier", "auc", "roc"),
    "overhead": ("step", "training", "memory"),
    "compare": ("accuracy", "validation", "tpr-1", "tpr-10", "auc"),
}
"""The panels of each figure; the first is drawn if only one fits."""
FIGURES = {
    "frontier": ("frontier", "frontier-cost"),
    "calibration": ("calibration",),
    "overhead": ("overhead",),
    "compare": ("compare",),
}
"""The figures of each report with panels to choose from."""


@dataclass(frozen=True)
class Sheet:
    """The width of a figure, its text size, the number of panels side by side, and what is chosen to show."""

    width: float | None
    """Inches; None for each figure's own."""
    across: int
    font: float
    panels: tuple[str, ...] = ()
    """The chosen panels of figures; empty for the default."""
    columns: tuple[str, ...] = ()
    """The chosen columns of tables; empty for the default (harness.report.text_table)."""

    @property
    def printed(self) -> bool:
        """Whether it is for a paper, whose caption is the title."""
        return self.width is not None

    def inches(self, own: float) -> float:
        """The width of a figure that takes `own` inches on a screen."""
        return own if self.width is None else self.width

    def lines(self, panels: int) -> int:
        """The number of rows for this many panels."""
        return -(-panels // self.across)

    def height(self, own: float) -> float:
        """The height of a row of panels that takes `own` inches on a screen; the same for all in print."""
        return own if self.width is None else PRINTED

    def panels_of(self, figure: str) -> tuple[str, ...]:
        """The panels of a figure to draw: the chosen ones, else all; in one column of a paper the first."""
        known = PANELS[figure]
        if self.panels:
            return tuple(name for name in known if name in self.panels)
        return known[:1] if self.printed and self.across == 1 else known


SCREEN = Sheet(None, across=3, font=BASE)
SHEETS: dict[Columns | None, Sheet] = {
    None: SCREEN,
    "1": Sheet(3.0, across=1, font=8.0),
    "2": Sheet(7.0, across=2, font=8.0),
}
"""By the columns of a paper that a figure spans."""


def choose_sheet(
    columns: Columns | None, report: str, panels: Sequence[str] = (), table_columns: Sequence[str] = ()
) -> Sheet:
    """The sheet of a report with these panels and columns of tables; SpecError for an unknown panel."""
    known = tuple(dict.fromkeys(name for figure in FIGURES.get(report, ()) for name in PANELS[figure]))
    for name in panels:
        if name not in known:
            named = ", ".join(known)
            has = f"its panels are {named}" if known else "it has no panels to choose from: leave --panel out"
            message = f"there is no panel {name!r} in `report {report}`: {has}"
            raise SpecError(message, field="panel", value=name, allowed=known)
    return replace(SHEETS[columns], panels=tuple(panels), columns=tuple(table_columns))


def scaled(points: float) -> float:
    """A size in points that fits the text of the sheet in use (see style.house_style)."""
    return points * float(matplotlib.rcParams["font.size"]) / BASE


def wrap(text: str, inches: float, points: float) -> str:
    """Text wrapped to this many inches, at that size on the sheet in use."""
    letter = 0.56 * scaled(points) / 72  # approximate width of DejaVu Sans in inches
    bound = text.replace(" %", "\N{NO-BREAK SPACE}%").replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    width = max(int(inches / letter), 12)
    lines = [textwrap.wrap(line, width, break_on_hyphens=False) for line in bound.splitlines()]
    return "\n".join(chain.from_iterable(lines)).replace("\N{NO-BREAK SPACE}", " ")


def lay_out(part: Any, panels: int, sheet: Sheet) -> list[Axes]:
    """Axes for this many panels, side by side as the sheet allows; the last fills its row."""
    across = min(panels, sheet.across)
    grid = part.add_gridspec(sheet.lines(panels), across)
    axes = [part.add_subplot(grid[divmod(place, across)]) for place in range(panels - 1)]
    line, column = divmod(panels - 1, across)
    return [*axes, part.add_subplot(grid[line, column:])]


def panel_width(axes: Axes) -> float:
    """Approximate inches for a text along a panel."""
    place: Any = axes.get_subplotspec()
    share = len(place.colspan) / place.get_gridspec().ncols
    return float(0.85 * share * axes.figure.bbox.width / axes.figure.dpi)
