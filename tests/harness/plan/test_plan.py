"""The plan: resolved cells, solved noise, dependencies, and what the store already has."""

import math
from pathlib import Path
from typing import Any

import pytest

from harness.accounting import price
from harness.plan.given_names import by_method
from harness.plan.plan import Plan, make_plan
from harness.plan.sweep_file import from_options, read_sweep
from harness.spec import Json
from harness.store import Store
from harness.store.forgotten import Forgotten, write_forgotten
from harness.store.result import Result, parse_result
from methods import family as methods
from workloads.errors import SpecError

SGD = {"workload": "digits-linear", "method": "sgd"}
DP = {"workload": "digits-linear", "method": "dp-sgd", "epsilon": 4, "steps": 20}
OWN = {"batch_size": 32, "learning_rate": 0.5}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def plan(*grids: dict[str, Any], store: Store | None = None, **top: Any) -> Plan:
    return make_plan(*read_sweep({"grid": list(grids), **top}, "test"), store)


def problems(*grids: dict[str, Any], **top: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        plan(*grids, **top)
    return caught.value.problems


def result(key: str, status: str = "done", reason: str | None = None, kind: str = "train") -> Result:
    document: Json = {
        "key": key,
        "kind": kind,
        "status": status,
        "reason": reason,
        "message": None,
        "traceback": None,
        "artefacts": {},
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T00:00:00+00:00",
        "wall_seconds": 0.0,
        "provenance": {},
    }
    return parse_result(document)


def test_a_cell_holds_every_parameter_resolved() -> None:
    cell = plan(SGD | {"steps": 7}, models=1).cells[0]
    assert set(cell.params) == set(methods.get("sgd").Params.model_fields)
    assert cell.params["steps"] == 7
    assert cell.n_train == 718


def test_the_recipe_stands_between_the_defaults_and_the_grid() -> None:
    from workloads import family as workloads
    from workloads.recipe import recipe

    workload = workloads.get("digits-linear")
    settings = recipe(workload).settings("sgd", methods.get("sgd").Params.model_fields)
    defaults = methods.get("sgd").Params()
    name = next(name for name, setting in settings.items() if setting.value != getattr(defaults, name))
    assert plan(SGD, models=1).cells[0].params[name] == settings[name].value


@pytest.mark.slow
def test_members_per_model_are_the_grids_to_choose() -> None:
    made = plan(DP | {"n_train": [300, 400]}, models=1)
    assert [cell.n_train for cell in made.cells] == [300, 400]
    noises = [cell.params["noise_multiplier"] for cell in made.cells]
    assert noises[0] > noises[1], "with fewer members each is in more batches"


@pytest.mark.parametrize("wrong", [0, -3, 2.5, "many", True])
def test_members_are_counted_in_whole_numbers(wrong: Any) -> None:
    (reported,) = problems(SGD | {"n_train": wrong})
    assert f"n_train = {wrong!r}" in reported
    assert "1 or more" in reported


@pytest.mark.parametrize(("epochs", "steps"), [(4, 90), (0.5, 12), (1, 23)])
def test_epochs_are_steps_by_members_and_batch(epochs: float, steps: int) -> None:
    grid = SGD | {"epochs": epochs, "batch_size": 32, "n_train": 718}
    (cell,) = plan(grid).cells
    assert cell.params["steps"] == steps
    given = SGD | {"steps": steps, "batch_size": 32, "n_train": 718}
    assert plan(given).cells == (cell,)


@pytest.mark.parametrize("wrong", [0, -1, True, "many", float("inf")])
def test_epochs_are_a_number_above_0(wrong: Any) -> None:
    (reported,) = problems(SGD | {"epochs": wrong})
    assert f"epochs = {wrong!r}: give a number above 0" in reported


def test_epochs_are_given_instead_of_steps_and_to_methods_that_have_some() -> None:
    (twice,) = problems(SGD | {"epochs": 3, "steps": 20})
    assert "give one of the two" in twice
    (without,) = problems(SGD | {"method": "pate", "noise": 1, "epochs": 3})
    assert "the method has no steps of batches of members" in without


def test_an_unknown_numbered_setting_is_refused() -> None:
    (reported,) = problems(SGD | {"setting": 1})
    assert reported.startswith("grid 1 (digits-linear, sgd): setting 1 of sgd is not in the recipe")


@pytest.mark.slow
def test_options_go_to_the_methods_that_have_them() -> None:
    options = from_options("digits-linear", "sgd,dp-sgd", "1,4", 1, None, ["clip=0.5", "steps=9"], 300)
    cells = make_plan(*read_sweep(by_method(options), "test"), None).cells
    assert [cell.label for cell in cells] == ["sgd", "dp-sgd ε=1", "dp-sgd ε=4"]
    assert {(cell.n_train, cell.params["steps"]) for cell in cells} == {(300, 9)}
    assert [cell.params.get("clip") for cell in cells] == [None, 0.5, 0.5]


def test_an_option_that_no_method_has_is_an_error() -> None:
    options = from_options("digits-linear", "sgd,dp-sgd", "1", 1, None, ["clipp=0.5"])
    with pytest.raises(SpecError) as caught:
        make_plan(*read_sweep(by_method(options), "test"), None)
    assert len(caught.value.problems) == 2
    assert "did you mean 'clip'" in "".join(caught.value.problems)


@pytest.mark.slow
def test_noise_is_solved_for_and_stays_below_the_target() -> None:
    cell = plan(DP, models=1).cells[0]
    method = methods.get("dp-sgd")
    params = method.Params(**cell.params)
    event = method.planned(params, cell.n_train)  # type: ignore[attr-defined]
    epsilon = price(event, params.delta).epsilon  # type: ignore[attr-defined]
    assert epsilon is not None
    assert 3.9 < epsilon <= 4
    assert cell.label == "dp-sgd ε=4"


def test_the_shape_of_the_model_is_written_down_and_priced() -> None:
    """The workload's 64 x 10 weights and 10 biases determine the cost of a direction."""
    grid = {"workload": "digits-linear", "method": "dirdp-sgd", "steps": 20, "directions": "1x7"}
    solved, given = (plan(grid | each, models=1).cells[0] for each in ({"epsilon": 4}, {"kappa": 3.0}))
    assert solved.params["directions"] == given.params["directions"] == "1x650"
    method = methods.get("dirdp-sgd")
    event = method.planned(method.Params(**solved.params), solved.n_train)  # type: ignore[attr-defined]
    epsilon = price(event, 1e-5).epsilon
    assert epsilon is not None
    assert 3.9 < epsilon <= 4
    assert plan(grid | {"kappa": 3.0, "granularity": "per_row"}, models=1).cells[0].params["directions"] == (
        "1x10,10x64"
    )


def test_infinite_epsilon_needs_no_noise() -> None:
    assert plan(DP | {"epsilon": math.inf}, models=1).cells[0].params["noise_multiplier"] == 0


def test_every_cell_gets_its_trainings_its_attacks_and_the_blind_check() -> None:
    made = plan(SGD, SGD | {"steps": 9}, models=3, attacks=["loss", "lira", "loss"])
    assert len(made.cells) == 2
    trainings = [task for task in made.tasks if task.kind == "train"]
    attacks = [task for task in made.tasks if task.kind == "attack"]
    assert len(trainings) == 6
    assert sorted(task.attack.name for task in attacks if task.attack) == sorted(
        ["loss", "lira", "rmia", "strongest", "blind"] * 2
    )
    position = {task.key: place for place, task in enumerate(made.tasks)}
    for attack in attacks:
        assert all(position[training] < position[attack.key] for training in attack.needs)


def attacks_of(made: Plan) -> list[str]:
    return [task.attack.name for task in made.tasks if task.attack]


@pytest.mark.parametrize(
    ("models", "unasked"),
    [
        (1, ["loss", "blind"]),
        (2, ["loss", "rmia", "blind"]),
        (3, ["loss", "lira", "rmia", "strongest", "blind"]),
    ],
)
def test_the_declared_attacks_run_on_every_attacked_cell_that_has_models_enough(
    models: int, unasked: list[str]
) -> None:
    assert attacks_of(plan(SGD, models=models, attacks=["population"])) == ["population", *unasked]


@pytest.mark.parametrize("asked", [[], ["blind"], ["attribute-inference"]])
def test_cells_without_a_membership_attack_get_no_declared_attacks(asked: list[str]) -> None:
    made = plan({**SGD, "workload": "tabular-synthetic"}, models=3, attacks=asked)
    assert attacks_of(made) == list(dict.fromkeys([*asked, "blind"]))


def test_the_family_runs_with_default_parameters_beside_other_ones() -> None:
    made = plan(SGD, models=3, attacks=[{"attack": "lira", "mode": "online"}])
    modes = [task.attack_params["mode"] for task in made.tasks if task.attack and task.attack.name == "lira"]
    assert modes == ["online", "bayes"]
    asked = plan(SGD, models=3, attacks=["strongest", "rmia"])
    assert attacks_of(asked) == ["strongest", "rmia", "loss", "lira", "blind"]


def test_an_attack_with_too_few_models_is_refused() -> None:
    (reported,) = problems(SGD, models=2, attacks=["strongest"])
    assert "strongest needs at least 2 shadow models" in reported and "models = 3 or more" in reported


def test_a_cell_given_twice_is_planned_once() -> None:
    assert len(plan(SGD, SGD | {"steps": 9}, SGD, SGD | {"steps": 9.0}, models=2).cells) == 2


def test_more_models_reuse_the_first_ones() -> None:
    few, many = plan(SGD, models=2), plan(SGD, models=4)
    assert {task.key for task in few.tasks if task.kind == "train"} < {task.key for task in many.tasks}


def test_done_tasks_are_not_planned(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    tasks = plan(SGD, models=3, attacks=["lira"]).tasks
    done, diverged, killed, cancelled = (task.key for task in (*tasks[:3], tasks[3]))
    store.publish(result(done))
    store.publish(result(diverged, "failed", "diverged"))
    store.publish(result(killed, "failed", "killed"))
    store.publish(result(cancelled, "failed", "cancelled", "attack"))
    made = plan(SGD, models=3, attacks=["lira"], store=store)
    assert made.done == {done}
    assert set(made.failed) == {diverged}
    open_keys = {task.key for task in made.todo}
    assert {killed, cancelled} <= open_keys
    assert not {done, diverged} & open_keys


def test_a_forgotten_cell_counts_as_done_and_is_named(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    made = plan(SGD, DP | {"epsilon": 8.0}, models=2)
    for task in made.tasks:
        store.publish(result(task.key, kind=task.kind))
    forgotten = made.cells[0]
    write_forgotten(store, Forgotten(key=forgotten.key, kind="cell", forgotten="2026-01-02T03:04:05+00:00"))
    again = plan(SGD, DP | {"epsilon": 8.0}, models=2, store=store)
    assert again.todo == []
    (warning,) = again.warnings
    assert f"forget --undo {forgotten.key[:12]}" in warning and made.cells[1].key[:12] not in warning


def test_an_attack_without_its_models_waits_for_them(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    made = plan(SGD, models=3, attacks=["lira"])
    lira = next(task for task in made.tasks if task.attack and task.attack.name == "lira")
    store.publish(result(made.tasks[0].key, "failed", "diverged"))
    store.publish(result(lira.key, "failed", "upstream", "attack"))
    assert lira.key in plan(SGD, models=3, attacks=["lira"], store=store).failed
    store.reset(made.tasks[0].key)
    assert lira in plan(SGD, models=3, attacks=["lira"], store=store).todo


def test_planning_writes_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    plan(SGD, models=2, store=store)
    assert not store.path.exists()


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, "many", -math.inf])
def test_an_invalid_epsilon(epsilon: Any) -> None:
    reported = problems(DP | {"epsilon": epsilon})
    assert len(reported) == 1
    assert "epsilon = " in reported[0]
    assert "grid 1 (digits-linear, dp-sgd)" in reported[0]


def test_all_unknown_names_come_at_once() -> None:
    """Before anything is loaded, and so before all other problems."""
    reported = problems(
        {"workload": "digits-mpl", "method": "sgd"},
        {"workload": "digits-mlp", "method": "dp-sdg"},
        SGD | {"epsilon": 1},
        DP | {"epsilon": 0},
        SGD | {"method": [["sgd"]]},
        attacks=["lirra", {"attack": "loss", "wings": 2}, {"attack": "lira", "shadows": "sdg"}],
    )
    for each, part in zip(
        reported,
        (
            "unknown attack 'lirra', did you mean 'lira'?",
            "attack loss: unknown parameter 'wings'",
            "attack lira: shadows: unknown method 'sdg', did you mean 'sgd'?",
            "grid 1: unknown workload 'digits-mpl', did you mean 'digits-mlp'?",
            "grid 2: unknown method 'dp-sdg', did you mean 'dp-sgd'?",
            "grid 3 (digits-linear, sgd): unknown parameter 'epsilon'",
            "grid 5: unknown method '['sgd']', did you mean 'sgd'?",
        ),
        strict=True,
    ):
        assert part in each


def test_excluded_points_are_not_looked_up() -> None:
    both = {"workload": "digits-linear", "method": ["sgd", "dp-sgd"], "epsilon": [8], "steps": 9}
    assert problems(both)
    assert len(plan(both | {"exclude": [{"method": "sgd"}]}, models=2).cells) == 1


def test_all_problems_of_all_grids_come_at_once() -> None:
    reported = "\n".join(
        problems(
            DP | {"epsilon": 0},
            DP | {"method": "dpis", "noise_multiplier": 1.0},
            DP | {"noise_multiplier": 1.0, "steps": 9},
            DP | {"batch_size": 10_000},
            attacks=[{"attack": "lira", "mode": "sideways"}],
        )
    )
    for part in (
        "grid 1 (digits-linear, dp-sgd): epsilon = 0",
        "grid 2 (digits-linear, dpis): noise_multiplier is solved from epsilon: give one of the two",
        "grid 3 (digits-linear, dp-sgd): epsilon, noise_multiplier and steps are given: give two",
        "grid 4 (digits-linear, dp-sgd): batch_size",
        "attack lira: mode = 'sideways'",
    ):
        assert part in reported, part


def test_an_attack_that_needs_shadows_refuses_a_single_model() -> None:
    (reported,) = problems(SGD, models=1, attacks=["lira"])
    assert "needs at least 2 shadow models" in reported
    assert "models = 3 or more" in reported
    plan(SGD, models=1, attacks=["loss"])


@pytest.mark.slow
def test_only_tuned_values_that_are_used_count_as_tried_before() -> None:
    """The recipe's batch size, steps and learning rate were chosen among 18 configurations."""
    by_recipe = {key: value for key, value in DP.items() if key != "steps"}
    tasks = [plan(grid, models=1).tasks[0] for grid in (by_recipe, DP, DP | OWN)]
    assert [task.notes.tried for task in tasks] == [18, 18, None]
    assert [task.notes.tuned_on for task in tasks] == ["validation", "validation", None]


@pytest.mark.slow
def test_configurations_differ_by_what_is_chosen_and_not_by_level_or_engine() -> None:
    def configurations(**axis: list[Any]) -> int:
        cells = plan(DP | axis, models=1)
        return len({task.notes.configuration for task in cells.tasks if task.kind == "train"})

    assert configurations(learning_rate=[0.5, 1.0], clip=[0.1, 1.0]) == 4
    assert configurations(epsilon=[1, 4, 8]) == 1
    assert configurations(engine=["bookkeeping", "opacus"], physical_batch_size=[16, 32]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delta", "n_train", "warned"),
    [(1e-5, 718, False), (1.39e-3, 718, False), (1.4e-3, 718, True), (0.1, 9, False), (0.2, 5, True)],
)
def test_a_delta_without_protection_is_a_warning(delta: float, n_train: int, warned: bool) -> None:
    grid = DP | {"delta": delta, "n_train": n_train, "batch_size": 4}
    found = plan(grid | {"epsilon": [2, 4]}, SGD, models=1).warnings
    assert len(found) == warned, "once for all epsilons, and none for what has no delta"
    for text in found:
        assert f"delta = {delta:g} is not below 1 / n_train = 1 / {n_train}" in text
    assert plan(grid | {"epsilon": math.inf}, models=1).warnings == ()


def test_another_seed_is_another_experiment() -> None:
    one, other = plan(SGD, models=1, seed=0), plan(SGD, models=1, seed=1)
    assert one.cells[0].key != other.cells[0].key
