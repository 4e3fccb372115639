"""Drawing a method's own figure (workloads.drawings)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.figure.marks import PALETTE
from harness.report.figure.paper_sizes import SCREEN, Sheet, lay_out, panel_width, scaled, wrap
from harness.report.figure.style import FAINT, INK, log_ticks, new_figure, shorten
from workloads.drawings import Drawing, DrawnPanel

ROW_LETTERS = 25
"""Characters of a row's name, at most."""


def draw(drawing: Drawing, sheet: Sheet = SCREEN) -> Figure:
    """All its panels, three to a row."""
    count = len(drawing.panels)
    figure = new_figure(sheet.inches(13), sheet.lines(count) * sheet.height(3.8))
    if not sheet.printed:
        figure.suptitle(drawing.title, x=0.01, ha="left", fontsize=scaled(14), weight="bold")
    for axes, panel in zip(lay_out(figure, count, sheet), drawing.panels, strict=True):
        draw_panel(axes, panel)
    return figure


def draw_panel(axes: Axes, panel: DrawnPanel) -> None:
    """One pair of axes with its lines, dots and legend."""
    for line in panel.lines:
        colour = _colour(line.colour)
        axes.plot(line.x, line.y, line.style, ms=scaled(4), color=colour, label=line.label)
    for dot in panel.dots:
        axes.plot([dot.x], [dot.y], "o", ms=scaled(dot.size), color=_colour(dot.colour))
        if dot.text:
            axes.annotate(
                dot.text, (dot.x, dot.y), xytext=(8, -3), textcoords="offset points", fontsize=scaled(8)
            )
    if panel.shaded is not None:
        axes.axvspan(*panel.shaded, color="#dff0e8", lw=0, zorder=0)
    _scale(axes, panel)
    width = 0.8 * panel_width(axes)  # the title starts at the left axis
    axes.set_title(wrap(panel.title, width, 10), loc="left", fontsize=scaled(10))
    axes.set_xlabel(wrap(panel.x, width, SCREEN.font))
    axes.set_ylabel(panel.y)
    if panel.lines:
        size = None if panel.legend_size is None else scaled(panel.legend_size)
        axes.legend(loc=panel.legend_place, fontsize=size)
    elif panel.without_lines:
        text = panel.without_lines
        axes.text(0.5, 0.7, text, ha="center", va="center", color=FAINT, fontsize=scaled(8))


def _scale(axes: Axes, panel: DrawnPanel) -> None:
    if panel.rows:
        names = [shorten(name, ROW_LETTERS) for name in panel.rows]
        axes.set_yticks(range(len(names)), names, fontsize=scaled(8))
        axes.invert_yaxis()
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    if panel.x_limits is not None:
        axes.set_xlim(*panel.x_limits)
    if panel.y_limits is not None:
        axes.set_ylim(*panel.y_limits)
    if panel.y_ticks:
        axes.set_yticks(panel.y_ticks)
    for axis in [axes.xaxis] * panel.log_x + [axes.yaxis] * panel.log_y:
        log_ticks(axis)


def _colour(place: int | None) -> str:
    return INK if place is None else PALETTE[place % len(PALETTE)]
