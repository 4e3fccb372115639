"""No step waits for the device more often than its method must: budgets.py."""

import importlib
from typing import Any

import pytest
import torch

import methods
from harness.checks.method_contract import make_records, problem_on, quick_params
from tests.second_device.budgets import BUDGETS
from tests.second_device.device import lines
from tests.second_device.fixtures import on_second
from tests.second_device.waits import HeardRun


def test_every_method_has_a_budget() -> None:
    assert BUDGETS.keys() == set(methods.family.names())


@pytest.mark.slow
@on_second
@pytest.mark.parametrize("name", BUDGETS)
def test_a_step_waits_no_more_than_its_budget(
    name: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget, method, run = BUDGETS[name], methods.family.get(name), HeardRun("seed", device)
    if budget.unit:
        count_calls(budget.unit, run, monkeypatch)
    method.train(make_records(40), problem_on(device), quick_params(method, 40), run)
    later = [step for step in run.heard if step.number > 0]
    assert later
    for step in later:
        allowed = budget.each * step.units
        assert len(step.waits) <= allowed, f"{name}, {step.phase} {step.number}:\n{lines(step.waits)}"
    if budget.unit:  # else the unit is nothing that the method does
        assert any(step.units for step in later)


def count_calls(unit: str, run: HeardRun, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, path = unit.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    plain = getattr(owner, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        run.count()
        return plain(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)
