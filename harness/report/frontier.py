"""The frontier figure: accuracy against measured leakage, with ROC curves."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from harness.report.figure.artists import Bars, Marks
from harness.report.figure.labels import Label, place_labels
from harness.report.figure.panels import (
    FRONT_NAMED,
    NAMED,
    Panel,
    choose_panel,
    describe_group,
    name_point,
    spread,
)
from harness.report.figure.paper_sizes import SCREEN, Sheet, lay_out, panel_width, scaled, wrap
from harness.report.figure.style import (
    ALARM,
    FAINT,
    INK,
    KINDS,
    LINES,
    UNKNOWN_KIND,
    assign_colours,
    darken,
    empty_figure,
    explain_empty,
    house_style,
    lay_out_once,
    log_ticks,
    new_figure,
    save,
    shorten,
)
from harness.report.frontier_cost import COST_TITLE, cost_figure
from harness.report.frontier_table import frontier_table, hypervolume_table
from harness.report.leakage import (
    AUC,
    Leakage,
    choose_leakage,
    drawn_by,
    interval,
    resolved_fpr,
    rows_near_front,
    rows_on_front,
)
from harness.report.metadata import Imprint
from harness.report.reading import Reading, Roc, Row, group_failures, read
from harness.report.tables import write_table
from harness.results.query import Source

TITLE = "Accuracy against measured leakage"
Line = list[tuple[float, float]]
ENTRY = 1.65
"""Approximate width of a legend entry, in inches."""
CURVES = 8
"""ROC curves in one panel, at most."""
FAILED = 6
"""Failures listed under the figure, at most."""


def write_frontier(
    store: Source,
    out: Path,
    where: str | None = None,
    sheet: Sheet = SCREEN,
    attack: str | None = None,
    fpr: float | None = None,
) -> list[Path]:
    """Write the figures frontier and frontier-cost, and the tables frontier and hypervolume, into `out`.

    `where` is an SQL condition on the view `frontier`; `attack` and `fpr` choose the axis of leakage.
    """
    return draw_frontier(read(store, where, attack=attack, fpr=fpr), out, sheet)


def draw_frontier(reading: Reading, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """The same from rows already read."""
    with house_style(sheet):
        files = [
            *save(frontier_figure(reading, sheet), out, "frontier", Imprint(TITLE, reading.query)),
            *save(cost_figure(reading, sheet), out, "frontier-cost", Imprint(COST_TITLE, reading.query)),
        ]
    for table in (frontier_table(reading), hypervolume_table(reading)):
        files += write_table(table, out)
    return files


def frontier_figure(reading: Reading, sheet: Sheet = SCREEN) -> Figure:
    """One row of panels for each group: TPR at a low FPR, AUC, ROC."""
    if not reading.frontier:
        return empty_figure(TITLE, explain_empty(reading), sheet)
    groups = [[row for row in reading.frontier if row["group"] == name] for name in reading.groups]
    colours = assign_colours(
        [*reading.methods, *(row["method"] for row in reading.frontier)], reading.baselines
    )
    width, scale = sheet.inches(13.5), sheet.font / SCREEN.font
    notes = wrap("\n".join(_notes(reading)), width, 8)
    signs = _signs(reading, colours)
    heights = [
        (0.2 + 0.55 * (not sheet.printed) + 0.22 * _lines(signs, _across(width))) * scale,
        *(sheet.lines(3) * sheet.height(4.1) for _ in groups),
        (0.25 + 0.16 * len(notes.splitlines())) * scale,
    ]
    figure = new_figure(width, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    _draw_header(parts[0], signs, heights[0], sheet)
    pending = []
    for part, rows in zip(parts[1:-1], groups, strict=True):
        pending += _draw_group(part, rows, reading, colours, sheet)
    parts[-1].text(0.01, 1.0, notes, fontsize=scaled(8), va="top")
    lay_out_once(figure)  # labels are placed for this layout
    for axes, labels, front in pending:
        place_labels(figure, axes, labels, front)
    return figure


def _draw_group(
    part: Any, rows: Sequence[Row], reading: Reading, colours: Mapping[str, str], sheet: Sheet
) -> list[tuple[Axes, list[Label], Line]]:
    """Draw the panels of one group; return the axes with the labels to place and the front to avoid."""
    head = wrap(describe_group(rows), sheet.inches(13.5), 10.5)
    part.suptitle(head, x=0.01, ha="left", fontsize=scaled(10.5), weight="bold")
    left, middle, right = lay_out(part, 3, sheet)
    leakage = choose_leakage(drawn_by(rows, reading.attack), reading.fpr)
    first, second = (choose_panel(rows, each, reading.attack) for each in (leakage, AUC))
    pending = []
    for axes, panel in ((left, first), (middle, second)):
        if axes is left and panel.leakage is AUC:
            _draw_unresolved(axes, rows)
            continue
        labels = _draw_points(axes, panel, colours)
        pending.append((axes, labels, _draw_front(axes, panel.rows, panel.leakage)))
        axes.set_title(wrap(panel.title, panel_width(axes), 8.5), fontsize=scaled(8.5))
    _draw_rocs(right, first, reading.rocs, colours)
    return pending


def _draw_points(axes: Axes, panel: Panel, colours: Mapping[str, str]) -> list[Label]:
    """Draw points with their intervals; return the labels to place."""
    leakage = panel.leakage
    shown = [row for row in panel.drawn if row[leakage.column] is not None and row["accuracy"] is not None]
    labels, marks, bars = [], Marks(), Bars()
    there = {row["cell"] for row in shown}
    front = [row for row in rows_on_front(panel.rows, leakage) if row["cell"] in there]
    named = {row["cell"] for row in (shown if len(shown) <= NAMED else spread(front, FRONT_NAMED))}
    near = {row["cell"] for row in rows_near_front(panel.rows, leakage)}
    for row in shown:
        (x_low, x, x_high), (y_low, y, y_high) = interval(row, leakage.column), interval(row, "accuracy")
        x_range, y_range = (x_low, x_high), (y_low, y_high)
        colour = colours[row["method"]]
        bars.add((x_low, y), (x_high, y), colour)
        bars.add((x, y_low), (x, y_high), colour)
        marks.add(x, y, zorder=4, **_marker(row, colour))
        if row["cell"] in near:
            marks.add(x, y, **_ring())
        if row["valid"] is False:
            marks.add(x, y, marker="x", ms=scaled(13), mew=1.8, color=ALARM, zorder=5)
        name = name_point(row) if row["cell"] in named else ""
        labels.append(Label(x, y, name, x_range, y_range))
    bars.draw(axes, linewidths=1, alpha=0.6, zorder=3, capstyle="projecting")
    marks.draw(axes)
    axes.axvline(leakage.chance, color=FAINT, lw=1, ls=":", zorder=1)
    axes.margins(0.14)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlabel(leakage.name)
    axes.set_ylabel("test accuracy, mean")
    return labels


def _draw_front(axes: Axes, rows: Sequence[Row], leakage: Leakage) -> Line:
    """Draw the best accuracy at each leakage or less, as a step line; return its corners."""
    corners: Line = []
    for row in rows_on_front(rows, leakage):
        if corners:
            corners.append((row[leakage.column], corners[-1][1]))
        corners.append((row[leakage.column], row["accuracy"]))
    if corners:
        axes.set_xlim(axes.get_xlim())
        corners.append((axes.get_xlim()[1], corners[-1][1]))
    axes.plot([x for x, _ in corners], [y for _, y in corners], color=INK, lw=1, alpha=0.55, zorder=2)
    return corners


def _draw_unresolved(axes: Axes, rows: Sequence[Row]) -> None:
    """State why there is no TPR, instead of showing noise (docs/rules.md: resolution guard)."""
    fewest = min((row["n_nonmembers"] or 0 for row in rows), default=0)
    text = f"No TPR is resolved:\nTPR at 10 % FPR needs 100 non-members,\nthe smallest cell has {fewest:,}."
    wrapped = wrap(text, 0.8 * panel_width(axes), SCREEN.font)
    axes.text(0.5, 0.5, wrapped, ha="center", va="center", transform=axes.transAxes)
    axes.set_axis_off()


def _draw_rocs(axes: Axes, panel: Panel, rocs: Mapping[str, Roc], colours: Mapping[str, str]) -> None:
    """Log-log ROC curves of the cells, each from the lowest FPR that its non-members resolve."""
    drawn, which = choose_curves([row for row in panel.rows if row["attack_task"] in rocs])
    limits = [resolved_fpr(row) for row in drawn]
    lowest = min(limits, default=1e-2)
    turn: dict[str, int] = {}
    for row, limit in zip(drawn, limits, strict=True):
        roc, method = rocs[row["attack_task"]], row["method"]
        kept = [(f, t) for f, t in zip(roc.fpr, roc.tpr, strict=True) if f >= limit and t > 0]
        style = LINES[turn.setdefault(method, 0) % len(LINES)]
        turn[method] += 1
        label = shorten(row["label"] or method)
        axes.plot(
            *zip(*kept, strict=True), color=colours[method], ls=style, lw=1.4, label=label
        ) if kept else None
    axes.plot((lowest, 1), (lowest, 1), color=FAINT, lw=1, ls=":")
    axes.set(xscale="log", yscale="log", xlim=(lowest, 1), ylim=(lowest, 1))
    log_ticks(axes.xaxis)
    log_ticks(axes.yaxis)
    axes.set(xlabel="false-positive rate", ylabel="true-positive rate")
    title = f"attack {shorten(panel.attack, 40)}: {which}"
    axes.set_title(wrap(title, panel_width(axes), 8.5), fontsize=scaled(8.5))
    if drawn:
        axes.legend(fontsize=scaled(7.5), loc="lower right", handlelength=3)


def choose_curves(rows: Sequence[Row]) -> tuple[list[Row], str]:
    """All cells if they are few, else the front's; with a title."""
    if not rows:
        return [], "no ROC stored"
    if len(rows) <= CURVES:
        return list(rows), "ROC, pooled over models"
    front = rows_on_front(rows, AUC)[:CURVES]
    return front, f"ROC of {len(front)} of {len(rows)} cells, on the AUC front"


