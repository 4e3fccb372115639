"""The frontier with a third axis: accuracy against leakage, with the cost of training as colour."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.leakage.pareto import find_undominated
from harness.report.costs import is_resolved
from harness.report.figure.artists import Marks
from harness.report.figure.labels import Label, place_labels
from harness.report.figure.legend import draw_legend, legend_height, method_signs
from harness.report.figure.marks import Mark, assign_marks
from harness.report.figure.panels import FRONT_NAMED, Panel, choose_panel, describe_group, spread
from harness.report.figure.paper_sizes import SCREEN, Sheet, lay_out, panel_width, scaled, wrap
from harness.report.figure.style import (
    FAINT,
    empty_figure,
    explain_empty,
    lay_out_once,
    new_figure,
    percent_ticks,
    shorten,
)
from harness.report.leakage import SELECTED_BY, Leakage, able_rows, choose_leakage, drawn_by
from harness.report.reading import Reading, Row

COST_TITLE = "Accuracy against leakage and cost"
WIDTH = 11
"""Inches on a screen."""
COLUMNS = {"time": "training_overhead", "memory": "memory_overhead"}
"""By the name of the panel."""
COSTS = {
    "training_overhead": "time of the whole training (baseline = 1)",
    "memory_overhead": "extra peak memory (baseline = 1)",
}
SCALE = "cividis"
"""Perceptually uniform, also with colour blindness (Nunez, Anderton and Renslow 2018)."""
NOTE = (
    "Large: no other valid cell is as good in leakage, accuracy and cost, and better in one; "
    f"up to {FRONT_NAMED} of a panel are named. "
    "Edges and shapes are methods, fillings are costs, measured in the training runs and accurate to about "
    "one digit."
)


def cost_figure(reading: Reading, sheet: Sheet = SCREEN) -> Figure:
    """One row of panels for each group: time as the third axis, memory as the third axis."""
    if not reading.frontier:
        return empty_figure(COST_TITLE, explain_empty(reading), sheet)
    groups = [[row for row in reading.frontier if row["group"] == name] for name in reading.groups]
    marks = assign_marks([*reading.methods, *(row["method"] for row in reading.frontier)], reading.baselines)
    width, scale = sheet.inches(WIDTH), sheet.font / SCREEN.font
    panels = sheet.panels_of("frontier-cost")
    note = "" if sheet.printed else wrap(NOTE, width, 8)
    signs = [method_signs(reading.frontier, marks)]
    title = 0.5 * (not sheet.printed)
    heights = [
        0.1 + title + legend_height(signs, sheet, WIDTH),
        *(sheet.lines(len(panels)) * sheet.height(4.1) for _ in groups),
        *([(0.2 + 0.16 * len(note.splitlines())) * scale] if note else []),
    ]
    figure = new_figure(width, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    if not sheet.printed:
        place = 1 - 0.25 / heights[0]
        parts[0].text(0.01, place, COST_TITLE, fontsize=scaled(14), weight="bold", va="center")
        parts[-1].text(0.01, 1.0, note, fontsize=scaled(8), va="top")
    draw_legend(parts[0], signs, 0.05 + title, heights[0], sheet, WIDTH)
    pending = []
    for part, rows in zip(parts[1:], groups, strict=False):
        head = describe_group(rows) if not sheet.printed else shorten(rows[0]["group"], 60)
        if not sheet.printed or len(groups) > 1:
            part.suptitle(wrap(head, width, 10.5), x=0.01, ha="left", fontsize=scaled(10.5), weight="bold")
        leakage = choose_leakage(drawn_by(rows, reading.attack), reading.fpr)
        panel = choose_panel(rows, leakage, reading.attack)
        for name, axes in zip(panels, lay_out(part, len(panels), sheet), strict=True):
            pending.append((axes, _draw_costs(axes, panel, COLUMNS[name], marks, sheet)))
    lay_out_once(figure)  # labels are placed for this layout
    for axes, labels in pending:
        place_labels(figure, axes, labels)
    return figure


def find_efficient(rows: Sequence[Row], leakage: Leakage, cost: str) -> list[Row]:
    """The valid rows that no other valid one dominates in leakage, accuracy and cost."""
    able = [row for row in able_rows(rows, leakage) if row[cost] is not None]
    points = [(row[leakage.column], -row[SELECTED_BY], row[cost]) for row in able]
    return [able[i] for i in find_undominated(points)]


def _draw_costs(axes: Axes, panel: Panel, cost: str, marks: Mapping[str, Mark], sheet: Sheet) -> list[Label]:
    """Draw cells filled by cost; return the labels of the efficient ones."""
    column = panel.leakage.column
    rows = [row for row in panel.drawn if None not in (row[column], row["accuracy"], row[cost])]
    rows = [row for row in rows if row[cost] > 0 and (cost != COLUMNS["memory"] or is_resolved(row))]
    if not sheet.printed:
        axes.set_title(wrap(panel.title, panel_width(axes), 8.5), fontsize=scaled(8.5))
    axes.set_xlabel(panel.axis if sheet.printed else panel.leakage.name)
    axes.set_ylabel("test accuracy, mean")
    axes.xaxis.set_major_locator(MaxNLocator(4 if sheet.printed else 6))
    percent_ticks(axes.yaxis, *[axes.xaxis] * (panel.leakage.fpr is not None))
    if not rows:
        text = wrap(
            f"{COSTS[cost]}:\nunknown, or too small to be resolved", 0.8 * panel_width(axes), SCREEN.font
        )
        axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
        return []
    found = sorted(find_efficient(panel.rows, panel.leakage, cost), key=lambda row: float(row[column]))
    efficient = {row["cell"] for row in found}
    there = {row["cell"] for row in rows}
    named = {row["cell"] for row in spread([row for row in found if row["cell"] in there], FRONT_NAMED)}
    costs = [row[cost] for row in rows]
    low, high = min(*costs, 1.0), max(*costs, 1.2)
    shades = ScalarMappable(LogNorm(low, high), SCALE)
    labels, points = [], Marks()
    for row in rows:
        x, y, mark = row[column], row["accuracy"], marks[row["method"]]
        size = scaled(9.5 if row["cell"] in efficient else 6)
        look: dict[str, Any] = {"mfc": shades.to_rgba(row[cost]), "mec": mark.colour}
        points.add(x, y, marker=mark.marker, ms=size, mew=1.6, **look)
        name = shorten(row["label"] or row["method"]) if row["cell"] in named else ""
        labels.append(Label(x, y, name, (x, x), (y, y)))
    points.draw(axes)
    axes.axvline(panel.leakage.chance, color=FAINT, lw=1, ls=":", zorder=1)
    axes.margins(0.16)
    bar = axes.figure.colorbar(shades, ax=axes, label=COSTS[cost])
    ticks = np.geomspace(low, high, 4).tolist()
    bar.set_ticks(ticks, labels=say_ticks(ticks), minor=False)
    bar.minorticks_off()
    return labels


def say_ticks(ticks: Sequence[float]) -> list[str]:
    """Numbers in as few digits as distinguish them, at least two."""
    for digits in range(2, 6):
        texts = [f"{float(f'{tick:.{digits}g}'):g}" for tick in ticks]
        if len(set(texts)) == len(ticks):
            break
    return texts
