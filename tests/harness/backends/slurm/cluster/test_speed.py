"""The overhead of the SLURM backend.

`pytest -m "cluster and benchmark" tests/harness/backends/slurm/cluster -s`

On an idle machine: both tests measure wall time.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from harness.spec import Task

if TYPE_CHECKING:
    from tests.harness.backends.slurm.cluster.conftest import Sweeper
    from tests.harness.conftest import Lab

pytestmark = [pytest.mark.cluster, pytest.mark.benchmark]

SLOTS = 8

Property = Callable[[str, object], None]


def trivial(lab: "Lab", count: int) -> list[Task]:
    """This many trainings of two steps."""
    return [lab.task(index, seed, steps=1) for seed in range(count // 8) for index in range(8)]


def test_a_thousand_tasks_are_enqueued_in_seconds_and_cost_little_each(
    sweeper: "Sweeper", record_property: Property
) -> None:
    tasks = trivial(sweeper.lab, 1000)
    begin = time.monotonic()
    assert sweeper.send(tasks, array_parallelism=SLOTS) == len(tasks)
    enqueued = time.monotonic() - begin
    sweeper.lab.wait(lambda: not sweeper.backend.attend(sweeper.store, "sweep"), seconds=1200)
    wall = time.monotonic() - begin
    assert sweeper.reasons(tasks) == [None] * len(tasks)
    work = sum(sweeper.lab.result(task).wall_seconds or 0.0 for task in tasks)
    overhead = (wall - work / SLOTS) / len(tasks)
    record_property("enqueue_seconds", enqueued)
    record_property("overhead_seconds_per_task", overhead)
    print(f"enqueue {enqueued:.2f} s, sweep {wall:.1f} s, overhead {overhead:.3f} s a task")  # noqa: T201
    assert enqueued < 5.0
    assert overhead < 0.25


def test_the_status_of_ten_thousand_queued_tasks_takes_seconds(
    sweeper: "Sweeper", record_property: Property
) -> None:
    tasks = trivial(sweeper.lab, 10_000)
    assert sweeper.send(tasks, pack=50, options={"hold": True}) == len(tasks)
    command = [sys.executable, "-m", "harness.cli", "status", "sweep", "--store", str(sweeper.store.path)]
    begin = time.monotonic()
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds = time.monotonic() - begin
    record_property("status_seconds", seconds)
    print(f"status {seconds:.2f} s")  # noqa: T201
    assert "10000" in printed
    assert seconds < 2.0
