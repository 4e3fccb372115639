"""Tuned recipes: laid over the workload's, refused for what they were not found for, noted on tasks."""

from pathlib import Path
from typing import Any

import pytest

from harness.plan.plan import Plan, make_plan
from harness.plan.sweep_file import find_sweep, read_sweep
from harness.plan.tuned_recipe import parse_tuned, read_recipe_file
from workloads.errors import SpecError

FILE = """
[tuning]
name = "fair"
workload = "digits-linear"
workload_version = "1"
n_train = 718
tuned_at = 718
trials = 16
studies = 3
models = 1
confirm = 3
seed = 1000003
objective = "nonmember_accuracy"
validation_records = 719
priced = false
tune = "abc"

[method.dp-sgd]
learning_rate = { from_epsilon = { "1" = 0.32, "8" = 1.1 }, exact = true, source = "tuned", tried = 48 }
steps = { from_epsilon = { "1" = 20, "8" = 30 }, exact = true, source = "tuned", tried = 48 }

[setting.dp-sgd.2]
learning_rate = { from_epsilon = { "1" = 0.5, "8" = 1.5 }, exact = true, source = "tuned", tried = 48 }

[tuned.dp-sgd]
method_version = "6"
searches = [{ levels = { epsilon = 1 }, scores = [0.7, 0.8, 0.9], taken = 2 }]

[method.pd-sgd]
steps = { at_levels = [{ levels = { sigma = 0.1 }, value = 9 }], source = "tuned", tried = 48 }
[tuned.pd-sgd]
method_version = "3"
"""
DP = {"workload": "digits-linear", "method": "dp-sgd", "epsilon": [1, 8], "batch_size": 64}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "fair.tuned.toml"
    file.write_text(FILE)
    return file


def plan(file: Path, *grids: dict[str, Any], **top: Any) -> Plan:
    content = {"grid": list(grids), "recipe": str(file), "models": 1, **top}
    return make_plan(*read_sweep(content, "test"), None)


def refused(file: Path, *grids: dict[str, Any], **top: Any) -> str:
    with pytest.raises(SpecError) as caught:
        plan(file, *grids, **top)
    return str(caught.value)


def test_values_at_each_level_over_the_workloads_recipe(recipe: Path) -> None:
    made = plan(recipe, DP)
    values = [
        (each.params["learning_rate"], each.params["steps"], each.params["clip"]) for each in made.cells
    ]
    assert values == [(0.32, 20, 1.0), (1.1, 30, 1.0)]  # clip by the workload's recipe


def test_the_grid_comes_last(recipe: Path) -> None:
    made = plan(recipe, DP | {"steps": 5})
    assert [each.params["steps"] for each in made.cells] == [5, 5]


def test_a_study_is_a_numbered_setting(recipe: Path) -> None:
    made = plan(recipe, DP | {"epsilon": 1, "setting": [2]})
    assert made.cells[0].params["learning_rate"] == 0.5
    assert "setting 4 of dp-sgd is no study" in refused(recipe, DP | {"setting": 4})


def test_tasks_note_the_tune(recipe: Path) -> None:
    notes = plan(recipe, DP).tasks[0].notes
    assert (notes.tried, notes.tuned_by, notes.tuned_on) == (48, "tune:fair", "validation")
    assert (notes.trials, notes.studies, notes.tune) == (16, 3, "abc")


def test_tasks_note_the_study_that_chose_all_of_their_values(recipe: Path) -> None:
    asked = plan(recipe, DP | {"epsilon": 1, "setting": 2})
    assert asked.tasks[0].notes.study == 2
    values = FILE.split("[method.dp-sgd]")[1].split("[setting")[0]
    recipe.write_text(FILE.replace("[tuned.dp-sgd]", f"[setting.dp-sgd.3]{values}[tuned.dp-sgd]"))
    assert plan(recipe, DP | {"epsilon": 1}).tasks[0].notes.study == 3
    assert plan(recipe, DP | {"epsilon": 1, "steps": 5}).tasks[0].notes.study is None


def test_a_study_without_a_choice_at_these_levels_is_passed_over(recipe: Path) -> None:
    recipe.write_text(
        FILE.replace('learning_rate = { from_epsilon = { "1" = 0.5, ', "learning_rate = { from_epsilon = { ")
    )
    assert plan(recipe, DP | {"epsilon": 1}).tasks[0].notes.study is None


@pytest.mark.parametrize(
    ("grid", "where"),
    [
        ({"epsilon": 1}, None),
        ({"epsilon": 1, "n_train": 400}, "n_train 718"),
        ({"epsilon": 2}, "epsilon 1, 4, 8"),
        ({"epsilon": 2, "n_train": 400}, "epsilon 1, 4, 8 and n_train 718"),
    ],
)
def test_values_of_a_recipe_note_where_they_were_tuned_if_that_is_elsewhere(
    grid: dict[str, Any], where: str | None
) -> None:
    sweep = read_sweep({"grid": [{"workload": "digits-mlp", "method": "dpsur", **grid}], "models": 1}, "test")
    assert make_plan(*sweep, None).tasks[0].notes.tuned_at == where


