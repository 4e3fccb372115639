"""Sweeps of a size that no desk has: planning 100,000 tasks, looking at 10,000."""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.backends.status import Progress
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Cell, Json, Plugin, Task
from harness.store import Store
from harness.store.files import checksum, dump
from tests.harness.simulated import sweep_record

pytestmark = pytest.mark.benchmark

Record = Callable[[str, object], None]


def grid(cells: int) -> Json:
    """Fifteen tasks a cell: eight trainings, the four attacks, `rmia` and `strongest`, the blind check."""
    rates = [0.001 * (number + 1) for number in range(cells)]
    sgd = {"workload": "digits-mlp", "method": "sgd", "learning_rate": rates}
    attacks = ["loss", "population", "reference", "lira"]
    return {"name": "large", "models": 8, "attacks": attacks, "grid": [sgd]}


def test_planning_a_hundred_thousand_tasks(tmp_path: Path, record_property: Record) -> None:
    store = Store.open(tmp_path / "store", create=True)
    make_plan(*read_sweep(grid(1), "one"), store)  # the plug-ins are imported
    begin = time.monotonic()
    plan = make_plan(*read_sweep(grid(6667), "large"), store)
    seconds = time.monotonic() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    record_property("plan_seconds", seconds)
    record_property("plan_bytes", memory)
    assert len(plan.todo) == 100_005
    assert seconds < 10
    assert memory < 1e9


ARTEFACTS = ("signals", "model", "steps")


def result(task: Task) -> Json:
    """About as long as the result of a training is."""
    times = {f"p{each:02d}": each / 7 for each in range(25)}
    phases = {"train": {"steps": 300, "wall": times, "cpu": times, "clocks": {"clip": times}}}
    files = {name: {"file": f"{name}.safetensors", "bytes": 3, "sha256": "0" * 64} for name in ARTEFACTS}
    row: Json = {"key": task.key, "kind": "train", "status": "done", "reason": None, "artefacts": files}
    return {**row, "phases": phases, "metrics": times, "provenance": {"platform": "x" * 600}}


def test_looking_at_ten_thousand_tasks(tmp_path: Path, record_property: Record) -> None:
    store = Store.open(tmp_path / "store", create=True)
    cells = [Cell(Plugin("w", "1"), 5, Plugin("sgd", "1"), {"rate": each}, 0) for each in range(1250)]
    tasks = [Task("train", cell, index=index) for cell in cells for index in range(8)]
    store.add(*tasks)
    for task in tasks[:9000]:
        row = result(task)
        for each in row["artefacts"].values():
            (store.folder(task.key) / each["file"]).write_bytes(b"any")
        (store.folder(task.key) / "result.json").write_bytes(dump({**row, "checksum": checksum(row)}))
    store.write_sweep(sweep_record("sweep", *tasks))
    begin = time.monotonic()
    progress = Progress.of(store, "sweep")
    look = time.monotonic() - begin
    begin = time.monotonic()
    command = [sys.executable, "-m", "harness.cli", "status", "sweep", "--store", str(store.path)]
    subprocess.run(command, capture_output=True, check=True)
    whole = time.monotonic() - begin
    record_property("look_seconds", look)
    record_property("status_seconds", whole)
    assert progress.done == 9000
    assert whole < 2.0
