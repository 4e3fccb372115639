"""`privbench tune` and what names its recipe, in processes of their own."""

import json
from pathlib import Path

import pytest

from tests.harness.terminal import Terminal

SWEEP = """
models = 2
[tune]
trials = 2
studies = 2
confirm = 1
[tune.search.sgd]
epochs = [8, 9]
rate = [0.2, 0.25]
[[grid]]
workload = "digits-linear"
method = "sgd"
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    (tmp_path / "fair.toml").write_text(SWEEP)
    return Terminal(tmp_path)


@pytest.mark.slow
def test_a_sweep_is_tuned_and_runs_on_its_recipe(terminal: Terminal) -> None:
    done = terminal("tune", "fair.toml")
    assert done.code == 0, done.errors
    assert "written: fair.tuned.toml" in done.output
    told = done.output.replace("test records are not read", "").replace("best", "")
    assert "test" not in told
    made = (terminal.folder / "fair.tuned.toml").read_bytes()

    again = terminal("tune", "fair.toml", "--json")
    assert again.code == 0
    assert again.json["name"] == "fair" and again.json["recipe"] == "fair.tuned.toml"
    assert (terminal.folder / "fair.tuned.toml").read_bytes() == made
    assert [len(each["trials"]) for each in again.json["searches"][0]["studies"]] == [2, 2]

    run = terminal("run", "fair.toml", "--recipe", "fair.tuned.toml")
    assert run.code == 0, run.errors
    assert "trained without an attack" in run.output
    tasks = json.loads(terminal("status", "--json").output)
    assert sorted(each["sweep"] for each in tasks["sweeps"]) == ["fair", "tune-fair"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "fair.toml"), "this sweep is to be tuned"),
        (("plan", "fair.toml"), "(or --untuned)"),
        (("tune", "fair.toml", "--method", "sgd"), "not both"),
        (("tune", "--workload", "digits-linear", "--method", "sdg"), "did you mean 'sgd'"),
        (("tune", "fair.toml", "--budget-epsilon", "1"), "neither a sweep nor --epsilon"),
        (("tune", "fair.toml", "--trials", "20000"), "trials = 20000"),
    ],
)
def test_refusals_load_no_torch(terminal: Terminal, words: tuple[str, ...], said: str) -> None:
    done = terminal(*words)
    assert done.code == 2
    assert said in done.errors
    assert "torch" not in done.loaded


@pytest.mark.slow
def test_a_dry_tune_trains_nothing(terminal: Terminal) -> None:
    done = terminal("tune", "fair.toml", "--dry")
    assert done.code == 0, done.errors
    assert "Then 4 trainings at most" in done.output
    assert not (terminal.folder / "privbench-store").exists()
    assert not (terminal.folder / "fair.tuned.toml").exists()


@pytest.mark.slow
def test_an_untuned_run_is_asked_for(terminal: Terminal) -> None:
    assert terminal("plan", "fair.toml", "--untuned", "--no-probe").code == 0


@pytest.mark.slow
def test_a_priced_search_is_a_sweep(terminal: Terminal) -> None:
    words = ("--workload", "digits-linear", "--method", "dp-sgd", "--budget-epsilon", "8", "--trials", "2")
    done = terminal("tune", *words, "--out", "priced.toml")
    assert done.code == 0, done.errors
    planned = terminal("plan", "priced.toml", "--no-probe", "--json")
    assert planned.code == 0, planned.errors
    assert planned.json["cells"] == 1
    refused = terminal("tune", *words[:3], "sgd", *words[4:])
    assert refused.code == 2 and "cannot be searched privately" in refused.errors
