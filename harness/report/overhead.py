"""The overhead figure: step time and memory of each method relative to plain SGD."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
    if not reading.overhead:
        return empty_figure(TITLE, explain_empty(reading))
    names = sorted({row["group"] for row in reading.overhead})
    groups = [[row for row in reading.overhead if row["group"] == name] for name in names]
    colours = assign_colours([*reading.methods, *(row["method"] for row in reading.overhead)])
    heights = [1.15, *(1.25 + 0.3 * len(rows) for rows in groups)]
    figure = new_figure(11, sum(heights))
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    parts[0].text(0.01, 0.84, TITLE, fontsize=14, weight="bold", va="center")
    parts[0].text(0.01, 0.34, explain_clocks(reading), fontsize=8.5, va="center")
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
    """What was measured, and what it is not."""
    threads = " or ".join(str(number) for number in reading.threads)
    on = f", {threads} thread{'' if threads == '1' else 's'} each" if threads else ""
    return (
        f"Clocks of the training runs themselves{on}: dot = wall time, median of the steps; "
        "bar = its quartiles; short stroke = CPU time.\n"
        "Not interleaved with sgd: trainings that ran side by side slow each other, so read a ratio "
        "of wall times to about one digit.\n"
        "Memory: peak above the level at the start of the phase; below a few MiB it is noise."
    )


def name_line(row: Row, rows: Sequence[Row]) -> str:
    """The cell's label, with its machine where the rows come from more than one kind."""
    name = str(row["label"] or row["method"])
    if len({(other["device"], other["threads"]) for other in rows}) < 2:
        return name
    return f"{name} ({row['device']}, {row['threads']} thr.)"


def relative_quartiles(row: Row) -> tuple[float, float] | None:
    """The quartiles of the step time in units of sgd's median step."""
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
                "no sgd to compare with",
                transform=axes.get_yaxis_transform(),
                va="center",
                fontsize=8,
                backgroundcolor="white",
            )
            continue
        single = row["models"] == 1
        end = value
        if column == "step_overhead":
            quartiles = relative_quartiles(row)
            if quartiles:
                axes.plot(quartiles, (place, place), color=colour, lw=3, alpha=0.4, solid_capstyle="butt")
                end = max(end, quartiles[1])
            if row["step_cpu_overhead"] is not None:
                axes.plot([row["step_cpu_overhead"]], [place], marker="|", ms=11, mew=1.4, color=INK)
                end = max(end, row["step_cpu_overhead"])
        axes.plot([value], [place], "o", ms=7, mew=1.5, mec=colour, mfc="white" if single else colour)
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


def _models(rows: Sequence[Row]) -> str:
    counts = sorted({row["models"] for row in rows})
    span = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{span} models a cell; hollow: one model"
