"""The frontier figure: accuracy against measured leakage, with the ROC curves beside it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from harness.report.data import Reading, Roc, Row, group_failures, read
from harness.report.labels import Label, place_labels
from harness.report.leakage import (
    AUC,
    Leakage,
    choose_attack,
    choose_leakage,
    name_attack,
    resolved_fpr,
    rows_on_front,
)
from harness.report.style import (
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
    format_epsilon,
    house_style,
    log_ticks,
    new_figure,
    save,
    shorten,
)

TITLE = "Accuracy against measured leakage"
Line = list[tuple[float, float]]
COLUMNS = 8
"""Entries on one line of the legend, at most."""
CURVES = 8
"""ROC curves in one panel, at most."""
FAILED = 6
"""Lines of failures under the figure, at most."""


@dataclass(frozen=True)
class Panel:
    """One axis of leakage for one group: its strongest attack, one row for each cell it was tried on."""

    leakage: Leakage
    attack: str
    rows: list[Row]
    attacks: int
    """How many attacks the chosen one was the strongest of."""
    cells: int
    """Cells of the group, attacked by the chosen one or not."""

    @property
    def title(self) -> str:
        """Which attack, and how it was chosen."""
        how = (
            f"strongest of {self.attacks} by mean {self.leakage.name}" if self.attacks > 1 else "the only one"
        )
        tried = "" if len(self.rows) == self.cells else f", on {len(self.rows)} of {self.cells} cells"
        return f"attack {shorten(self.attack, 40)} ({how}{tried})"


def write_frontier(store: Path, out: Path, where: str | None = None) -> list[Path]:
    """Write frontier.png and frontier.svg into `out`; `where` is an SQL condition on the view `frontier`."""
    return draw_frontier(read(store, where), out)


def draw_frontier(reading: Reading, out: Path) -> list[Path]:
    """The same from rows that were read already."""
    with house_style():
        figure = frontier_figure(reading)
        return save(figure, out, "frontier", TITLE, reading)


def frontier_figure(reading: Reading) -> Figure:
    """One row of panels for each group: TPR at the lowest resolved FPR, AUC, ROC."""
    if not reading.frontier:
        return empty_figure(TITLE, explain_empty(reading))
    groups = [[row for row in reading.frontier if row["group"] == name] for name in reading.groups]
    colours = assign_colours([*reading.methods, *(row["method"] for row in reading.frontier)])
    notes = _notes(reading)
    signs = _signs(reading, colours)
    heights = [0.75 + 0.22 * _lines(signs), *(4.1 for _ in groups), 0.25 + 0.19 * len(notes)]
    figure = new_figure(13.5, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    _draw_header(parts[0], signs)
    pending = []
    for part, rows in zip(parts[1:-1], groups, strict=True):
        pending += _draw_group(part, rows, reading.rocs, colours)
    for number, note in enumerate(notes):
        parts[-1].text(0.01, 1 - (number + 0.6) / (len(notes) + 0.6), note, fontsize=8, va="center")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the places of the labels are for this layout
    for axes, labels, front in pending:
        place_labels(figure, axes, labels, front)
    return figure


def choose_panel(rows: Sequence[Row], leakage: Leakage) -> Panel:
    """The rows of one group under the attack that is strongest by this leakage."""
    attack = choose_attack(rows, leakage)
    shown = [row for row in rows if name_attack(row, rows) == attack]
    attacks = {name_attack(row, rows) for row in rows}
    return Panel(leakage, attack, shown, len(attacks), len({row["cell"] for row in rows}))


def describe_group(rows: Sequence[Row]) -> str:
    """The group's name, and over how many models and non-members its numbers are."""
    models = _span([row["models"] for row in rows])
    people = _span([row["n_nonmembers"] for row in rows])
    word = "model" if models == "1" else "models"
    return f"{shorten(rows[0]['group'], 60)} · {models} {word} a cell, {people} non-members pooled"


def _draw_group(
    part: Any, rows: Sequence[Row], rocs: Mapping[str, Roc], colours: Mapping[str, str]
) -> list[tuple[Axes, list[Label], Line]]:
    """The panels of one group; gives the axes with the labels to place and the front to keep off."""
    part.suptitle(describe_group(rows), x=0.01, ha="left", fontsize=10.5, weight="bold")
    left, middle, right = part.subplots(1, 3)
    first, second = choose_panel(rows, choose_leakage(rows)), choose_panel(rows, AUC)
    pending = []
    for axes, panel in ((left, first), (middle, second)):
        if axes is left and panel.leakage is AUC:
            _draw_unresolved(axes, rows)
            continue
        labels = _draw_points(axes, panel.rows, panel.leakage, colours)
        pending.append((axes, labels, _draw_front(axes, panel.rows, panel.leakage)))
        axes.set_title(panel.title, fontsize=8.5)
    _draw_rocs(right, first, rocs, colours)
    return pending


def name_point(row: Row) -> str:
    """The priced epsilon, or what the label says besides the method."""
    if row["epsilon"] is not None:
        return format_epsilon(row["epsilon"])
    label = str(row["label"] or row["method"])
    return shorten(label.removeprefix(str(row["method"])).strip() or row["method"])


