"""Which figure of a method's cost a report shows: benches before training runs, a paper's beside them."""

from collections.abc import Iterable
from typing import Any

from harness.report.reading import BASELINE, Reading, Row

TRAINING, BENCH, PAPER = "training", "bench", "paper"
"""Where a figure comes from: the clocks of training runs, steps interleaved with sgd, or print."""

TABLE_6 = "PD-SGD paper, Table 6"
HEAD = {"pd-sgd": 15.7, "dp-sgd": 38.5}
WRN = {"pd-sgd": 5.17, "dp-sgd": 7.23}
PRINTED = {"shape-linear-768x10": HEAD, "shape-wrn16-4": WRN, "cifar10-wrn16-4": WRN}
"""Step time in units of SGD's, by workload of that shape. The paper names no GPU and no batch size."""

NOT_PRINTED = (
    *("cell", "models", "device", "threads", "epsilon", "step_seconds", "step_cpu_seconds"),
    *("step_cpu_overhead", "train_seconds", "extra_memory_bytes", "memory_overhead"),
)


def choose_costs(reading: Reading) -> list[Row]:
    """One row per line of the overhead report, each with its `source`.

    Where a trustworthy bench timed a method on a workload, it stands instead of that method's training
    runs; a bench that is not trustworthy stands only where there is nothing else.
    """
    runs = [{**row, "source": TRAINING} for row in reading.overhead]
    benches = [as_cost(row) for row in reading.bench]
    trusted = {(row["group"], row["method"]) for row in benches if row["trustworthy"]}
    kept = [row for row in runs if (row["group"], row["method"]) not in trusted]
    ran = {(row["group"], row["method"]) for row in kept}
    kept += [
        row for row in benches if row["trustworthy"] or (row["group"], row["method"]) not in ran | trusted
    ]
    return sorted([*kept, *printed(kept)], key=_order)


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
        "step_overhead": row["ratio"],
        "step_cpu_overhead": None,
        "extra_memory_bytes": row["peak_memory_bytes"],
        "memory_overhead": row["memory_ratio"],
        "train_seconds": None,
    }


def printed(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """What a paper printed for the shapes among these rows."""
    groups = {row["group"]: row for row in rows if row["workload"] in PRINTED}
    kinds = {row["method"]: row["guarantee_kind"] for row in rows if row["group"] in groups}
    return [
        {
            **dict.fromkeys(NOT_PRINTED),
            "source": PAPER,
            "group": group,
            "workload": row["workload"],
            "method": method,
            "guarantee_kind": kinds.get(method),
            "label": f"{method}, Table 6",
            "step_overhead": ratio,
        }
        for group, row in groups.items()
        for method, ratio in PRINTED[row["workload"]].items()
    ]


def _order(row: Row) -> tuple[Any, ...]:
    """By workload; in it the yardstick, then methods by name, each as before and print last."""
    return row["group"], row["method"] != BASELINE, row["method"], row["source"] == PAPER
