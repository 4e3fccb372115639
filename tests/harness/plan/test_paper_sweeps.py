"""The ready-made sweeps of the papers' tables: they contain the published lines, and can be planned."""

from typing import Any

import pytest

import methods
import workloads
from harness import attacks
from harness.plan.plan import make_plan
from harness.plan.sweep_file import Sweep, find_sweep, read_sweep, ready_made
from harness.results.matching import match
from harness.results.published_tables import Published, published

EXPERIMENTS = {"papers/pd-sgd-anomalous"}
"""Sweeps of figures, for which no numbers are printed."""
NAMES = [name for name in ready_made() if name.startswith("papers/") and name not in EXPERIMENTS]
FULL = [name for name in NAMES if not name.endswith("-small")]
SMALL = [name for name in NAMES if name.endswith("-small")]
HERE = {"sgd", "dp-sgd", "pd-sgd", "dpsur", "dirdp-sgd"}
"""Methods whose published lines are in sweeps."""
ELSEWHERE = {"dirdp-sgd-table-3", "dirdp-sgd-text-5.2.2", "dirdp-sgd-table-6"}
"""Tables that need an attack or a split that does not exist yet."""


def read(name: str) -> Sweep:
    sweep, problems = read_sweep(*find_sweep(name))
    assert problems == []
    return sweep


def points(name: str) -> list[dict[str, Any]]:
    return [point for grid in read(name).grids for point in grid.points()]


def lines(table: str) -> list[Published]:
    return [each for each in published() if each.table.name == table and not each.cell.unmatchable]


def as_cell(point: dict[str, Any]) -> dict[str, Any]:
    params = {key: value for key, value in point.items() if key not in ("workload", "method")}
    names = {"workload": point["workload"], "method": point["method"]}
    versions = {"workload_version": "1", "method_version": "1"}
    return {**names, **versions, "key": repr(point), "params": params, "n_train": 1, "seed": 0, "models": 1}


def test_every_paper_sweep_has_a_short_form_and_every_runnable_table_a_sweep() -> None:
    assert {f"{name}-small" for name in FULL} == set(SMALL)
    runnable = [each for each in published() if each.cell.method in HERE and not each.cell.unmatchable]
    tables = {f"papers/{each.table.name}" for each in runnable if each.table.name not in ELSEWHERE}
    assert set(FULL) == tables


@pytest.mark.parametrize("name", NAMES)
def test_its_name_is_that_of_its_file_and_its_members_are_known(name: str) -> None:
    sweep = read(name)
    assert sweep.name == name.removeprefix("papers/")
    assert {choice.name for choice in sweep.attacks} <= set(attacks.family.names())
    assert {point["method"] for point in points(name)} <= HERE <= set(methods.family.names())


@pytest.mark.parametrize("name", NAMES)
def test_every_point_is_a_published_line(name: str) -> None:
    table = name.removeprefix("papers/").removesuffix("-small")
    for point in points(name):
        assert match(lines(table), [as_cell(point)]), point


@pytest.mark.parametrize("name", FULL)
def test_every_published_line_that_can_be_run_is_a_point(name: str) -> None:
    cells = [as_cell(point) for point in points(name)]
    runnable = [each for each in lines(name.removeprefix("papers/")) if each.cell.method in HERE]
    assert runnable
    missing = [each.key for each in runnable if not match([each], cells)]
    assert not missing


@pytest.mark.parametrize("name", FULL)
def test_no_stated_setting_is_contradicted(name: str) -> None:
    table = name.removeprefix("papers/")
    for point in points(name):
        for each in lines(table):
            if match([each], [as_cell(point)]):
                stated = {key: value for key, value in each.cell.stated.items() if key in point}
                assert stated.items() <= point.items(), point


@pytest.mark.parametrize("name", SMALL)
def test_a_short_form_is_smaller(name: str) -> None:
    full = name.removesuffix("-small")
    assert len(points(name)) <= len(points(full))
    assert read(name).models <= read(full).models
    assert all(point["steps"] <= 300 for point in points(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_plans(
    name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    missing = {str(point["workload"]) for point in points(name)} - set(workloads.family.names())
    if missing:
        pytest.skip(f"no workload yet: {', '.join(sorted(missing))}")
    plan = make_plan(*read_sweep(*find_sweep(name)), None)
    assert len(plan.cells) == len(points(name))
    for cell in plan.cells:
        if cell.method.name == "dp-sgd":
            assert cell.params["noise_multiplier"] > 0
