"""`--published` as a user sees it: the lines of a paper that nobody has seen, planned, run and reported."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from harness.papers import published_tables
from workloads.errors import SpecError

PAPER = """
source = "someone"
citation = "Someone 2020"

[[table]]
name = "someone-table-1"
printed = "Table 1"
about = "accuracy and leakage"
n_train = { digits-linear = 600 }
unstated = ["learning_rate", "clip"]
protocol = ["the paper's digits are larger"]

[[table.block]]
runs = 2
metrics = [
  { name = "accuracy", unit = "%", decimals = 1 },
  { name = "auc", attack = "population", decimals = 2 },
]

[[table.block.cells]]
workload = "digits-linear"
method = "sgd"
label = "SGD"
on = "digits"
stated = { epochs = 2, batch_size = 30 }
values = [90.0, 0.5]
deviations = [99.0]

[[table.block.cells]]
workload = "digits-linear"
method = "dp-sgd"
label = "DP"
on = "digits"
params = { epsilon = 4 }
stated = { steps = 15 }
values = [70.0, 0.5]

[[table.block.cells]]
workload = "digits-linear"
method = "dp-adam"
label = "DP-Adam"
on = "digits"
values = [70.0, 0.5]
"""

Call = Callable[..., Result]


@pytest.fixture
def privbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """The program with another folder of papers, and a store of its own."""
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers/someone.toml").write_text(PAPER, encoding="utf-8")
    monkeypatch.setattr(published_tables, "FOLDER", tmp_path / "papers")
    monkeypatch.setenv("PRIVBENCH_STORE", str(tmp_path / "store"))
    caches = (published_tables.papers, published_tables.published)
    for each in caches:
        each.cache_clear()
    yield lambda *words: CliRunner().invoke(app.app, list(words))
    for each in caches:
        each.cache_clear()


def test_a_new_paper_is_listed_and_shown(privbench: Call) -> None:
    (listed,) = json.loads(privbench("list", "published", "--json").output)
    counts = {"lines": 3, "runnable": 2, "data set here": 2}
    about = {"printed": "Table 1", "about": "accuracy and leakage"}
    assert listed == {"name": "someone-table-1", **about, **counts}
    lines = json.loads(privbench("show", "published", "someone-table-1", "--json").output)["lines"]
    assert [(each["line"], each["runnable"]) for each in lines] == [
        (0, "yes"),
        (1, "yes"),
        (2, "no method dp-adam here"),
    ]
    assert lines[1]["method"] == "dp-sgd (epsilon=4)"


def test_its_lines_are_planned_with_what_it_states(privbench: Call) -> None:
    planned = json.loads(privbench("plan", "--published", "someone-table-1", "--no-probe", "--json").output)
    assert (planned["sweep"], planned["cells"], planned["trainings"]) == ("someone-table-1", 2, 4)
    assert planned["remarks"] == [
        "without line 2: no method dp-adam here",
        "not stated by the paper, from the recipe: learning_rate, clip",
    ]


@pytest.mark.slow
def test_its_lines_are_run_and_stand_beside_the_paper(privbench: Call) -> None:
    done = privbench("run", "--published", "someone-table-1", "--slots", "1")
    assert done.exit_code == 0, done.output
    assert "Someone 2020, Table 1: accuracy and leakage" in done.output
    assert "2 epochs" in done.output
    assert "2 published lines, 2 runnable, 2 run. 4 numbers: 1 within" in done.output
    report = privbench("report", "reproduce", "--format", "csv")
    assert report.output.splitlines()[1].split(",")[3:] == ["3", "2", "2", "1", "0", "3", "0", "6"]
    table = privbench("report", "reproduce", "--table", "someone-table-1", "--format", "md")
    assert "no method dp-adam here" in table.output


@pytest.mark.slow
def test_a_small_run_counts_for_no_line(privbench: Call) -> None:
    done = privbench("run", "--published", "someone-table-1", "--lines", "0", "--small", "--slots", "1")
    assert done.exit_code == 0, done.output
    assert "Someone 2020" not in done.output
    report = privbench("report", "reproduce", "--format", "csv")
    assert report.output.splitlines()[1].split(",")[3:6] == ["3", "2", "0"]


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--lines", "0"), "--lines"),
        (("--small",), "--small"),
        (("quickstart", "--published", "someone-table-1"), "sweep"),
        (("--published", "someone-table-1", "--n-train", "5"), "--n-train"),
        (("--published", "someone-table-1", "--set", "epsilon=2"), "--set"),
        (("--published", "someone-table-1", "--lines", "2"), "--published"),
    ],
)
def test_what_is_refused(privbench: Call, words: tuple[str, ...], field: str) -> None:
    for command in ("plan", "run", "enqueue"):
        error = privbench(command, *words).exception
        assert isinstance(error, SpecError)
        assert error.field == field
