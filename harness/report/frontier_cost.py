"""The frontier with a third axis: accuracy against leakage, with the cost of training as colour."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.leakage.pareto import find_undominated
from harness.report.figure.artists import Marks
from harness.report.figure.labels import Label, place_labels
from harness.report.figure.panels import FRONT_NAMED, Panel, choose_panel, describe_group, spread
from harness.report.figure.paper_sizes import SCREEN, Sheet, lay_out, panel_width, scaled, wrap
from harness.report.figure.style import (
    FAINT,
    INK,
    KINDS,
    UNKNOWN_KIND,
    empty_figure,
    explain_empty,
    lay_out_once,
    new_figure,
    shorten,
)
from harness.report.leakage import SELECTED_BY, Leakage, able_rows, choose_leakage, drawn_by
from harness.report.reading import Reading, Row

COST_TITLE = "Accuracy against leakage and cost"
COSTS = {
    "training_overhead": "time of the whole training (baseline = 1)",
    "memory_overhead": "extra peak memory (baseline = 1)",
}
SCALE = "cividis"
"""Perceptually uniform, also with colour blindness (Nunez, Anderton and Renslow 2018)."""
NOTE = (
    "Filled: no other valid cell is as good in leakage, accuracy and cost, and better in one; "
    f"up to {FRONT_NAMED} of a panel are named. "
    "Shapes are kinds of guarantee. Costs are measured in the training runs and accurate to about one digit."
)


def cost_figure(reading: Reading, sheet: Sheet = SCREEN) -> Figure:
    """One row of panels for each group: time as the third axis, memory as the third axis."""
    if not reading.frontier:
        return empty_figure(COST_TITLE, explain_empty(reading), sheet)
    groups = [[row for row in reading.frontier if row["group"] == name] for name in reading.groups]
    width, scale = sheet.inches(11), sheet.font / SCREEN.font
    note = wrap(NOTE, width, 8)
    heights = [
        0.5 if not sheet.printed else 0.05,
        *(sheet.lines(2) * sheet.height(4.1) for _ in groups),
        (0.2 + 0.16 * len(note.splitlines())) * scale,
    ]
    figure = new_figure(width, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    if not sheet.printed:
        parts[0].text(0.01, 0.5, COST_TITLE, fontsize=scaled(14), weight="bold", va="center")
    parts[-1].text(0.01, 1.0, note, fontsize=scaled(8), va="top")
    pending = []
    for part, rows in zip(parts[1:-1], groups, strict=True):
        head = wrap(describe_group(rows), width, 10.5)
        part.suptitle(head, x=0.01, ha="left", fontsize=scaled(10.5), weight="bold")
        leakage = choose_leakage(drawn_by(rows, reading.attack), reading.fpr)
        panel = choose_panel(rows, leakage, reading.attack)
        for axes, cost in zip(lay_out(part, 2, sheet), COSTS, strict=True):
            pending.append((axes, _draw_costs(axes, panel, cost)))
    lay_out_once(figure)  # labels are placed for this layout
    for axes, labels in pending:
        place_labels(figure, axes, labels)
    return figure


def find_efficient(rows: Sequence[Row], leakage: Leakage, cost: str) -> list[Row]:
    """The valid rows that no other valid one dominates in leakage, accuracy and cost."""
    able = [row for row in able_rows(rows, leakage) if row[cost] is not None]
    points = [(row[leakage.column], -row[SELECTED_BY], row[cost]) for row in able]
    return [able[i] for i in find_undominated(points)]


def _draw_costs(axes: Axes, panel: Panel, cost: str) -> list[Label]:
    """Draw cells coloured by cost; return the labels of the efficient ones."""
    column = panel.leakage.column
    rows = [row for row in panel.drawn if None not in (row[column], row["accuracy"], row[cost])]
    rows = [row for row in rows if row[cost] > 0]
    axes.set_title(wrap(panel.title, panel_width(axes), 8.5), fontsize=scaled(8.5))
    axes.set_xlabel(panel.leakage.name)
    axes.set_ylabel("test accuracy, mean")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    if not rows:
        text = wrap(f"{COSTS[cost]}:\nunknown for all cells", 0.8 * panel_width(axes), SCREEN.font)
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
    labels, marks = [], Marks()
    for row in rows:
        x, y, colour = row[column], row["accuracy"], shades.to_rgba(row[cost])
        marker = KINDS.get(row["guarantee_kind"], UNKNOWN_KIND)[1]
        filled = row["cell"] in efficient
        look: dict[str, Any] = {"mfc": colour if filled else "none", "mec": INK if filled else colour}
        marks.add(x, y, marker=marker, ms=scaled(9), mew=0.8 if filled else 1.6, **look)
        name = shorten(row["label"] or row["method"]) if row["cell"] in named else ""
        labels.append(Label(x, y, name, (x, x), (y, y)))
    marks.draw(axes)
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
