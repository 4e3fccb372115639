"""The overhead figure: time of a step, of the whole training, and memory, relative to the plain baseline."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.costs import (
    BELOW_ONE,
    BENCH,
    BY_ENGINE,
    MEMORY_RESOLUTION,
    PAPER,
    TRAINING,
    choose_costs,
)
from harness.report.figure.artists import Bars, Marks
from harness.report.figure.marks import assign_marks, colours_of
from harness.report.figure.panels import say_thinned, spread
from harness.report.figure.paper_sizes import PANELS as FIGURE_PANELS
from harness.report.figure.paper_sizes import SCREEN, Sheet, lay_out, panel_width, scaled, wrap
from harness.report.figure.style import (
    FAINT,
    INK,
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
from harness.report.text_table import choose_columns
from harness.results.query import Source

TITLE = "Cost of training relative to the plain baseline"
COLUMNS = (
    "workload",
    "method",
    "cell",
    "source",
    "models",
    "time (baseline = 1)",
    "of",
    "its bar",
    "CPU time per example (baseline = 1)",
    "whole training (baseline = 1)",
    "extra memory (baseline = 1)",
    "extra memory in MiB",
)
RANKED = (
    *("cell", "time (baseline = 1)", "whole training (baseline = 1)", "extra memory (baseline = 1)"),
    *("workload", "source", "its bar", "of", "models"),
)
"""The columns for a reader, the most important first."""
LINES = 120
"""Rows of a group in the figure, at most; the table has all."""
MARKERS = {TRAINING: "o", BENCH: "s", PAPER: "D"}
OF = {TRAINING: "an example", BENCH: "a step, equal batch", PAPER: "a step"}
"""What the time of a row refers to."""
PANELS = {
    "time_overhead": "time of a step at equal batch (■), else per example (●), baseline = 1",
    "training_overhead": "time of the whole training, baseline = 1",
    "memory_overhead": "extra peak memory, baseline = 1",
}
COLUMN_OF = dict(zip(FIGURE_PANELS["overhead"], PANELS, strict=True))
"""By the name of the panel."""


def write_overhead(
    store: Source, out: Path, where: str | None = None, sheet: Sheet = SCREEN, sweep: str | None = None
) -> list[Path]:
    """Write the overhead's figure and table; `where` is an SQL condition on the view `overhead`."""
    return draw_overhead(read(store, where, view="overhead", sweep=sweep), out, sheet)


