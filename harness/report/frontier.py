"""The frontier figure: accuracy against measured leakage, with ROC curves."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.report.figure.artists import DASHED, Bars, Marks
from harness.report.figure.labels import Label, place_labels
from harness.report.figure.legend import (
    LUCK,
    Groups,
    cell_signs,
    draw_legend,
    kinds_of,
    legend_height,
    method_signs,
    ring,
)
from harness.report.figure.marks import Mark, assign_marks
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
    LINES,
    darken,
    empty_figure,
    explain_empty,
    house_style,
    lay_out_once,
    new_figure,
    percent_ticks,
    save,
    shorten,
)
from harness.report.frontier_cost import COST_TITLE, NOTE, cost_figure
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
from harness.report.text_table import choose_columns
from harness.report.tuning.budgets import find_untuned, is_shown, tuning_notes
from harness.results.query import Source

TITLE = "Accuracy against measured leakage"
Line = list[tuple[float, float]]
WIDTH = 13.5
"""Inches on a screen."""
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
    sweep: str | None = None,
) -> list[Path]:
    """Write the figures frontier and frontier-cost, and the tables frontier and hypervolume, into `out`.

    `where` is an SQL condition on the view `frontier`; `attack` and `fpr` choose the axis of leakage.
    """
    return draw_frontier(read(store, where, attack=attack, fpr=fpr, sweep=sweep), out, sheet)


def draw_frontier(reading: Reading, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """The same from rows already read."""
    tables = choose_columns([frontier_table(reading), hypervolume_table(reading)], sheet.columns)
    with house_style(sheet):
        files = [
            *_save(
                frontier_figure,
                reading,
                out,
                sheet,
                "frontier",
                Imprint(TITLE, reading.query, caption(reading)),
            ),
            *_save(
                cost_figure, reading, out, sheet, "frontier-cost", Imprint(COST_TITLE, reading.query, NOTE)
            ),
        ]
    return [*files, *(file for table in tables for file in write_table(table, out))]


def _save(
    draw: Callable[[Reading, Sheet], Figure],
    reading: Reading,
    out: Path,
    sheet: Sheet,
    name: str,
    imprint: Imprint,
) -> list[Path]:
    """A figure of which a panel was chosen; nothing else is written."""
    return save(draw(reading, sheet), out, name, imprint) if sheet.panels_of(name) else []


def frontier_figure(reading: Reading, sheet: Sheet = SCREEN) -> Figure:
    """One row of panels for each group: TPR at a low FPR, AUC, ROC; in print without title and notes."""
    if not reading.frontier:
        return empty_figure(TITLE, explain_empty(reading), sheet)
    groups = [[row for row in reading.frontier if row["group"] == name] for name in reading.groups]
    marks = assign_marks([*reading.methods, *(row["method"] for row in reading.frontier)], reading.baselines)
    width, scale = sheet.inches(WIDTH), sheet.font / SCREEN.font
    panels = sheet.panels_of("frontier")
    notes = "" if sheet.printed else wrap("\n".join(_notes(reading)), width, 8)
    signs = _signs(groups, reading, marks, panels)
    heights = [
        0.1 + 0.55 * (not sheet.printed) * scale + legend_height(signs, sheet, WIDTH),
        *(sheet.lines(len(panels)) * sheet.height(4.1) for _ in groups),
        *([(0.25 + 0.16 * len(notes.splitlines())) * scale] if notes else []),
    ]
    figure = new_figure(width, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    _draw_header(parts[0], signs, heights[0], sheet)
    pending = []
    for part, rows in zip(parts[1:], groups, strict=False):
        head = describe_group(rows) if not sheet.printed else shorten(rows[0]["group"], 60)
        if not sheet.printed or len(groups) > 1:
            part.suptitle(wrap(head, width, 10.5), x=0.01, ha="left", fontsize=scaled(10.5), weight="bold")
        pending += _draw_group(part, rows, reading, marks, sheet)
    if notes:
        parts[-1].text(0.01, 1.0, notes, fontsize=scaled(8), va="top")
    lay_out_once(figure)  # labels are placed for this layout
    for axes, labels, front in pending:
        place_labels(figure, axes, labels, front)
    return figure


def caption(reading: Reading) -> str:
    """What a printed figure leaves to its caption, for its metadata."""
    groups = [[row for row in reading.frontier if row["group"] == name] for name in reading.groups]
    return "\n".join([*map(describe_group, groups), *(_notes(reading) if groups else [])])


def _draw_group(
    part: Any, rows: Sequence[Row], reading: Reading, marks: Mapping[str, Mark], sheet: Sheet
) -> list[tuple[Axes, list[Label], Line]]:
    """Draw the panels of one group; return the axes with the labels to place and the front to avoid."""
    names = sheet.panels_of("frontier")
    leakage = choose_leakage(drawn_by(rows, reading.attack), reading.fpr)
    found = {
        name: choose_panel(rows, each, reading.attack) for name, each in (("frontier", leakage), ("auc", AUC))
    }
    pending = []
    for name, axes in zip(names, lay_out(part, len(names), sheet), strict=True):
        if name == "roc":
            _draw_rocs(axes, found["frontier"], reading.rocs, marks, sheet)
            continue
        if name == "frontier" and leakage is AUC and "auc" in names:
            _draw_unresolved(axes, rows)
            continue
        panel = found[name]
        labels = _draw_points(axes, panel, marks)
        pending.append((axes, labels, _draw_front(axes, panel.rows, panel.leakage)))
        if sheet.printed:
            axes.set_xlabel(panel.axis)
        else:
            axes.set_title(wrap(panel.title, panel_width(axes), 8.5), fontsize=scaled(8.5))
    return pending


def _draw_points(axes: Axes, panel: Panel, marks: Mapping[str, Mark]) -> list[Label]:
    """Draw points with their intervals; return the labels to place."""
    leakage = panel.leakage
    shown = [row for row in panel.drawn if row[leakage.column] is not None and row["accuracy"] is not None]
    labels, points, bars, luck = [], Marks(), Bars(), Bars()
    untuned = find_untuned(panel.rows)
    several = {name for name, kinds in kinds_of(panel.rows).items() if len(kinds) > 1}
    there = {row["cell"] for row in shown}
    front = [row for row in rows_on_front(panel.rows, leakage) if row["cell"] in there]
    named = {row["cell"] for row in (shown if len(shown) <= NAMED else spread(front, FRONT_NAMED))}
    near = {row["cell"] for row in rows_near_front(panel.rows, leakage)}
    for row in shown:
        (x_low, x, x_high), (y_low, y, y_high) = interval(row, leakage.column), interval(row, "accuracy")
        x_range, y_range = (x_low, x_high), (y_low, y_high)
        mark = marks[row["method"]]
        bars.add((x_low, y), (x_high, y), mark.colour)
        bars.add((x, y_low), (x, y_high), mark.colour)
        if row.get("accuracy_study_low") is not None:
            luck.add((x, row["accuracy_study_low"]), (x, row["accuracy_study_high"]), mark.colour)
        points.add(x, y, zorder=4, **_marker(row, mark, row["cell"] in untuned))
        if row["cell"] in near:
            points.add(x, y, **ring())
        if row["valid"] is False:
            points.add(x, y, marker="x", ms=scaled(13), mew=1.8, color=ALARM, zorder=5)
        name = name_point(row, row["method"] in several) if row["cell"] in named else ""
        labels.append(Label(x, y, name, x_range, y_range))
    bars.draw(axes, linewidths=1, alpha=0.6, zorder=3, capstyle="projecting")
    luck.draw(axes, linewidths=LUCK["lw"], alpha=LUCK["alpha"], zorder=2, capstyle=LUCK["solid_capstyle"])
    points.draw(axes)
    axes.axvline(leakage.chance, color=FAINT, lw=1, ls=":", zorder=1)
    axes.margins(0.14)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlabel(leakage.name)
    axes.set_ylabel("test accuracy, mean")
    percent_ticks(axes.yaxis, *[axes.xaxis] * (leakage.fpr is not None))
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


def _draw_rocs(
    axes: Axes, panel: Panel, rocs: Mapping[str, Roc], marks: Mapping[str, Mark], sheet: Sheet
) -> None:
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
        if kept:
            look: dict[str, Any] = {
                "color": marks[method].colour,
                "marker": marks[method].marker,
                "markevery": 0.2,
            }
            label = shorten(row["label"] or method)
            axes.plot(*zip(*kept, strict=True), ls=style, lw=1.4, ms=scaled(4), label=label, **look)
    axes.plot((lowest, 1), (lowest, 1), color=FAINT, lw=1, ls=":")
    axes.set(xscale="log", yscale="log", xlim=(lowest, 1), ylim=(lowest, 1))
    percent_ticks(axes.xaxis, axes.yaxis)
    axes.set(xlabel="false-positive rate", ylabel="true-positive rate")
    title = f"attack {shorten(panel.attack, 40)}: {which}"
    if not sheet.printed:
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


def _draw_header(part: Any, signs: Groups, height: float, sheet: Sheet) -> None:
    """The title, and legend lines for the methods and for the markers."""
    top = 0.05
    if not sheet.printed:
        part.text(0.01, 1 - 0.2 / height, TITLE, fontsize=scaled(14), weight="bold", va="center")
        part.text(0.01, 1 - 0.46 / height, "Better is up and to the left.", fontsize=scaled(9), va="center")
        top = 0.58
    draw_legend(part, signs, top, height, sheet, WIDTH)


def _signs(
    groups: Sequence[Sequence[Row]], reading: Reading, marks: Mapping[str, Mark], panels: Sequence[str]
) -> Groups:
    """Legend entries of what the panels show; a ROC names its own curves."""
    if set(panels) <= {"roc"}:
        return []
    drawn = [drawn_by(list(filter(is_shown, rows)), reading.attack) for rows in groups]
    axes = [choose_leakage(rows, reading.fpr) for rows in drawn]
    shown = [(rows, axis) for rows, first in zip(drawn, axes, strict=True) for axis in (first, AUC)]
    cells = [row for rows in drawn for row in rows]
    signs = cell_signs(
        single=any(row["models"] == 1 for row in cells),
        invalid=any(row["valid"] is False for row in cells),
        front=any(rows_on_front(rows, axis) for rows, axis in shown),
        near=any(rows_near_front(rows, axis) for rows, axis in shown),
        untuned=any(find_untuned(rows) for rows in drawn),
        studies=any(row.get("accuracy_study_low") is not None for row in cells),
    )
    return [method_signs(cells, marks), signs]


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
    notes += tuning_notes(reading.frontier)
    cells = {(row["group"], row["cell"]) for row in reading.frontier}
    if max(Counter(group for group, _ in cells).values()) > NAMED:
        notes.append(
            f"In a panel of more than {NAMED} cells, up to {FRONT_NAMED} of those on the front are named; "
            "the table frontier has them all."
        )
    if reading.condition:
        notes.append(f"Shown: {shorten(reading.condition, 150)}. The front is over the cells shown.")
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


def _marker(row: Row, mark: Mark, untuned: bool) -> dict[str, Any]:
    """The method's mark, hollow for a single model (docs/rules.md: bands over models).

    An untuned one has an edge of dashes too.
    """
    return {
        **({DASHED: True} if untuned else {}),
        "marker": mark.marker,
        "ms": scaled(8),
        "mew": 1.3,
        "mec": darken(mark.colour, 0.75),
        "mfc": "white" if row["models"] == 1 else mark.colour,
    }
