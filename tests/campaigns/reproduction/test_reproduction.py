"""The results that are shipped and the page that shows them."""

import shlex
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.app import app
from harness.plan.published_sweep import RUNS
from harness.results.collect import collect
from harness.results.query import query
from harness.store import Store
from tests.campaigns.reproduction.costs import LIMIT, Cost, choose, read_costs, runnable, write_costs
from tests.campaigns.reproduction.page import (
    ARCHIVE,
    BEGIN,
    COSTS,
    END,
    PAGE,
    ROOT,
    TRIALS,
    ranges,
    restore,
    tables,
)

MEGABYTES = 20


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shipped") / "store"
    restore(path)
    collect(path)
    return path


@pytest.mark.slow
def test_the_page_shows_the_shipped_results() -> None:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    shown, end, _ = rest.partition(END)
    assert end and shown.strip() == tables(), "run python -m tests.campaigns.reproduction page"


@pytest.mark.slow
def test_the_commands_of_the_page_show_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PRIVBENCH_STORE", str(tmp_path / "store"))
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("```sh\n")
    for line in rest.partition("```")[0].splitlines():
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
    assert "mnist-cnn-opacus" in done.output


def test_the_results_are_rows_without_weights() -> None:
    assert sum(file.stat().st_size for file in ARCHIVE.parent.iterdir()) <= MEGABYTES * 2**20
    for file in (ARCHIVE, TRIALS):
        with zipfile.ZipFile(file) as archive:
            kinds = {Path(name).name for name in archive.namelist()}
        assert kinds <= {"manifest.json", "spec.json", "result.json"}


@pytest.mark.slow
def test_restored_results_are_a_store_of_ones_own(store: Path) -> None:
    """So that the campaign continues in it."""
    assert query(store, "select distinct origin from task").rows == [("",)]
    assert not query(store, "select * from failures").rows
    found = Store(store)
    assert all(found.result(key, verify=False) is not None for key in found.keys())  # noqa: SIM118


@pytest.mark.slow
def test_every_line_with_a_result_has_models_enough(store: Path) -> None:
    found = query(store, "select distinct published, models from reproduction where ours is not null").rows
    assert found and all(models >= 1 for _, models in found)


def test_costs_are_of_lines_that_can_be_run() -> None:
    """Some may wait for their estimate: the page says which."""
    costs = read_costs(COSTS)
    able = {line.key for line in runnable()}
    assert costs.keys() <= able and len(costs) > len(able) / 2
    assert all((cost.seconds is None) != (cost.reason is None) for cost in costs.values())


def test_a_line_beyond_the_limit_is_run_with_three_models_or_not_at_all() -> None:
    line = next(each for each in runnable() if each.table.name == "opacus-mnist-example")
    within = choose(line, Cost(models=10, seconds=LIMIT))
    assert within is not None and within.models is None
    fewer = choose(line, Cost(models=10, seconds=2 * LIMIT))
    assert fewer is not None and fewer.models == RUNS
    assert fewer.seconds == pytest.approx(0.6 * LIMIT)
    assert choose(line, Cost(models=10, seconds=4 * LIMIT)) is None
    assert choose(line, Cost(models=10, reason="no data")) is None


def test_an_attacked_line_keeps_its_shadows() -> None:
    line = next(each for each in runnable() if any(metric.attacks for metric in each.block.metrics))
    assert choose(line, Cost(models=8, seconds=1.5 * LIMIT)) is None


def test_costs_are_read_as_written(tmp_path: Path) -> None:
    costs = {"b/001": Cost(models=3, seconds=1.5), "a/000": Cost(models=3, reason="because")}
    write_costs(tmp_path / "costs.json", costs)
    assert read_costs(tmp_path / "costs.json") == costs and read_costs(tmp_path / "none.json") == {}


@pytest.mark.parametrize(
    ("numbers", "text"), [([3], "3"), ([0, 1, 2, 7], "0-2,7"), ([5, 4, 9], "4-5,9"), ([], "")]
)
def test_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