def _draw_header(part: Any, signs: list[list[Line2D]], height: float, sheet: Sheet) -> None:
    """The title, and legend lines for the methods and for the markers."""
    scale, top = sheet.font / SCREEN.font, 0.05
    if not sheet.printed:
        part.text(0.01, 1 - 0.2 / height, TITLE, fontsize=scaled(14), weight="bold", va="center")
        part.text(0.01, 1 - 0.46 / height, "Better is up and to the left.", fontsize=scaled(9), va="center")
        top = 0.58
    across = _across(sheet.inches(13.5))
    for group in signs:
        part.legend(
            handles=group,
            loc="upper left",
            bbox_to_anchor=(0.008, 1 - top / height),
            ncols=across,
            borderaxespad=0,
            columnspacing=1.4,
        ).set_in_layout(False)
        top += 0.22 * scale * _lines([group], across)


def _signs(reading: Reading, colours: Mapping[str, str]) -> list[list[Line2D]]:
    methods = sorted({row["method"] for row in reading.frontier}, key=list(colours).index)
    found = {str(row["guarantee_kind"]) for row in reading.frontier}
    kinds = sorted(KINDS.get(kind, UNKNOWN_KIND) for kind in found)
    plain: dict[str, Any] = {"color": INK, "ls": "", "ms": scaled(7)}
    cross = {**plain, "color": ALARM, "mew": 1.8}
    return [
        [Line2D([], [], color=colours[name], lw=5, label=shorten(name, 18)) for name in methods],
        [
            *(Line2D([], [], marker=marker, label=name, **plain) for name, marker, _ in kinds),
            Line2D([], [], marker="o", mfc="none", label="one model", **plain),
            Line2D([], [], marker="x", label="blind check failed", **cross),
            Line2D([], [], color=INK, lw=1, alpha=0.55, label="front of valid cells"),
            Line2D([], [], label="indistinguishable from the front", **_ring()),
            Line2D([], [], color=FAINT, lw=1, ls=":", label="guessing"),
        ],
    ]


