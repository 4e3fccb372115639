"""A worker loads accountants and statistics only for tasks that use them."""

import gc
import io
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from harness.jobs import loop
from harness.spec import Cell, Plugin, Task
from harness.store import Store

HEAVY = {
    *("scipy.stats", "scipy.signal", "scipy.optimize", "scipy.integrate", "sklearn", "opacus", "lightgbm"),
    *("pandas", "duckdb", "torch._dynamo", "torch._inductor", "sympy", "methods.pate"),
}


def loaded(*words: str) -> set[str]:
    """Run a worker; the modules it imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-P", "-m", "harness.jobs", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^import time:.*\|\s+(\S+)$", done.stderr, re.MULTILINE)
    assert "torch" in found, done.stderr
    return set(found)


@pytest.mark.slow
def test_a_worker_starts_without_them(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    assert loaded(str(store.path), "-") & HEAVY == set()


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam"}], ids=["sgd", "adam"])
@pytest.mark.parametrize("workload", ["shape-linear-768x10", "digits-linear"])
def test_a_plain_training_needs_none_of_them(
    tmp_path: Path, workload: str, optimizer: dict[str, object]
) -> None:
    store = Store.open(tmp_path / "store", create=True)
    params = {"steps": 3, "batch_size": 8, "learning_rate": 0.1, **optimizer}
    task = Task("train", Cell(Plugin(workload, "1"), 64, Plugin("sgd", "3"), params, seed=0))
    store.add(task)
    modules = loaded(str(store.path), task.key)
    result = store.result(task.key)
    assert result is not None
    assert result.done, result.message
    assert modules & HEAVY == set()


@pytest.mark.parametrize("imports", [True, False])
def test_what_a_task_imports_is_not_searched_for_garbage_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, imports: bool
) -> None:
    def run_task(store: Store, key: str, stop: loop.Stop) -> loop.Status:
        if imports:
            monkeypatch.setitem(sys.modules, "imported_by_a_task", ModuleType("imported_by_a_task"))
        return "done"

    monkeypatch.setattr(loop, "run_task", run_task)
    monkeypatch.setattr(sys, "stdin", io.StringIO("key\n"))
    before = gc.get_freeze_count()
    try:
        loop.serve(Store.open(tmp_path / "store", create=True), loop.Stop())
        assert (gc.get_freeze_count() > before) is imports
    finally:
        gc.unfreeze()
