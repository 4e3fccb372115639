"""The sweeps of published tables: every line gives a cell that is matched back to it, or has a reason."""

from typing import Any

import pytest

from harness.papers.published_lines import find_obstacle, lines_of, members_of
from harness.papers.published_tables import Published, papers, published
from harness.plan.plan import resolve
from harness.plan.published_sweep import Derived, PublishedSweep, derive
from harness.plan.sweep_file import Sweep, read_sweep
from harness.results.matching import differences, match
from harness.spec import Cell, Json

TABLES = [table.name for paper in papers() for table in paper.table]
ABLE = [name for name in TABLES if any(find_obstacle(line) is None for line in lines_of(name))]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that is solved for once serves all tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def sweep_of(table: str, lines: str | None = None, small: bool = False, **more: Any) -> Sweep:
    sweep, problems = read_sweep(derived(table, lines, small, **more).content, table)
    assert problems == []
    return sweep


def derived(table: str, lines: str | None = None, small: bool = False, **more: Any) -> Derived:
    return derive(PublishedSweep(table, lines, small), **more)


def collected(cell: Cell) -> Json:
    """A cell as `collect` reads it from the database."""
    versions = {"workload_version": cell.workload.version, "method_version": cell.method.version}
    names = {"key": cell.key, "workload": cell.workload.name, "method": cell.method.name}
    return {**names, **versions, "params": cell.params, "n_train": cell.n_train, "seed": 0, "models": 1}


def line(table: str, number: int) -> Published:
    return lines_of(table)[number]


@pytest.mark.slow
@pytest.mark.parametrize("table", ABLE)
def test_every_line_gives_a_cell_that_is_this_line_or_has_a_reason(table: str) -> None:
    cells = {cell.key: collected(cell) for cell in resolve(sweep_of(table)).cells}
    answered = set()
    for each in lines_of(table):
        if find_obstacle(each) is not None:
            assert match([each], cells.values()) == []
            continue
        (own,) = resolve(sweep_of(table, str(each.number))).cells
        assert own.key in cells
        first = next(row for row in match([each], cells.values()) if row["place"] == 1)
        assert first["cell"] == own.key, each.key
        assert not [text for text in differences(each, cells[own.key]) if "instead of" in text], each.key
        answered.add(own.key)
    assert answered == cells.keys()


def test_every_line_is_of_a_table_that_can_be_run_or_has_a_reason() -> None:
    obstacles = {each.key: find_obstacle(each) for each in published()}
    assert {each.key for each in published() if each.table.name not in ABLE} <= {
        key for key, why in obstacles.items() if why is not None
    }
    able = [key for key, why in obstacles.items() if why is None]
    assert len(able) == 411
    assert all(members_of(each) is not None for each in published() if each.key in able)
