"""Recipes: where they are found, which settings they give, and what they refuse."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from workloads.base import Workload
from workloads.errors import SpecError
from workloads.recipe import Recipe, Setting, Tuning, recipe, tuning

GOOD = """
[default]
batch_size = { value = 64, source = "ours", note = "a tenth" }
learning_rate = { value = 0.1, source = "ours" }
[method.dp-sgd]
learning_rate = { value = 2.0, source = "tuned", tried = 12 }
clip = { value = 1, source = "paper" }
steps = { value = 10, source = "tuned", tried = 8 }
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Workload:
    """A workload of another package, in its own folder."""
    (tmp_path / "theirs.py").write_text("class Theirs:\n    name = 'theirs'\n")
    (tmp_path / "recipes").mkdir()
    spec = importlib.util.spec_from_file_location("theirs", tmp_path / "theirs.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules["theirs"] = module
    spec.loader.exec_module(module)
    workload: Workload = module.Theirs()
    return workload


def write(folder: Path, text: str) -> None:
    (folder / "recipes" / "theirs.toml").write_text(text)


def test_a_recipe_is_found_beside_the_workload(elsewhere: Workload, tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    found = recipe(elsewhere).settings(
        "dp-sgd", has=["batch_size", "learning_rate", "clip", "steps", "other"]
    )
    assert {name: setting.value for name, setting in found.items()} == {
        "batch_size": 64,
        "learning_rate": 2.0,
        "clip": 1,
        "steps": 10,
    }
    assert found["batch_size"] == Setting(value=64, source="ours", note="a tenth")
    assert isinstance(found["clip"].value, int), "numbers keep their kind"


def test_a_default_the_method_lacks_is_passed_over(elsewhere: Workload, tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert set(recipe(elsewhere).settings("sgd", has=["batch_size"])) == {"batch_size"}


def test_a_setting_of_its_own_that_the_method_lacks_is_an_error(elsewhere: Workload, tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    with pytest.raises(SpecError) as caught:
        recipe(elsewhere).settings("dp-sgd", has=["learning_rates"])
    assert len(caught.value.problems) == 3
    assert "did you mean 'learning_rates'" in caught.value.problems[0]


def test_without_a_file_the_recipe_is_empty(elsewhere: Workload) -> None:
    assert recipe(elsewhere) == Recipe()
    assert recipe(elsewhere).settings("sgd", has=["steps"]) == {}


def test_tuning_is_counted_once_per_search(elsewhere: Workload, tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    settings = recipe(elsewhere).settings("dp-sgd", has=["learning_rate", "steps", "clip", "batch_size"])
    assert tuning(settings.values()) == Tuning(12, "recipe", "validation")
    assert tuning([settings["steps"]]).tried == 8, "a value that was overridden does not count"
    assert tuning([]) == Tuning()


def test_a_value_that_a_paper_tuned_on_test_data_is_marked() -> None:
    paper = Setting(value=1, source="paper", tuned_on="test")
    assert tuning([paper]) == Tuning(None, "paper", "test")
    with pytest.raises(ValueError, match="tuned_on"):
        Setting(value=1, source="ours", tuned_on="test")


def test_all_mistakes_are_reported_at_once(elsewhere: Workload, tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [default]
        steps = { value = 10, source = "hearsay" }
        batch_size = { value = 10, source = "ours", tried = 3 }
        clip = { value = 10, source = "tuned" }
        learning_rate = 0.1
        [methods.sgd]
        steps = { value = 10, source = "ours" }
        """,
    )
    with pytest.raises(SpecError) as caught:
        recipe(elsewhere)
    problems = "\n".join(caught.value.problems)
    for word in (
        "default.steps.source",
        "'hearsay'",
        "batch_size",
        "default.clip",
        "learning_rate",
        "methods",
    ):
        assert word in problems
    assert len(caught.value.problems) == 5


def test_broken_toml_is_reported_with_its_line(elsewhere: Workload, tmp_path: Path) -> None:
    write(tmp_path, "[default]\nsteps = \n")
    with pytest.raises(SpecError, match=r"theirs\.toml is not TOML.*line 2"):
        recipe(elsewhere)


STEPS = """
[method.dpsur]
clip = { from_epsilon = { "1" = 0.1, "4" = 0.5 }, source = "paper" }
[setting.pd-sgd.1]
sigma = { value = 0.1, source = "paper" }
[refused.pd-sgd]
2 = "the table cannot be read"
"""


@pytest.mark.parametrize(
    ("epsilon", "value"), [(None, 0.1), (0.5, 0.1), (1, 0.1), (3.9, 0.1), (4, 0.5), (float("inf"), 0.5)]
)
def test_a_value_may_depend_on_epsilon(
    elsewhere: Workload, tmp_path: Path, epsilon: float | None, value: float
) -> None:
    write(tmp_path, STEPS)
    setting = recipe(elsewhere).settings("dpsur", has=["clip"])["clip"]
    assert setting.at(epsilon) == value
    assert setting.shown == "0.1 from epsilon 1, 0.5 from epsilon 4"


@pytest.mark.parametrize(
    "wrong",
    [
        "{ source = 'ours' }",
        "{ value = 1, from_epsilon = { '1' = 2 }, source = 'ours' }",
        "{ from_epsilon = {}, source = 'ours' }",
        "{ from_epsilon = { 'large' = 2 }, source = 'ours' }",
        "{ from_epsilon = { '-1' = 2 }, source = 'ours' }",
    ],
)
def test_a_setting_has_one_value_or_steps(elsewhere: Workload, tmp_path: Path, wrong: str) -> None:
    write(tmp_path, f"[default]\nclip = {wrong}\n")
    with pytest.raises(SpecError, match=r"default\.clip"):
        recipe(elsewhere)


def test_a_numbered_setting_is_laid_over_the_methods_own(elsewhere: Workload, tmp_path: Path) -> None:
    write(tmp_path, STEPS + "[method.pd-sgd]\nsigma = { value = 9, source = 'ours' }\n")
    book = recipe(elsewhere)
    assert book.settings("pd-sgd", ["sigma"])["sigma"].at(None) == 9
    assert book.settings("pd-sgd", ["sigma"], "1")["sigma"].at(None) == 0.1
    assert book.numbers("pd-sgd") == ["1", "2"]
    assert book.numbers("sgd") == []


@pytest.mark.parametrize(
    ("method", "number", "message"),
    [
        ("pd-sgd", "2", "the table cannot be read"),
        ("pd-sgd", "3", "known: 1"),
        ("sgd", "1", "no numbered settings"),
    ],
)
def test_an_unavailable_setting_is_refused(
    elsewhere: Workload, tmp_path: Path, method: str, number: str, message: str
) -> None:
    write(tmp_path, STEPS)
    with pytest.raises(SpecError, match=message) as caught:
        recipe(elsewhere).settings(method, ["sigma"], number)
    assert (caught.value.field, caught.value.value) == ("setting", number)
