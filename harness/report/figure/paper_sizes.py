"""The size that a figure is drawn for: a screen, or one or two columns of a paper."""

import textwrap
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes

Columns = Literal["1", "2"]
BASE = 9.0
"""The text size in points that all sizes in this package are relative to."""
PRINTED = 2.4
"""Height of a row of panels in print, in inches."""


@dataclass(frozen=True)
class Sheet:
    """The width of a figure, its text size, and the number of panels side by side."""

    width: float | None
    """Inches; None for each figure's own."""
    across: int
    font: float

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


SCREEN = Sheet(None, across=3, font=BASE)
SHEETS: dict[Columns | None, Sheet] = {
    None: SCREEN,
    "1": Sheet(3.3, across=1, font=7.0),
    "2": Sheet(7.0, across=2, font=7.0),
}
"""By the columns of a paper that a figure spans."""


def scaled(points: float) -> float:
    """A size in points that fits the text of the sheet in use (see style.house_style)."""
    return points * float(matplotlib.rcParams["font.size"]) / BASE


def wrap(text: str, inches: float, points: float) -> str:
    """Text wrapped to this many inches, at that size on the sheet in use."""
    letter = 0.56 * scaled(points) / 72  # approximate width of DejaVu Sans in inches
    bound = text.replace(" %", "\N{NO-BREAK SPACE}%")
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