def test_values_that_the_grid_replaces_are_not_the_tunes(recipe: Path) -> None:
    notes = plan(recipe, DP | {"epsilon": 1, "steps": 5, "learning_rate": 1.0}).tasks[0].notes
    assert notes.tuned_by != "tune:fair" and notes.tune is None


def test_a_method_that_the_file_lacks_is_named(recipe: Path) -> None:
    made = plan(recipe, DP, {"workload": "digits-linear", "method": "sgd"})
    (warning,) = [each for each in made.warnings if "not tuned" in each]
    assert "digits-linear: sgd" in warning
    assert made.tasks[-1].notes.tuned_by == "recipe"


@pytest.mark.parametrize(
    ("change", "grid", "top", "said"),
    [
        (("", ""), {"epsilon": 2}, {}, "tuned at epsilon 1, 8, not at 2"),
        (("", ""), {"n_train": 600}, {}, "tuned for n_train = 718, not 600"),
        (("", ""), {}, {"seed": 1_000_004}, "is that of a study"),
        (('workload_version = "1"', 'workload_version = "0"'), {}, {}, "version 0 of the workload"),
        (('method_version = "6"', 'method_version = "0"'), {}, {}, "version 0 of the method"),
        (('name = "fair"', 'nam = "fair"'), {}, {}, "name: Field required"),
        (("steps =", "stepps ="), {}, {}, "unknown parameter 'stepps'"),
        (("[tuned.dp-sgd]", "[tuned.dpis]"), {}, {}, "[tuned.dp-sgd] is missing"),
        (("[tuning]", "[tunings]"), {}, {}, "has no [tuning]"),
    ],
)
def test_other_things_are_refused(
    recipe: Path, change: tuple[str, str], grid: dict[str, Any], top: dict[str, Any], said: str
) -> None:
    recipe.write_text(FILE.replace(*change))
    assert said in refused(recipe, DP | grid, **top)


def test_other_levels_than_epsilon_are_exact(recipe: Path) -> None:
    pd = {"workload": "digits-linear", "method": "pd-sgd"}
    assert plan(recipe, pd | {"sigma": 0.1}).cells[0].params["steps"] == 9
    assert "tuned at levels sigma=0.1, not at sigma=0.2" in refused(recipe, pd | {"sigma": 0.2})


def test_several_workloads_in_a_file(recipe: Path) -> None:
    head, rest = FILE.split("[method.dp-sgd]", 1)
    body = "[method.dp-sgd]" + rest.split("[method.pd-sgd]")[0]
    one = head.replace("[tuning]", "[[tuning]]")
    parts = [body.replace("[method", f"[workload.{name}.method") for name in ("digits-linear", "digits-mlp")]
    parts = [
        each.replace("[setting", f"[workload.{name}.setting").replace("[tuned", f"[workload.{name}.tuned")
        for name, each in zip(("digits-linear", "digits-mlp"), parts, strict=True)
    ]
    recipe.write_text("\n".join([one, one.replace("digits-linear", "digits-mlp"), *parts]))
    tuned = parse_tuned(read_recipe_file(recipe))
    assert tuned.find("digits-mlp", "dp-sgd") is not None
    assert tuned.find("digits-mlp", "sgd") is None
    made = plan(recipe, DP | {"workload": ["digits-linear", "digits-mlp"]})
    assert {each.params["learning_rate"] for each in made.cells} == {0.32, 1.1}


def test_a_sweeps_recipe_lies_beside_it(recipe: Path) -> None:
    sweep = recipe.with_name("fair.toml")
    sweep.write_text('recipe = "fair.tuned.toml"\n[[grid]]\nworkload = "digits-linear"\nmethod = "sgd"\n')
    parsed, problems = read_sweep(*find_sweep(str(sweep)))
    assert problems == []
    assert parsed.recipe is not None and parsed.recipe.texts == (FILE,)


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    _, problems = read_sweep({"recipe": str(tmp_path / "none.toml"), "grid": [DP]}, "test")
    assert "cannot be read" in problems[0]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"trials": 0}, "trials = 0"),
        ({"trials": True}, "trials = True"),
        ({"studys": 3}, "did you mean 'studies'"),
        ({"max_gap": 2}, "max_gap = 2"),
        ({"search": {"dp-sgd": {"clip": 1.0}}}, "clip = 1.0: give a list"),
        ({"search": [1]}, "tune.search"),
        ("yes", "give a table"),
    ],
)
def test_mistakes_in_the_table_of_a_sweep(table: Any, said: str) -> None:
    _, problems = read_sweep({"grid": [DP], "tune": table}, "test")
    assert any(said in each for each in problems)


def test_the_seed_of_a_tune_is_far_from_the_sweeps() -> None:
    sweep, _ = read_sweep({"grid": [DP], "seed": 5, "tune": {"studies": 2}}, "test")
    assert sweep.tune is not None
    assert sweep.tune.first_seed(sweep.seed) == 1_000_008
    with pytest.raises(SpecError) as caught:
        sweep.tune.overridden(seed=4).first_seed(5)
    assert caught.value.field == "seed" and caught.value.value == 5