def draw_overhead(reading: Reading, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """The same from rows already read."""
    (table,) = choose_columns([overhead_table(reading)], sheet.columns)
    with house_style(sheet):
        imprint = Imprint(TITLE, reading.query, explain_clocks(reading))
        files = save(overhead_figure(reading, sheet), out, "overhead", imprint)
    return [*files, *write_table(table, out)]


def overhead_figure(reading: Reading, sheet: Sheet = SCREEN) -> Figure:
    """One row of panels for each workload, with a row for each cell."""
    costs = choose_costs(reading)
    if not costs:
        return empty_figure(TITLE, explain_empty(reading), sheet)
    names = sorted({row["group"] for row in costs})
    groups = [thin_lines([row for row in costs if row["group"] == name]) for name in names]
    cells = Counter(row["group"] for row in costs)
    marks = assign_marks([*reading.methods, *(row["method"] for row in costs)], reading.baselines)
    colours = colours_of(marks)
    width, scale = sheet.inches(11), sheet.font / SCREEN.font
    text = "" if sheet.printed else wrap(explain_clocks(reading), width, 8.5)
    panels = [choose_columns_of(rows, reading.baselines, sheet) for rows in groups]
    heights = [
        *([(0.16 + 0.16 * len(text.splitlines()) + 0.51) * scale] if text else []),
        *(
            (1.1 + 0.3 * len(rows)) * scale * sheet.lines(len(own))
            for rows, own in zip(groups, panels, strict=True)
        ),
    ]
    figure = new_figure(width, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    if text:
        parts[0].text(0.01, 1 - 0.2 / heights[0], TITLE, fontsize=scaled(14), weight="bold", va="center")
        parts[0].text(0.01, 0.08 / heights[0], text, fontsize=scaled(8.5), va="bottom")
    for part, rows, columns in zip(parts[bool(text) :], groups, panels, strict=True):
        if not sheet.printed or len(groups) > 1:
            name = rows[0]["group"]
            thinned = say_thinned(len(rows), cells[name])
            about = "" if sheet.printed else f" · {_models(rows)}{thinned}"
            head = wrap(f"{shorten(name, 60)}{about}", width, 10.5)
            part.suptitle(head, x=0.01, ha="left", fontsize=scaled(10.5), weight="bold")
        _draw_group(part, rows, columns, colours, sheet)
    return figure


def choose_columns_of(rows: Sequence[Row], baselines: Collection[str], sheet: Sheet) -> list[str]:
    """The columns of a group to draw; without memory if that of all methods is noise, unless asked for."""
    found = [COLUMN_OF[name] for name in sheet.panels_of("overhead")]
    known = any(row["memory_overhead"] is not None for row in rows if row["method"] not in baselines)
    memory = COLUMN_OF["memory"]
    return [column for column in found if column != memory or known or "memory" in sheet.panels]


def thin_lines(rows: Sequence[Row]) -> list[Row]:
    """At most LINES rows of a group, evenly of every method: one page holds no more."""
    if len(rows) <= LINES:
        return list(rows)
    methods = list(dict.fromkeys(row["method"] for row in rows))
    each = max(2, LINES // len(methods))
    return [line for name in methods for line in spread([row for row in rows if row["method"] == name], each)]


def _draw_group(
    part: Any, rows: Sequence[Row], columns: Sequence[str], colours: Mapping[str, str], sheet: Sheet
) -> None:
    names = [shorten(name) for name in name_lines(rows)]
    for place, (axes, column) in enumerate(zip(lay_out(part, len(columns), sheet), columns, strict=True)):
        _draw_ratios(axes, rows, column, colours)
        axes.set_xlabel(wrap(name_axis(column, rows), panel_width(axes), SCREEN.font))
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.yaxis.set_label_coords(0, 0.5)  # without a label: else matplotlib measures every name
        first = place % sheet.across == 0  # panels side by side share one list of names
        axes.set_yticks(range(len(rows)) if first else [], names if first else [])


def name_axis(column: str, rows: Sequence[Row]) -> str:
    """The title of a panel; that of the time of a step names the signs if both occur."""
    sources = {row["source"] for row in rows if row[column] is not None}
    if column != COLUMN_OF["step"] or len(sources & {TRAINING, BENCH}) == 2:
        return PANELS[column]
    what = "per example" if TRAINING in sources else "of a step at equal batch"
    return f"time {what}, baseline = 1"


def overhead_table(reading: Reading) -> TextTable:
    """A row per row of the figure."""
    costs = choose_costs(reading)
    lines = []
    groups = groupby(costs, key=lambda row: row["group"])  # sorted by group
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
                _number(row["time_overhead"]),
                OF[row["source"]],
                "-" if bar is None else f"{bar[0]:.3g} to {bar[1]:.3g}",
                _number(row["example_cpu_overhead"]),
                _number(row["training_overhead"]),
                _number(row["memory_overhead"]),
                _number(None if extra is None or row["memory_noise"] else extra / 2**20),
            )
        )
    counts = f"{len(costs)} lines."
    notes = tuple(explain_clocks(reading).splitlines())
    return TextTable(
        "overhead", TITLE, COLUMNS, tuple(lines), (), notes, counts, "How to read it", reading.query, RANKED
    )


def explain_clocks(reading: Reading) -> str:
    """What was measured and how; a line for each source."""
    costs = choose_costs(reading)
    sources = {row["source"] for row in costs}
    lines = []
    if BENCH in sources:
        lines.append(
            "Square = a step over one of the baseline at the same batch size, by privbench bench: the two "
            "took turns in one process; CPU time (on a GPU its own) without drawing the batch; bar: 95 % "
            "interval."
        )
    if PAPER in sources:
        printed = sorted({str(row["printed"]) for row in costs if row["source"] == PAPER})
        lines.append(f"Hollow diamond = in print, {'; '.join(printed)}.")
    if TRAINING in sources or not lines:
        lines.append(_explain_runs(reading))
    lines.append(
        "Whole training: wall seconds of all steps over those of the baseline's training of the workload, "
        "each with its own number of steps and batch size. Memory: peak above the level at the start of the "
        "phase (of a bench: of the step), at each cell's own batch size; left out below "
        f"{MEMORY_RESOLUTION // 2**20} MiB, where it is noise."
    )
    if reading.baselines:
        lines.append(f"Baseline: {', '.join(sorted(reading.baselines))}, trained without a defence.")
    if any(is_below_one(row, reading.baselines) for row in costs):
        lines.append(BELOW_ONE)
    if any(row.get("role") == "method" and row["method"] in reading.baselines for row in costs):
        lines.append(BY_ENGINE)
    return "\n".join(lines)


def is_below_one(row: Row, baselines: Collection[str]) -> bool:
    """Whether a method's row shows less time than the baseline's."""
    time = row["time_overhead"]
    return row["method"] not in baselines and time is not None and time < 1


def _explain_runs(reading: Reading) -> str:
    threads = " or ".join(str(number) for number in reading.threads)
    on = f", {threads} thread{'' if threads == '1' else 's'} each" if threads else ""
    return (
        f"Dot = time per example by the clocks of the training runs themselves{on}: the median step over its "
        "batch size, wall time; bar: its quartiles; short stroke: CPU time. Not interleaved with the "
        "baseline: batch sizes differ, and concurrent training runs slow each other down, so it is "
        "accurate to about one digit."
    )


def name_lines(rows: Sequence[Row]) -> list[str]:
    """The cells' labels, with their machine if the rows are from several kinds."""
    machines = {(row["device"], row["threads"]) for row in rows if row.get("source") != PAPER}
    names = []
    for row in rows:
        name = str(row["label"] or row["method"])
        several = len(machines) > 1 and row.get("source") != PAPER
        names.append(f"{name} ({row['device']}, {row['threads']} thr.)" if several else name)
    return names


def relative_quartiles(row: Row) -> tuple[float, float] | None:
    """The quartiles of the time per example over the baseline's median; of a bench the ratio's interval."""
    if row.get("source") == BENCH:
        low, high = row["step_overhead_low"], row["step_overhead_high"]
        return None if low is None else (low, high)
    if row.get("source") == PAPER:
        return None
    ratio, median = row["example_overhead"], row["step_seconds"]
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
                say_missing(row, column),
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=scaled(8),
                backgroundcolor="white",
            )
            continue
        single = row["models"] == 1 or row["source"] == PAPER
        end = value
        if column == "time_overhead":
            quartiles = relative_quartiles(row)
            if quartiles:
                bars.add((quartiles[0], place), (quartiles[1], place), colour)
                end = max(end, quartiles[1])
            if row["source"] == TRAINING and row["example_cpu_overhead"] is not None:
                marks.add(row["example_cpu_overhead"], place, marker="|", ms=scaled(11), mew=1.4, color=INK)
                end = max(end, row["example_cpu_overhead"])
        look = {"mec": colour, "mfc": "white" if single else colour}
        # For a cell only the time of a step may come from a bench.
        source = row["source"] if column == "time_overhead" or row["cell"] is None else TRAINING
        marks.add(value, place, marker=MARKERS[source], ms=scaled(7), mew=1.5, **look)
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


def say_missing(row: Row, column: str) -> str:
    """Why a ratio is missing."""
    if row.get("source") == PAPER:
        return "not printed"
    if column == "training_overhead" and row["cell"] is None:
        return "a bench does not train to the end"
    if column == "time_overhead" and row.get("batch_size") is None:
        return "no batch size"
    if column == "memory_overhead" and row.get("memory_noise"):
        return f"noise, below {MEMORY_RESOLUTION // 2**20} MiB"
    if row.get("baseline_elsewhere"):
        return "the baseline ran on another machine"
    return "no baseline"


def _models(rows: Sequence[Row]) -> str:
    counts = sorted({row["models"] for row in rows if row["models"] is not None})
    if not counts:
        return "privbench bench"
    span = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{span} models a cell{'; hollow: one model' * (counts[0] == 1)}"
