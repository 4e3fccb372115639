"""The overhead figure: step time and memory of each method relative to plain SGD."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.costs import BENCH, PAPER, TABLE_6, TRAINING, choose_costs
from harness.report.data import Reading, Row, read
from harness.report.style import (
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

TITLE = "Cost of training relative to sgd"
MARKERS = {TRAINING: "o", BENCH: "s", PAPER: "D"}


def write_overhead(store: Path, out: Path, where: str | None = None) -> list[Path]:
    """Write overhead.png and overhead.svg into `out`; `where` is an SQL condition on the view `overhead`."""
    return draw_overhead(read(store, where, view="overhead"), out)


def draw_overhead(reading: Reading, out: Path) -> list[Path]:
    """The same from rows that were read already."""
    with house_style():
        figure = overhead_figure(reading)
        return save(figure, out, "overhead", TITLE, reading)


def overhead_figure(reading: Reading) -> Figure:
    """One row of panels for each workload: time of a step, extra memory; one line for each cell."""
    costs = choose_costs(reading)
    if not costs:
        return empty_figure(TITLE, explain_empty(reading))
    names = sorted({row["group"] for row in costs})
    groups = [[row for row in costs if row["group"] == name] for name in names]
    colours = assign_colours([*reading.methods, *(row["method"] for row in costs)])
    text = explain_clocks(reading)
    heights = [0.67 + 0.16 * len(text.splitlines()), *(1.25 + 0.3 * len(rows) for rows in groups)]
    figure = new_figure(11, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    parts[0].text(0.01, 0.84, TITLE, fontsize=14, weight="bold", va="center")
    parts[0].text(0.01, 0.34, text, fontsize=8.5, va="center")
    for part, name, rows in zip(parts[1:], names, groups, strict=True):
        part.suptitle(
            f"{shorten(name, 60)} · {_models(rows)}", x=0.01, ha="left", fontsize=10.5, weight="bold"
        )
        left, right = part.subplots(1, 2, sharey=True)
        _draw_ratios(left, rows, "step_overhead", colours)
        _draw_ratios(right, rows, "memory_overhead", colours)
        left.set_xlabel("time of a training step (sgd = 1)")
        right.set_xlabel("extra peak memory (sgd = 1)")
        left.set_yticks(range(len(rows)), [shorten(name_line(row, rows)) for row in rows])
        left.set_ylim(len(rows) - 0.4, -0.6)
    return figure


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


def name_line(row: Row, rows: Sequence[Row]) -> str:
    """The cell's label, with its machine where the rows come from more than one kind."""
    name = str(row["label"] or row["method"])
    machines = {(other["device"], other["threads"]) for other in rows if other.get("source") != PAPER}
    if len(machines) < 2 or row.get("source") == PAPER:
        return name
    return f"{name} ({row['device']}, {row['threads']} thr.)"


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
    for place, row in enumerate(rows):
        value, colour = row[column], colours[row["method"]]
        if value is None:
            axes.text(
                0.02,
                place,
                say_missing(row),
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=8,
                backgroundcolor="white",
            )
            continue
        single = row["models"] == 1 or row["source"] == PAPER
        end = value
        if column == "step_overhead":
            quartiles = relative_quartiles(row)
            if quartiles:
                axes.plot(quartiles, (place, place), color=colour, lw=3, alpha=0.4, solid_capstyle="butt")
                end = max(end, quartiles[1])
            if row["step_cpu_overhead"] is not None:
                axes.plot([row["step_cpu_overhead"]], [place], marker="|", ms=11, mew=1.4, color=INK)
                end = max(end, row["step_cpu_overhead"])
        axes.plot(
            [value],
            [place],
            MARKERS[row["source"]],
            ms=7,
            mew=1.5,
            mec=colour,
            mfc="white" if single else colour,
        )
        text = f"{value:.3g}"
        if column == "memory_overhead" and row["extra_memory_bytes"] is not None:
            text += f"  ({row['extra_memory_bytes'] / 2**20:.3g} MiB)"
        axes.annotate(text, (end, place), xytext=(9, 0), textcoords="offset points", va="center", fontsize=8)
    axes.axvline(1, color=FAINT, lw=1, ls=":")
    axes.grid(axis="y", visible=False)
    if known and max(known) > 20 and min(known) > 0:
        axes.set_xscale("log")
        log_ticks(axes.xaxis)
        axes.margins(x=0.2)
    else:
        axes.set_xlim(0, 1.25 * max([1.2, *known, axes.get_xlim()[1] / 1.25]))


def say_missing(row: Row) -> str:
    """Why a ratio is not there."""
    return "not printed" if row.get("source") == PAPER else "no sgd to compare with"


def _models(rows: Sequence[Row]) -> str:
    counts = sorted({row["models"] for row in rows if row["source"] == TRAINING})
    if not counts:
        return "privbench bench"
    span = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{span} models a cell; hollow: one model"
