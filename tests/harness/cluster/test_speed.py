"""What the SLURM backend costs beside the work: `pytest -m "cluster and benchmark" tests/harness/cluster`."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.harness.cluster.conftest import Sweeper

pytestmark = [pytest.mark.cluster, pytest.mark.benchmark]

TASKS, SLOTS = 1000, 8


def test_a_thousand_tasks_are_enqueued_in_seconds_and_cost_little_each(
    sweeper: "Sweeper", record_property: Callable[[str, object], None]
) -> None:
    tasks = [sweeper.lab.task(index, seed, steps=1) for seed in range(TASKS // 8) for index in range(8)]
    begin = time.monotonic()
    assert sweeper.send(tasks, array_parallelism=SLOTS) == TASKS
    enqueued = time.monotonic() - begin
    sweeper.lab.wait(lambda: not sweeper.backend.attend(sweeper.store, "sweep"), seconds=1200)
    wall = time.monotonic() - begin
    work = sum(sweeper.lab.result(task)["wall_seconds"] for task in tasks)
    assert sweeper.reasons(tasks) == [None] * TASKS
    record_property("enqueue_seconds", enqueued)
    record_property("overhead_seconds_per_task", (wall - work / SLOTS) / TASKS)
    print(f"enqueue {enqueued:.2f} s, {(wall - work / SLOTS) / TASKS:.3f} s a task")  # noqa: T201
    assert enqueued < 5.0
    assert (wall - work / SLOTS) / TASKS < 0.25
