"""examples/audit_a_store.py, run as a script on a store whose bounds hold, and on one where they do not."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.results.collect import collect
from harness.spec import Task
from harness.store import Store
from tests.harness.simulated import MODELS, attack, cells, leakage, publish, training

SCRIPT = Path(__file__).resolve().parents[2] / "examples/audit_a_store.py"
AUDIT: dict[str, Any] = {
    "canaries": 100,
    "copies": 1,
    "trials": 100,
    "guesses": 40,
    "correct": 30,
    "threat": "black box",
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """`sgd` leaks; `dp-sgd` at epsilon 1 is attacked without success."""
    store = Store.open(tmp_path / "store", create=True)
    for cell, auc in zip(cells("digits-mlp")[:2], (0.6, 0.03), strict=True):
        for index in range(MODELS):
            task = Task("train", cell, index=index)
            publish(store, task, training(task, 0.8))
        publish(store, attack(cell, "strongest"), leakage(auc))
        publish(store, attack(cell, "blind"), leakage(0.5, valid=True, message="looked"))
    return store


def audit(store: Store) -> "subprocess.CompletedProcess[str]":
    collect(store.path)
    command = [sys.executable, str(SCRIPT), str(store.path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_cell_that_leaks_and_one_that_does_not(store: Store) -> None:
    done = audit(store)
    assert done.returncode == 0, done.stderr
    private, plain = (line for line in done.stdout.splitlines() if "digits-mlp" in line)
    assert plain.endswith(" leaks")
    assert private.endswith("no leak seen at 1 % FPR")


@pytest.mark.slow
def test_a_proof_above_the_price_fails(store: Store) -> None:
    private = cells("digits-mlp")[1]
    above = {"delta": 1e-5, "epsilon": 1.5, "epsilon_priced": 1.0, "confidence": 0.95, "alarm": True}
    publish(
        store, attack(private, "audit-one-run"), {"audit": AUDIT | above | {"message": "above the price"}}
    )
    done = audit(store)
    assert done.returncode == 1
    assert "ABOVE ITS BOUND" in done.stdout
