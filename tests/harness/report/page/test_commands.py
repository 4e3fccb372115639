"""The command of a point: read by the command line's parser, it plans the same cell."""

import json
import shlex
import tomllib
from typing import Any

import pytest
import typer

import methods
from harness.cli.app import app
from harness.plan.given_names import by_method
from harness.plan.plan import Plan, make_plan
from harness.plan.sweep_file import from_options, read_sweep
from harness.report.page.commands import command_of
from harness.spec import Task, spelled
from methods.base import Extensible
from tests.harness import scaled

GIVEN: dict[str, dict[str, Any]] = {"pd-sgd": {"sigma": 0.1, "gamma": 2.0, "T": 2}}
"""Parameters that have no default on the workload below."""
LISTS = {"private-search"}
"""Methods with lists among their parameters."""
EXTENSIBLE = [name for name, each in methods.family.members.items() if isinstance(each, Extensible)]


def plan_of(grid: dict[str, Any], attack: Any = "loss", **changes: Any) -> Plan:
    whole = {"workload": "digits-linear", **grid}
    return make_plan(*read_sweep({"models": 4, "attacks": [attack], "grid": [whole], **changes}, "one"), None)


def row_of(plan: Plan) -> dict[str, Any]:
    """The row of the view that the plan's one cell and first attack would give."""
    (cell,) = plan.cells
    task = next(task for task in plan.tasks if task.kind == "attack")
    assert task.attack is not None
    shadows = {"shadows": task.shadows.method.name} if task.shadows else {}
    return {
        "cell": cell.key,
        "workload": cell.workload.name,
        "method": cell.method.name,
        "params": json.loads(json.dumps(spelled(cell.spec()["params"]))),
        "n_train": cell.n_train,
        "seed": cell.seed,
        "canary": cell.canary,
        "canaries": cell.canaries,
        "attack": task.attack.name,
        "attack_params": {**json.loads(json.dumps(spelled(dict(task.attack_params)))), **shadows},
        "attack_defaults": task.notes.attack_defaults,
        "solved": task.notes.declared and task.notes.declared.solved,
        "models": task.models,
    }


def typed(command: str) -> Plan:
    """What the command plans: as options, or as the sweep file that it writes first."""
    if not command.startswith("cat"):
        words = shlex.split(command)
        assert words[:2] == ["privbench", "run"]
        run = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
        given = run.make_context("run", words[2:]).params
        names = ("workload", "method", "epsilon", "models", "attack", "settings", "n_train")
        return make_plan(*read_sweep(by_method(from_options(*(given[name] for name in names))), "x"), None)
    first, *lines, end, last = command.splitlines()
    assert (first, end, last) == ("cat > point.toml <<'TOML'", "TOML", "privbench run point.toml")
    return make_plan(*read_sweep(tomllib.loads("\n".join(lines)), "point"), None)


def attacked(plan: Plan) -> list[Task]:
    return [task for task in plan.tasks if task.kind == "attack"]


def check(plan: Plan) -> str:
    """The command of the plan's point, after checking that it plans the same tasks."""
    command = command_of(row_of(plan))
    again = typed(command)
    assert [cell.key for cell in again.cells] == [cell.key for cell in plan.cells]
    assert {task.key for task in attacked(again)} == {task.key for task in attacked(plan)}
    return command


@pytest.mark.parametrize("name", methods.family.names())
def test_every_method_is_rebuilt(name: str) -> None:
    method = methods.family.get(name)
    target = {"epsilon": 4.0} if "epsilon" in method.Params.model_fields else {}
    command = check(plan_of({"method": name, **target, **GIVEN.get(name, {})}))
    if name in LISTS:  # options cannot express them
        assert f'method = ["{name}"]' in command and "epsilon = [4]\n" in command
        return
    assert command.startswith(f"privbench run --workload digits-linear --method {name} ")
    assert (" --epsilon 4 " in command) == bool(target)


@pytest.mark.parametrize("name", EXTENSIBLE)
def test_a_number_of_releases_that_was_solved_for_is_left_out(name: str) -> None:
    method = methods.family.get(name)
    assert isinstance(method, Extensible)
    plan = plan_of({"method": name, "epsilon": 4.0, method.free: 40.0, **GIVEN.get(name, {})})
    command = check(plan)
    assert f"--set {method.free}=40" in command
    assert f"{method.extent}=" not in command


@pytest.mark.parametrize("given", [{"epsilon": 4.0}, {"scale": 1.25}, {"epsilon": float("inf")}])
def test_a_plug_in_is_rebuilt_whatever_its_free_parameter_is_called(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods.family, "members", methods.family.members | {"scaled": scaled.method})
    command = check(plan_of({"method": "scaled", **given}))
    assert ("--set scale=" in command) == ("scale" in given)


def test_an_attack_of_unknown_parameters_is_stated_in_a_file() -> None:
    row = row_of(plan_of({"method": "sgd"}))
    assert command_of(row).startswith("privbench run")
    assert command_of(row | {"attack_defaults": None}).startswith("cat > point.toml")


def test_noise_given_directly_is_stated() -> None:
    assert "--set noise_multiplier=1.5" in check(plan_of({"method": "dp-sgd", "noise_multiplier": 1.5}))


def test_no_noise_at_all_is_an_infinite_epsilon() -> None:
    assert "--epsilon inf" in check(plan_of({"method": "dp-sgd", "epsilon": float("inf")}))


def test_canaries_and_members_are_stated() -> None:
    command = check(plan_of({"method": "sgd", "n_train": 100, "canary": "mislabelled", "canaries": 5}))
    assert "--n-train 100" in command
    assert command.endswith("--set canary=mislabelled --set canaries=5")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"seed": 7}, "seed = 7"),
        ({"attack": {"attack": "rmia", "gamma": 2.0}}, "gamma = 2"),
        ({"attack": {"attack": "reference", "shadows": "sgd"}}, 'shadows = "sgd"'),
    ],
)
def test_what_no_option_can_express_goes_into_a_file(changes: dict[str, Any], line: str) -> None:
    command = check(plan_of({"method": "dp-sgd", "epsilon": 4.0}, **changes))
    assert command.startswith("cat > point.toml")
    assert line in command


def test_no_name_breaks_out_of_its_argument_or_its_file(row: Any) -> None:
    name = "x'; rm -rf / #\nTOML\n\"$(id)`id`"
    one = row(workload=name, method=name, attack=name, attack_defaults=False, seed=0, params={name: name})
    assert name in shlex.split(command_of(one | {"attack_defaults": True, "params": {"lr": name}}))
    lines = command_of(one).splitlines()
    assert lines.count("TOML") == 1
    assert tomllib.loads("\n".join(lines[1 : lines.index("TOML")]))["grid"][0]["workload"] == [name]
