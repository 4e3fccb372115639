"""A store of a size that no desk has: 10,000 tasks and 2 million steps into the database, and asked."""

import hashlib
import statistics
import time
from collections.abc import Callable

import pytest

from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Cell, Json, Plugin, Task
from harness.store import Store
from harness.store.files import checksum, dump
from tests.harness.simulated import leakage, series, training

pytestmark = pytest.mark.benchmark

Record = Callable[[str, object], None]

MODELS = 8
ATTACKS = ("blind", "loss")
CELLS = 1000
STEPS = 250
"""Of each of the 8,000 trainings."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """1,000 cells of 8 trainings and 2 attacks, written as quickly as files can be."""
    store = Store.open(tmp_path_factory.mktemp("large") / "store", create=True)
    steps = series(STEPS)
    for number in range(CELLS):
        method = "sgd" if number % 10 == 0 else "dp-sgd"
        cell = Cell(Plugin(f"w{number % 5}", "1"), 100, Plugin(method, "1"), {"rate": number}, 0)
        for index in range(MODELS):
            task = Task("train", cell, index=index)
            write(store, task, training(task, (number % 97 + index) / 120), steps)
        for name in ATTACKS:
            task = Task("attack", cell, models=MODELS, attack=Plugin(name, "1"))
            verdict = {"valid": True} if name == "blind" else {}
            write(store, task, leakage(0.5 + number % 89 / 200, **verdict))
    return store


def write(store: Store, task: Task, payload: Json, steps: bytes | None = None) -> None:
    """A task that has ended, without waiting for the disk."""
    folder = store.folder(task.key)
    folder.mkdir(parents=True)
    (folder / "spec.json").write_bytes(dump(task.file()))
    artefacts = {}
    if steps is not None:
        (folder / "steps-0123456789ab.parquet").write_bytes(steps)
        digest = hashlib.sha256(steps).hexdigest()
        artefacts["steps"] = {"file": "steps-0123456789ab.parquet", "bytes": len(steps), "sha256": digest}
    result: Json = {
        "key": task.key,
        "kind": task.kind,
        "status": "done",
        "reason": None,
        "artefacts": artefacts,
    }
    result |= {"provenance": {"host": "h", "device": "cpu", "threads": 1, "platform": "x" * 600}, **payload}
    (folder / "result.json").write_bytes(dump({**result, "checksum": checksum(result)}))


def test_collecting_and_asking(store: Store, record_property: Record) -> None:
    begin = time.process_time()
    first = collect(store.path)
    record_property("collect_cpu_seconds", time.process_time() - begin)
    again = collect(store.path)
    record_property("collect_seconds", first.seconds)
    record_property("again_seconds", again.seconds)
    assert (first.new, again.new, again.total) == (10_000, 0, 10_000)
    assert query(store.path, "select count(*) from steps").rows == [(2_000_000,)]
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        assert len(query(store.path, "select * from frontier").rows) == CELLS
        times.append(time.perf_counter() - begin)
    record_property("frontier_seconds", statistics.median(times))
    assert first.seconds < 60
    assert again.seconds < 3
    assert statistics.median(times) < 0.3