def _draw_points(
    axes: Axes, rows: Sequence[Row], leakage: Leakage, colours: Mapping[str, str]
) -> list[Label]:
    """Points with their intervals; gives the labels that want a place."""
    shown = [row for row in rows if row[leakage.column] is not None and row["accuracy"] is not None]
    labels = []
    for row in shown:
        x, y = row[leakage.column], row["accuracy"]
        x_range = _interval(row, leakage.column)
        y_range = _interval(row, "accuracy")
        colour = colours[row["method"]]
        axes.plot(x_range, (y, y), color=colour, lw=1, alpha=0.6, zorder=3)
        axes.plot((x, x), y_range, color=colour, lw=1, alpha=0.6, zorder=3)
        axes.plot([x], [y], color=colour, zorder=4, **_marker(row, colour))
        if row["valid"] is False:
            axes.plot([x], [y], marker="x", ms=13, mew=1.8, color=ALARM, zorder=5)
        labels.append(Label(x, y, name_point(row), x_range, y_range))
    axes.axvline(leakage.chance, color=FAINT, lw=1, ls=":", zorder=1)
    axes.margins(0.14)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.set_xlabel(f"{leakage.name}   (dotted: guessing)")
    axes.set_ylabel("test accuracy, mean over models")
    return labels


def _draw_front(axes: Axes, rows: Sequence[Row], leakage: Leakage) -> Line:
    """The best accuracy to be had at each leakage or less, as a step line; gives its corners."""
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
    """Say why there is no TPR, instead of showing one that is noise (RULES 2)."""
    fewest = min((row["n_nonmembers"] or 0 for row in rows), default=0)
    text = f"No TPR is resolved:\nTPR at 10 % FPR needs 100 non-members,\nthe smallest cell has {fewest:,}."
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
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
    axes.set_title(f"attack {shorten(panel.attack, 40)}: {which}", fontsize=8.5)
    if drawn:
        axes.legend(fontsize=7.5, loc="lower right", handlelength=3)


def choose_curves(rows: Sequence[Row]) -> tuple[list[Row], str]:
    """All cells where they are few; else the front's, and a title that says so."""
    if not rows:
        return [], "no ROC stored"
    if len(rows) <= CURVES:
        return list(rows), "ROC, pooled over models (dotted: guessing)"
    front = rows_on_front(rows, AUC)[:CURVES]
    return front, f"ROC of {len(front)} of {len(rows)} cells, on the AUC front"


def _draw_header(part: Any, signs: list[list[Line2D]]) -> None:
    """The title, and a line of legend for the methods and one for the signs (more where they are many)."""
    lines = _lines(signs)
    height = 0.75 + 0.22 * lines
    part.text(0.01, 1 - 0.2 / height, TITLE, fontsize=14, weight="bold", va="center")
    part.text(0.01, 1 - 0.46 / height, "Better is up and to the left.", fontsize=9, va="center")
    top = 1 - 0.58 / height
    for group in signs:
        part.legend(
            handles=group,
            loc="upper left",
            bbox_to_anchor=(0.008, top),
            ncols=COLUMNS,
            borderaxespad=0,
            columnspacing=1.4,
        ).set_in_layout(False)
        top -= 0.22 / height * _lines([group])


def _signs(reading: Reading, colours: Mapping[str, str]) -> list[list[Line2D]]:
    methods = sorted({row["method"] for row in reading.frontier}, key=list(colours).index)
    found = {str(row["guarantee_kind"]) for row in reading.frontier}
    kinds = sorted(KINDS.get(kind, UNKNOWN_KIND) for kind in found)
    plain: dict[str, Any] = {"color": INK, "ls": "", "ms": 7}
    cross = {**plain, "color": ALARM, "mew": 1.8}
    return [
        [Line2D([], [], color=colours[name], lw=5, label=shorten(name, 18)) for name in methods],
        [
            *(Line2D([], [], marker=marker, label=name, **plain) for name, marker, _ in kinds),
            Line2D([], [], marker="o", mfc="none", label="one model", **plain),
            Line2D([], [], marker="x", label="invalid: blind check failed", **cross),
            Line2D([], [], color=INK, lw=1, alpha=0.55, label="Pareto front of valid cells"),
        ],
    ]


def _lines(groups: list[list[Line2D]]) -> int:
    return sum(math.ceil(len(group) / COLUMNS) for group in groups)


def _notes(reading: Reading) -> list[str]:
    """What a reader must know beside the points, then what failed (RULES 17)."""
    notes = [
        "Bars: 95 % intervals, over models for accuracy and AUC (t; DeLong for one model), "
        "Clopper-Pearson on the pooled scores for TPR. "
        "Accuracy is of the last iterate. ε is priced by the harness; only ε of one kind compare.",
    ]
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


def _marker(row: Row, colour: str) -> dict[str, Any]:
    """Shape by kind of guarantee, hollow for a single model (RULES 18)."""
    shape = KINDS.get(row["guarantee_kind"], UNKNOWN_KIND)[1]
    edge = darken(colour, 0.75)
    return {
        "marker": shape,
        "ms": 8,
        "mew": 1.3,
        "mec": edge,
        "mfc": "white" if row["models"] == 1 else colour,
    }


def _interval(row: Row, column: str) -> tuple[float, float]:
    """The interval of a column; the point itself where there is none (one model)."""
    value = row[column]
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    return (value if low is None else low, value if high is None else high)


def _span(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "?"
    low, high = min(known), max(known)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
