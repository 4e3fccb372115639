"""Which methods get public records, and that no model is evaluated on them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

import methods
import workloads
from harness.jobs.setup import Setup
from harness.jobs.train import train
from harness.plan.plan import make_plan
from harness.plan.public_records import find_lack, public_records
from harness.plan.sweep_file import read_sweep
from harness.store.outcomes import Training
from workloads.base import Public
from workloads.errors import SpecError

SMALL = {"noise": 5.0, "teachers": 5, "queries": 20, "teacher_steps": 3, "steps": 3}


def test_only_methods_that_need_them_get_them() -> None:
    digits = workloads.family.get("digits-linear")
    given = public_records(digits, methods.family.get("pate"))
    assert isinstance(digits, Public)
    assert given is not None
    assert torch.equal(given.x, digits.public().x)
    assert public_records(digits, methods.family.get("dp-sgd")) is None


def test_a_workload_without_any_is_refused_by_name() -> None:
    synthetic, pate = workloads.family.get("purchase100-synthetic"), methods.family.get("pate")
    assert find_lack(synthetic, methods.family.get("sgd")) is None
    with pytest.raises(SpecError, match=r"purchase100-synthetic declares none; give one of: .*digits-mlp"):
        public_records(synthetic, pate)


def test_public_records_are_not_test_records(tmp_path: Path) -> None:
    grid: dict[str, Any] = {"workload": "digits-linear", "method": "pate", **SMALL}
    task = make_plan(*read_sweep({"grid": [grid], "models": 1}, "test"), None).tasks[0]
    made = train(task, torch.device("cpu"), tmp_path, lambda: False)
    digits = workloads.family.get("digits-linear")
    signals, test = load(made.artefacts["signals.safetensors"]), digits.test()
    assert isinstance(digits, Public)
    assert len(signals["test_logits"]) == len(test) - len(digits.public()) == 180
    assert torch.equal(signals["test_labels"], test.y[1::2])
    right = signals["test_logits"].argmax(1) == signals["test_labels"]
    assert isinstance(made.outcome, Training)
    assert made.outcome.metrics.test_accuracy == pytest.approx(float(right.double().mean()))


def test_a_plan_refuses_a_method_without_public_records_and_attacks_read_the_same_test_records() -> None:
    grid: dict[str, Any] = {"workload": "tabular-synthetic", "method": "pate", **SMALL}
    with pytest.raises(SpecError, match=r"needs public records for the queries .* tabular-synthetic"):
        make_plan(*read_sweep({"grid": [grid], "models": 1}, "test"), None)
    able = grid | {"workload": "digits-linear"}
    task = make_plan(*read_sweep({"grid": [able], "models": 1}, "test"), None).tasks[0]
    setup = Setup(task.cell, task.index, torch.device("cpu"))
    assert setup.public is not None and len(setup.records.test) == 180
