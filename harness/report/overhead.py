"""The overhead figure: step time and memory of each method relative to plain SGD."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.costs import BENCH, PAPER, TABLE_6, TRAINING, choose_costs
from harness.report.figure.artists import Bars, Marks
from harness.report.figure.panels import say_thinned, spread
from harness.report.figure.paper_sizes import SCREEN, Sheet, lay_out, scaled, wrap
from harness.report.figure.style import (
    FAINT,
    INK,
    assign_colours,
    empty_figure,
    explain_empty,
    house_style,
    log_ticks,
    new_figure,
    save,
    shorten,
)
from harness.report.metadata import Imprint
from harness.report.reading import Reading, Row, read
from harness.report.tables import TextTable, write_table
from harness.results.query import Source

TITLE = "Cost of training relative to sgd"
COLUMNS = (
    "workload",
    "method",
    "cell",
    "source",
    "models",
    "step time (sgd = 1)",
    "its bar",
    "CPU time (sgd = 1)",
    "extra memory (sgd = 1)",
    "extra memory in MiB",
)
LINES = 120
"""Lines of a group in the figure, at most; the table has all."""
MARKERS = {TRAINING: "o", BENCH: "s", PAPER: "D"}


def write_overhead(store: Source, out: Path, where: str | None = None, sheet: Sheet = SCREEN) -> list[Path]:
    """Write the overhead's figure and table; `where` is an SQL condition on the view `overhead`."""
    return draw_overhead(read(store, where, view="overhead"), out, sheet)


