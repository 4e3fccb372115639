"""The table `bench_match`: cells that a bench has timed at their own batch size."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

import db
from harness.results.rows import TABLES, Row, to_arrow

BENCH, CELL, TASK = TABLES["bench_result"], TABLES["cell"], TABLES["task"]
SAME = ("origin", "protocol", "workload", "workload_version", "n_train", "method", "method_version")
"""What a cell and a bench must share to be compared at all."""
TIMED = (
    sa.select(BENCH, TASK.c.origin, TASK.c.protocol)
    .join(TASK, TASK.c.key == BENCH.c.task)
    .where(BENCH.c.role != "control", BENCH.c.status == "done")
)


def write_bench_matches(connection: sa.Connection) -> None:
    """Rebuild `bench_match`: every cell whose step a bench has timed."""
    table = TABLES["bench_match"]
    connection.execute(sa.delete(table))
    benches = connection.execute(TIMED).mappings().all()
    if not benches:
        return
    cells = connection.execute(sa.select(CELL)).mappings()
    rows = match_benches([dict(row) for row in benches], (dict(row) for row in cells))
    if rows:
        db.insert_arrow(connection, table, to_arrow("bench_match", rows))


def match_benches(benches: Iterable[Row], cells: Iterable[Row]) -> list[Row]:
    """Rows of `bench_match`: cells whose step was timed.

    Batch size and everything else that determines the work of a step agree; real numbers (epsilon, noise,
    rates) and `steps` may differ. The plain baseline is the same however it draws its batches.
    """
    by_name: dict[tuple[Any, ...], list[Row]] = {}
    for bench in benches:
        by_name.setdefault(tuple(bench[name] for name in SAME), []).append(bench)
    return [
        {"cell": cell["key"], "task": bench["task"], "variant": bench["variant"]}
        for cell in cells
        for bench in by_name.get(tuple(cell[name] for name in SAME), ())
        if is_timed(cell, bench)
    ]


def is_timed(cell: Row, bench: Row) -> bool:
    """Whether a bench of the cell's workload and method timed the cell's step."""
    if cell["batch_size"] is None or cell["batch_size"] != bench["batch_size"]:
        return False
    if bench["role"] == "yardstick":
        return True
    decided = bench["step_params"]  # None in an older bench
    return decided is not None and all(cell["params"].get(name) == value for name, value in decided.items())
