"""A worker loads accountants and statistics only for tasks that use them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.spec import Cell, Plugin, Task
from harness.store import Store

HEAVY = {"scipy.stats", "scipy.signal", "scipy.optimize", "sklearn", "opacus", "lightgbm", "pandas", "duckdb"}


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
def test_a_plain_training_needs_none_of_them(tmp_path: Path) -> None:
    """On random records: the digits are scikit-learn's."""
    store = Store.open(tmp_path / "store", create=True)
    params = {"steps": 3, "batch_size": 8, "learning_rate": 0.1}
    task = Task("train", Cell(Plugin("shape-linear-768x10", "1"), 64, Plugin("sgd", "3"), params, seed=0))
    store.add(task)
    modules = loaded(str(store.path), task.key)
    result = store.result(task.key)
    assert result is not None
    assert result.done, result.message
    assert modules & HEAVY == set()
