"""Kept resolutions: equal to new ones, and made anew after a change of anything they depend on."""

import math
import tomllib
from functools import partial
from pathlib import Path

import pytest

from harness.plan import resolution
from harness.plan.plan import make_plan, resolve
from harness.plan.resolution import Resolution, resolution_of
from harness.plan.sweep_file import Sweep, read_sweep
from tests.harness.terminal import MEMBERS, RECIPE, Terminal, write_plugin
from workloads.errors import SpecError

SWEEP = """
models = 3
seed = 7
attacks = ["loss", { attack = "lira", mode = "offline" }, { attack = "shadow", shadows = "sgd" }]
[[grid]]
workload = ["digits-linear"]
method = "sgd"
steps = [20, 30]
[[grid]]
workload = "digits-linear"
method = "dp-sgd"
zip = { epsilon = [1, 8.0, inf], steps = [20, 20, 5] }
canary = "gradient"
canaries = 10
[[bench]]
workload = "digits-linear"
method = ["dp-sgd"]
batch_size = [8]
measure = { steps = 3 }
"""

TUNED = """
[tuning]
name = "fair"
workload = "digits-linear"
workload_version = "1"
n_train = 718
tuned_at = 718
trials = 4
studies = 1
models = 1
confirm = 0
seed = 1000003
objective = "nonmember_accuracy"
validation_records = 719
priced = false
tune = "abc"
[method.sgd]
learning_rate = { value = RATE, source = "tuned", tried = 4 }
[tuned.sgd]
method_version = "3"
"""


def parsed(text: str) -> Sweep:
    sweep, problems = read_sweep(tomllib.loads(text), "test")
    assert problems == []
    return sweep


@pytest.fixture
def unloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an empty cache, as if this process had loaded no family."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(resolution, "is_loaded", lambda kind: False)
    return tmp_path / "privbench" / "plans"


def never() -> Resolution:
    raise AssertionError("it was resolved again")


def test_what_is_kept_is_what_was_resolved(unloaded: Path) -> None:
    sweep = parsed(SWEEP)
    made = resolve(sweep)
    assert resolution_of(sweep, lambda: made) is made
    kept = resolution_of(sweep, never)
    assert kept == made
    assert [task.key for task in kept.tasks] == [task.key for task in made.tasks]
    assert [task.file() for task in kept.tasks] == [task.file() for task in made.tasks]
    assert [cell.key for cell in kept.cells] == [cell.key for cell in made.cells]
    assert {task.kind for task in kept.tasks} == {"train", "attack", "bench"}
    assert any(task.shadows for task in kept.tasks)
    assert any(cell.params.get("epsilon") == math.inf for cell in kept.cells)
    numbers = [type(value) for cell in made.cells for value in cell.params.values()]
    assert [type(value) for cell in kept.cells for value in cell.params.values()] == numbers


def test_a_plan_of_it_is_the_same(unloaded: Path) -> None:
    first, second = (make_plan(parsed(SWEEP), [], None) for _ in range(2))
    assert first == second
    assert len(list(unloaded.iterdir())) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [("seed = 7", "seed = 8"), ("[20, 30]", "[30, 20]"), ("8.0", "8"), ("models = 3", "models = 4")],
    ids=["seed", "order", "type", "models"],
)
def test_another_sweep_is_another_question(before: str, after: str, unloaded: Path) -> None:
    made = Resolution((), ())
    resolution_of(parsed(SWEEP), lambda: made)
    other = Resolution((), ())
    assert resolution_of(parsed(SWEEP.replace(before, after, 1)), lambda: other) is other
    assert resolution_of(parsed(SWEEP), never) == made


@pytest.mark.parametrize("changed", ["own_state", "_version", "PROTOCOL"])
def test_other_code_packages_or_protocol_resolve_anew(
    changed: str, unloaded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolution_of(parsed(SWEEP), lambda: Resolution((), ()))
    now = 99 if changed == "PROTOCOL" else lambda *_: "other"
    monkeypatch.setattr(resolution, changed, now)
    other = Resolution((), ())
    assert resolution_of(parsed(SWEEP), lambda: other) is other


def test_a_process_with_members_of_its_own_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make_plan(parsed(SWEEP), [], None)
    make_plan(parsed(SWEEP), [], None)
    assert not (tmp_path / "privbench" / "plans").exists()


def test_a_refused_sweep_is_not_kept(unloaded: Path) -> None:
    for _ in range(2):
        with pytest.raises(SpecError):
            make_plan(parsed(SWEEP.replace("steps = [20, 30]", "steps = [0]")), [], None)
    assert not unloaded.exists()


def test_a_damaged_file_is_resolved_anew(unloaded: Path) -> None:
    resolution_of(parsed(SWEEP), lambda: Resolution((), ()))
    (file,) = unloaded.iterdir()
    file.write_text(file.read_text(encoding="utf-8").replace("own", "won"), encoding="utf-8")
    other = Resolution((), ())
    assert resolution_of(parsed(SWEEP), lambda: other) is other


@pytest.mark.slow
def test_a_change_of_a_plugin_its_data_or_its_recipe_resolves_anew(tmp_path: Path) -> None:
    package = write_plugin(tmp_path / "site")
    call = Terminal(tmp_path).beside(package)
    words = ("plan", "--workload", "own-data", "--method", "own-method", "--no-probe", "--json")

    def kept() -> set[tuple[str, int]]:
        plans = (tmp_path / "cache").glob("privbench/plans/*")
        return {(each.name, each.stat().st_mtime_ns) for each in plans}

    def cells() -> tuple[str, bool]:
        """The planned cell, and whether it was resolved anew."""
        before = kept()
        ended = call(*words)
        assert ended.code == 0, ended.errors
        return ended.json["cells_planned"][0]["cell"], kept() != before

    first = cells()
    assert first[1]
    assert cells() == (first[0], False)
    (package / "recipes" / "own-data.toml").write_text(RECIPE.replace("= 3", "= 4"), encoding="utf-8")
    recipe = cells()
    (package / "rows.csv").write_text("0,0\n" * 60, encoding="utf-8")
    data = cells()
    (package / "members.py").write_text(MEMBERS.replace('version = "1"', 'version = "2"'), encoding="utf-8")
    code = cells()
    assert recipe[1]
    assert data[1]
    assert code[1]
    assert len({first[0], recipe[0], data[0], code[0]}) == 4
    assert cells() == (code[0], False)


def test_another_tuned_recipe_is_resolved_anew(unloaded: Path, tmp_path: Path) -> None:
    file = tmp_path / "tuned.toml"
    text = SWEEP.replace("models = 3", f'models = 3\nrecipe = "{file}"').replace("steps = [20, 30]", "")
    rates = []
    for rate in (0.25, 0.5):
        file.write_text(TUNED.replace("RATE", str(rate)))
        sweep = parsed(text)
        made = resolution_of(sweep, partial(resolve, sweep))
        assert resolution_of(parsed(text), never) == made
        rates += [each.params["learning_rate"] for each in made.cells if each.method.name == "sgd"]
    assert rates == [0.25, 0.5]
