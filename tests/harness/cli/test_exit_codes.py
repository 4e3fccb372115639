"""Exit codes of run and status: 1 for a failed task and for an audit that proves more than the price."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.plan.given_names import by_method
from harness.plan.plan import make_plan
from harness.plan.sweep_file import from_options, read_sweep
from harness.spec import Json, Task
from harness.store import Store
from tests.harness.simulated import leakage, publish, training

ASKED: dict[str, Any] = {
    "workload": "digits-linear",
    "method": "dp-sgd",
    "epsilon": "1",
    "models": 1,
    "attack": "audit-one-run",
    "settings": ["canary=gradient", "canaries=10", "steps=5"],
}
OPTIONS = [
    *("--workload", "digits-linear", "--method", "dp-sgd", "--epsilon", "1", "--models", "1"),
    *("--attack", "audit-one-run", "--set", "canary=gradient", "--set", "canaries=10", "--set", "steps=5"),
]


def outcome(task: Task, alarm: bool) -> Json:
    if task.kind == "train":
        return training(task, accuracy=0.1)
    if task.attack is None or not task.attack.name.startswith("audit"):
        return leakage(0.5, valid=True)
    counts = {"canaries": 10, "copies": 1, "trials": 10, "guesses": 9, "correct": 9, "threat": None}
    bound = {"epsilon": 9.0, "epsilon_priced": 1.0, "confidence": 0.95, "delta": 1e-5}
    return {"audit": {**counts, **bound, "alarm": alarm, "message": "epsilon is at least 9"}}


def filled(path: Path, alarm: bool, failed: bool = False) -> Path:
    """A store in which every task of the sweep has ended."""
    store = Store.open(path, create=True)
    for task in make_plan(*read_sweep(by_method(from_options(**ASKED)), "ad-hoc"), store).tasks:
        broken = failed and task.kind == "train"
        publish(store, task, {"reason": "error", "message": "no"} if broken else outcome(task, alarm))
    return path


def call(*options: str) -> Any:
    return CliRunner().invoke(app.app, list(options))


@pytest.mark.parametrize(("alarm", "failed", "code"), [(False, False, 0), (True, False, 1), (False, True, 1)])
def test_the_end_of_a_run(tmp_path: Path, alarm: bool, failed: bool, code: int) -> None:
    store = filled(tmp_path / "store", alarm, failed)
    done = call("run", *OPTIONS, "--store", str(store))
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    (name,) = Store.open(store).sweep_names()
    status = call("status", name, "--store", str(store))
    assert status.exit_code == (1 if alarm else 0)
    assert call("status", "--store", str(store)).exit_code == 0, "an overview of all sweeps"
