"""The cost figures of reports: from a bench if there is one, else from training clocks; and from papers."""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from harness.papers.published_tables import published_overheads
from harness.report.reading import Reading, Row

TRAINING, BENCH, PAPER = "training", "bench", "paper"
"""The source of a figure: the clocks of training runs, steps interleaved with the baseline's, or print."""

MEMORY_RESOLUTION = 16 * 2**20
"""Bytes of extra memory from which a ratio is shown; the baseline's must reach it, too. Below, the resident
memory of a process is noise: what an earlier task freed is used again (docs/numbers.md)."""

NOT_PRINTED = (
    *("cell", "models", "device", "threads", "epsilon", "step_seconds", "step_cpu_seconds", "batch_size"),
    *("step_overhead_low", "step_overhead_high", "example_overhead", "example_cpu_overhead", "overhead_by"),
    *("train_seconds", "training_overhead", "extra_memory_bytes", "memory_overhead"),
)
BELOW_ONE = (
    "A ratio below 1 compares implementations and not privacy: the baseline pays for autograd and the "
    "gradient engine does not, or only partly; `privbench bench --both-baselines` times the baseline both "
    "ways. Per example a larger batch is cheaper."
)
"""Stated wherever such a ratio is shown."""

BY_ENGINE = (
    "The baseline by the engine: the same update from the passes of the gradient engine, without clipping "
    "and noise. A method's time over it is what privacy costs, however gradients are computed."
)
"""Stated where a bench timed the baseline in another way."""


def choose_costs(reading: Reading) -> list[Row]:
    """One row per row of the overhead report: cells, and benches that timed no cell's step.

    `time_overhead` is the shown figure: a step at equal batch size if a bench timed it, else the time per
    example; `source` is which. `baseline_elsewhere`: the baseline was trained in the group, so if a ratio is
    missing it ran on another machine. An untrustworthy bench is shown only if its method has nothing else.
    """
    runs = [resolve_memory(as_line(row)) for row in reading.overhead]
    benches = [resolve_memory(as_cost(row)) for row in reading.bench]
    shown = {_timed(row) for row in runs if row["source"] == BENCH}
    trusted = {(row["group"], row["method"]) for row in benches if row["trustworthy"]}
    ran = {(row["group"], row["method"]) for row in runs}
    kept = runs + [
        row
        for row in benches
        if (row["trustworthy"] and _timed(row) not in shown)
        or (row["group"], row["method"]) not in ran | trusted
    ]
    there = {row["group"] for row in runs if row["method"] in reading.baselines}
    lines = [{**row, "baseline_elsewhere": row["group"] in there} for row in [*kept, *printed(kept)]]
    return sorted(lines, key=partial(_order, reading.baselines))


def as_line(row: Row) -> dict[str, Any]:
    """A row of the view `overhead` with the shown figures."""
    timed = row["overhead_by"] == BENCH
    time = row["step_overhead"] if timed else row["example_overhead"]
    return {**row, "source": BENCH if timed else TRAINING, "time_overhead": time}


def as_cost(row: Row) -> dict[str, Any]:
    """A row of the view `bench` with the names of the view `overhead`."""
    doubt = "" if row["trustworthy"] else ", too noisy"
    return {
        **row,
        "source": BENCH,
        "cell": None,
        "label": f"{row['variant']}, B={row['batch_size']}{doubt}",
        "models": None,
        "step_seconds": row["median_wall_seconds"],
        "step_cpu_seconds": row["median_cpu_seconds"],
        "time_overhead": row["ratio"],
        "step_overhead": row["ratio"],
        "step_overhead_low": row["ratio_low"],
        "step_overhead_high": row["ratio_high"],
        "example_overhead": None,
        "example_cpu_overhead": None,
        "overhead_by": BENCH,
        "extra_memory_bytes": row["peak_memory_bytes"],
        "memory_overhead": row["memory_ratio"],
        "train_seconds": None,
        "training_overhead": None,
    }


def resolve_memory(row: Row) -> dict[str, Any]:
    """The row, without a ratio of memory that is noise; `memory_noise` states that there was one."""
    noise = row["extra_memory_bytes"] is not None and not is_resolved(row)
    return {**row, "memory_noise": noise, "memory_overhead": None if noise else row["memory_overhead"]}


def is_resolved(row: Row) -> bool:
    """Whether the ratio of extra memory is above the resolution of the measurement.

    On a GPU the allocator counts every byte; then it is enough that the baseline took any.
    """
    extra, ratio = row["extra_memory_bytes"], row["memory_overhead"]
    if extra is None or not ratio:
        return False
    needed = 0 if str(row.get("device")).startswith("cuda") else MEMORY_RESOLUTION
    return bool(min(extra, extra / ratio) >= needed)


def _timed(row: Row) -> tuple[Any, ...]:
    return row["group"], row["method"], row["batch_size"]


def printed(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Published overheads for the shapes among these rows."""
    known = published_overheads()
    workloads = {each.workload for each in known}
    groups = {row["group"]: row for row in rows if row["workload"] in workloads}
    kinds = {row["method"]: row["guarantee_kind"] for row in rows if row["group"] in groups}
    return [
        {
            **dict.fromkeys(NOT_PRINTED),
            "memory_noise": False,
            "source": PAPER,
            "group": group,
            "workload": row["workload"],
            "method": each.method,
            "guarantee_kind": kinds.get(each.method),
            "label": f"{each.method}, {each.printed}",
            "printed": each.source,
            "time_overhead": each.ratio,
            "step_overhead": each.ratio,
        }
        for group, row in groups.items()
        for each in known
        if each.workload == row["workload"]
    ]


def _order(baselines: Collection[str], row: Row) -> tuple[Any, ...]:
    """By workload; in it the baseline first, then methods by name, published figures last."""
    return row["group"], row["method"] not in baselines, row["method"], row["source"] == PAPER