def _across(width: float) -> int:
    """Entries on one line of the legend."""
    return max(1, int(width / (ENTRY * scaled(SCREEN.font) / SCREEN.font)))


def _lines(groups: list[list[Line2D]], across: int) -> int:
    return sum(math.ceil(len(group) / across) for group in groups)


def _notes(reading: Reading) -> list[str]:
    """Notes on the points, then failures (docs/rules.md: failures stay visible)."""
    notes = [
        "Bars: 95 % intervals over seeds (masks and training), on this pool. "
        "Leakage: of the strongest of loss, lira and rmia, chosen for each target on other models, so it can "
        "be lower than a single attack's figure in this cell. "
        "The front is selected by the accuracy on non-members; drawn is the test accuracy of the last "
        "iterate, so a cell on the front may be below its neighbour. "
        "ε is computed by the harness; only ε of one kind are comparable. "
        "Ringed: indistinguishable from the front: no other cell at its worst beats it at its best. "
        "The front is a step: between two cells nothing was measured.",
    ]
    cells = {(row["group"], row["cell"]) for row in reading.frontier}
    if max(Counter(group for group, _ in cells).values()) > NAMED:
        notes.append(
            f"In a panel of more than {NAMED} cells, up to {FRONT_NAMED} of those on the front are named; "
            "the table frontier has them all."
        )
    if reading.where:
        notes.append(f"Shown: {shorten(reading.where, 150)}. The front is over the cells shown.")
    failed = group_failures(reading.failures)
    for entry in failed[:FAILED]:
        name = f"{shorten(entry['label'] or entry['method'])} on {shorten(entry['workload'])}"
        message = f" ({shorten(entry['message'], 80)})" if entry["message"] else ""
        notes.append(f"Failed: {name}, {entry['tasks']} {entry['kind']} task(s): {entry['reason']}{message}")
    if len(failed) > FAILED:
        notes.append(
            f"Failed: {len(failed) - FAILED} more groups of tasks; "
            'all of them: privbench query "select * from failures"'
        )
    return notes


def _ring() -> dict[str, Any]:
    """The ring around a cell that is indistinguishable from the front."""
    return {"marker": "o", "ms": scaled(13), "mfc": "none", "mec": FAINT, "mew": 0.9, "ls": ""}


def _marker(row: Row, colour: str) -> dict[str, Any]:
    """Shape by kind of guarantee, hollow for a single model (docs/rules.md: bands over models)."""
    shape = KINDS.get(row["guarantee_kind"], UNKNOWN_KIND)[1]
    edge = darken(colour, 0.75)
    return {
        "marker": shape,
        "ms": scaled(8),
        "mew": 1.3,
        "mec": edge,
        "mfc": "white" if row["models"] == 1 else colour,
    }
