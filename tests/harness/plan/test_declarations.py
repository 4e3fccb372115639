"""Declarations of methods: roles, the solved parameter, what makes another configuration."""

from dataclasses import replace
from typing import Any, ClassVar

import pytest

import methods
from harness.plan.declarations import declared_by, named, role_of, solved_for, uncounted
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Declared, Notes, Task, read_task
from methods.base import Calibrated, Extensible, Role
from methods.dp_sgd import DpSgd
from methods.sgd import Sgd
from workloads.errors import BenchError


def planned(**grid: Any) -> list[Task]:
    sweep = {"name": "s", "models": 2, "attacks": ["loss"], "grid": [{"workload": "digits-linear", **grid}]}
    return list(make_plan(*read_sweep(sweep, "s"), None).tasks)


class Heir(Sgd):
    """A plug-in that builds on ours and inherits its role."""


def with_members(monkeypatch: pytest.MonkeyPatch, own: bool, **added: Any) -> None:
    names = methods.family.own | (added.keys() if own else set())
    monkeypatch.setattr(methods.family, "members", methods.family.members | added)
    monkeypatch.setattr(methods.family, "own", frozenset(names))


def test_each_role_has_one_method() -> None:
    assert (named("plain-baseline"), named("private-baseline")) == ("sgd", "dp-sgd")
    without = [name for name in methods.family.names() if role_of(name) is None]
    assert len(without) == len(methods.family.names()) - 2


def test_a_plug_in_takes_no_role(monkeypatch: pytest.MonkeyPatch) -> None:
    with_members(monkeypatch, own=False, heir=Heir())
    assert named("plain-baseline") == "sgd"
    assert role_of("heir") is None


def test_two_methods_of_one_role_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    role: Role = "plain-baseline"
    with_members(monkeypatch, own=True, heir=Heir())
    with pytest.raises(BenchError, match="heir, sgd"):
        named(role)


class Scaled(DpSgd):
    """A method whose solved parameter has another name."""

    free: ClassVar[str] = "scale"


class Longer(DpSgd):
    extent: ClassVar[str] = "steps"


def test_what_is_solved_for() -> None:
    epsilon = {"epsilon": 1.0}
    plain: Any = Sgd()
    scaled: Any = Scaled()
    longer: Any = Longer()
    assert solved_for(plain, epsilon) is None
    assert solved_for(scaled, epsilon) == "scale"
    assert solved_for(scaled, {"epsilon": None}) is None
    assert solved_for(longer, epsilon, ["epsilon"]) == "noise_multiplier"
    assert solved_for(longer, epsilon, ["epsilon", "noise_multiplier"]) == "steps"


@pytest.mark.parametrize("name", methods.family.names())
def test_the_privacy_budget_and_the_noise_make_no_other_configuration(name: str) -> None:
    method = methods.family.get(name)
    found = uncounted(method)
    assert {"epsilon", "delta"} <= found
    assert not isinstance(method, Calibrated) or method.free in found
    assert not isinstance(method, Extensible) or method.extent not in found
    assert "batch_size" not in found


def test_a_task_records_what_its_method_declared() -> None:
    for task in planned(method="dp-sgd", epsilon=4.0, steps=20):
        assert task.notes.declared == Declared("private-baseline", "noise_multiplier")
        assert task.notes.attack_defaults == (None if task.kind == "train" else True)
        assert read_task(task.file()).notes == task.notes


def test_a_solved_number_of_releases_is_recorded() -> None:
    task = planned(method="pate", epsilon=8.0, noise=40.0, teachers=10)[0]
    assert task.notes.declared == Declared(None, "queries")
    assert declared_by("pate", task.cell.params).solved == "noise"


def test_a_plan_knows_what_was_solved_for() -> None:
    grids: list[dict[str, Any]] = [
        {"workload": "digits-linear", "method": name} for name in ("sgd", "dp-sgd")
    ]
    grids[1] |= {"epsilon": 4.0}
    plan = make_plan(*read_sweep({"name": "s", "models": 1, "grid": grids}, "s"), None)
    plain, private = plan.cells
    assert plan.solved == {private.key: "noise_multiplier"}
    assert plain.key != private.key


def test_notes_are_no_part_of_a_key() -> None:
    for task in planned(method="dp-sgd", epsilon=4.0, steps=20):
        bare = replace(task, notes=Notes())
        assert (bare.key, bare.cell.key) == (task.key, task.cell.key)


def test_parameters_that_were_given_to_an_attack_are_no_defaults() -> None:
    grid = [{"workload": "digits-linear", "method": "sgd"}]
    attacks = ["lira", {"attack": "lira", "queries": 2}]
    sweep = {"name": "s", "models": 4, "attacks": attacks, "grid": grid}
    tasks = make_plan(*read_sweep(sweep, "s"), None).tasks
    found = {task.attack_params.get("queries"): task.notes.attack_defaults for task in tasks}
    assert (found[1], found[2]) == (True, False)