def draw_overhead(reading: Reading, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """The same from rows that were read already."""
    with house_style(sheet):
        files = save(overhead_figure(reading, sheet), out, "overhead", Imprint(TITLE, reading.query))
    return [*files, *write_table(overhead_table(reading), out)]


def overhead_figure(reading: Reading, sheet: Sheet = SCREEN) -> Figure:
    """One row of panels for each workload: time of a step, extra memory; one line for each cell."""
    costs = choose_costs(reading)
    if not costs:
        return empty_figure(TITLE, explain_empty(reading), sheet)
    names = sorted({row["group"] for row in costs})
    groups = [thin_lines([row for row in costs if row["group"] == name]) for name in names]
    cells = Counter(row["group"] for row in costs)
    colours = assign_colours([*reading.methods, *(row["method"] for row in costs)])
    width, scale = sheet.inches(11), sheet.font / SCREEN.font
    text = wrap(explain_clocks(reading), width, 8.5)
    heights = [
        (0.16 + 0.16 * len(text.splitlines()) + 0.51 * (not sheet.printed)) * scale,
        *((1.25 + 0.3 * len(rows)) * scale * sheet.lines(2) for rows in groups),
    ]
    figure = new_figure(width, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    if not sheet.printed:
        parts[0].text(0.01, 1 - 0.2 / heights[0], TITLE, fontsize=scaled(14), weight="bold", va="center")
    parts[0].text(0.01, 0.08 / heights[0], text, fontsize=scaled(8.5), va="bottom")
    for part, name, rows in zip(parts[1:], names, groups, strict=True):
        _draw_group(part, rows, cells[name], colours, sheet)
    return figure


def thin_lines(rows: Sequence[Row]) -> list[Row]:
    """At most LINES lines of a group, evenly of every method: one page holds no more."""
    if len(rows) <= LINES:
        return list(rows)
    methods = list(dict.fromkeys(row["method"] for row in rows))
    each = max(2, LINES // len(methods))
    return [line for name in methods for line in spread([row for row in rows if row["method"] == name], each)]


def _draw_group(part: Any, rows: Sequence[Row], cells: int, colours: Mapping[str, str], sheet: Sheet) -> None:
    thinned = say_thinned(len(rows), cells)
    head = wrap(f"{shorten(rows[0]['group'], 60)} · {_models(rows)}{thinned}", sheet.inches(11), 10.5)
    part.suptitle(head, x=0.01, ha="left", fontsize=scaled(10.5), weight="bold")
    left, right = panels = lay_out(part, 2, sheet)
    _draw_ratios(left, rows, "step_overhead", colours)
    _draw_ratios(right, rows, "memory_overhead", colours)
    left.set_xlabel("time of a training step (sgd = 1)")
    right.set_xlabel("extra peak memory (sgd = 1)")
    for axes in panels:
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.yaxis.set_label_coords(0, 0.5)  # it has none: matplotlib would measure every name to place it
    named = panels if sheet.across == 1 else [left]  # side by side, one list of names serves both
    names = [shorten(name) for name in name_lines(rows)]
    for axes in panels:
        axes.set_yticks(range(len(rows)) if axes in named else [], names if axes in named else [])


def overhead_table(reading: Reading) -> TextTable:
    """A line per line of the figure."""
    costs = choose_costs(reading)
    lines = []
    groups = groupby(costs, key=lambda row: row["group"])  # which they are sorted by
    names = [name for _, own in groups for name in name_lines(list(own))]
    for row, name in zip(costs, names, strict=True):
        bar = relative_quartiles(row)
        extra = row["extra_memory_bytes"]
        lines.append(
            (
                row["group"],
                row["method"],
                name,
                row["source"],
                _number(row["models"], "d"),
                _number(row["step_overhead"]),
                "-" if bar is None else f"{bar[0]:.3g} to {bar[1]:.3g}",
                _number(row["step_cpu_overhead"]),
                _number(row["memory_overhead"]),
                _number(None if extra is None else extra / 2**20),
            )
        )
    counts = f"{len(costs)} lines."
    notes = tuple(explain_clocks(reading).splitlines())
    return TextTable(
        "overhead", TITLE, COLUMNS, tuple(lines), (), notes, counts, "How to read it", reading.query
    )


def explain_clocks(reading: Reading) -> str:
    """What was measured, and what it is not; a line for each source that is there."""
    sources = {row["source"] for row in choose_costs(reading)}
    memory = "Memory: peak above the level at the start of the {}; below a few MiB it is noise."
    lines = []
    if BENCH in sources:
        lines += [
            "Square = privbench bench, shown instead of training runs: steps of sgd and of the others took "
            "turns in one process;",
            "CPU time (on a GPU its own) without drawing the batch, median; bar = 95 % interval. "
            + memory.format("step"),
        ]
    if PAPER in sources:
        lines.append(
            f"Hollow diamond = printed in the {TABLE_6}: GPU and batch size not stated, mean of 3 steps."
        )
    if TRAINING in sources or not lines:
        lines += [_explain_runs(reading), memory.format("phase")]
    return "\n".join(lines)


def _explain_runs(reading: Reading) -> str:
    threads = " or ".join(str(number) for number in reading.threads)
    on = f", {threads} thread{'' if threads == '1' else 's'} each" if threads else ""
    return (
        f"Clocks of the training runs themselves{on}: dot = wall time, median of the steps; "
        "bar = its quartiles; short stroke = CPU time.\n"
        "Not interleaved with sgd: trainings that ran side by side slow each other, so read a ratio "
        "of wall times to about one digit."
    )


def name_lines(rows: Sequence[Row]) -> list[str]:
    """The cells' labels, with their machine where the rows come from more than one kind."""
    machines = {(row["device"], row["threads"]) for row in rows if row.get("source") != PAPER}
    names = []
    for row in rows:
        name = str(row["label"] or row["method"])
        told = len(machines) > 1 and row.get("source") != PAPER
        names.append(f"{name} ({row['device']}, {row['threads']} thr.)" if told else name)
    return names


def relative_quartiles(row: Row) -> tuple[float, float] | None:
    """The quartiles of the step time in units of sgd's median step; for a bench the ratio's interval."""
    if row.get("source") == BENCH:
        return None if row["ratio_low"] is None else (row["ratio_low"], row["ratio_high"])
    if row.get("source") == PAPER:
        return None
    ratio, median = row["step_overhead"], row["step_seconds"]
    low, high = row["step_seconds_p25"], row["step_seconds_p75"]
    if None in (ratio, median, low, high) or median <= 0:
        return None
    return low * ratio / median, high * ratio / median


def _draw_ratios(axes: Axes, rows: Sequence[Row], column: str, colours: Mapping[str, str]) -> None:
    known = [row[column] for row in rows if row[column] is not None]
    marks, bars = Marks(), Bars()
    for place, row in enumerate(rows):
        value, colour = row[column], colours[row["method"]]
        if value is None:
            axes.text(
                0.02,
                place,
                say_missing(row),
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=scaled(8),
                backgroundcolor="white",
            )
            continue
        single = row["models"] == 1 or row["source"] == PAPER
        end = value
        if column == "step_overhead":
            quartiles = relative_quartiles(row)
            if quartiles:
                bars.add((quartiles[0], place), (quartiles[1], place), colour)
                end = max(end, quartiles[1])
            if row["step_cpu_overhead"] is not None:
                marks.add(row["step_cpu_overhead"], place, marker="|", ms=scaled(11), mew=1.4, color=INK)
                end = max(end, row["step_cpu_overhead"])
        look = {"mec": colour, "mfc": "white" if single else colour}
        marks.add(value, place, marker=MARKERS[row["source"]], ms=scaled(7), mew=1.5, **look)
        text = f"{value:.3g}"
        if column == "memory_overhead" and row["extra_memory_bytes"] is not None:
            text += f"  ({row['extra_memory_bytes'] / 2**20:.3g} MiB)"
        axes.annotate(
            text, (end, place), xytext=(9, 0), textcoords="offset points", va="center", fontsize=scaled(8)
        )
    bars.draw(axes, linewidths=scaled(3), alpha=0.4)
    marks.draw(axes)
    axes.axvline(1, color=FAINT, lw=1, ls=":")
    axes.grid(axis="y", visible=False)
    if known and max(known) > 20 and min(known) > 0:
        axes.set_xscale("log")
        log_ticks(axes.xaxis)
        axes.margins(x=0.2)
    else:
        axes.set_xlim(0, 1.25 * max([1.2, *known, axes.get_xlim()[1] / 1.25]))


def _number(value: float | None, form: str = ".3g") -> str:
    return "-" if value is None else f"{value:{form}}"


def say_missing(row: Row) -> str:
    """Why a ratio is not there."""
    return "not printed" if row.get("source") == PAPER else "no sgd to compare with"


def _models(rows: Sequence[Row]) -> str:
    counts = sorted({row["models"] for row in rows if row["source"] == TRAINING})
    if not counts:
        return "privbench bench"
    span = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{span} models a cell; hollow: one model"
