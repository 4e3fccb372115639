"""Which sweeps a cell is part of: by their newest records, without a duplicate row in any view."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import db
from harness.results.collect import collect
from harness.results.query import open_reader, query
from harness.results.sweep_tables import cells_of_sweep
from harness.spec import Plugin, Task
from harness.store import Store
from tests.harness.simulated import attack, cells, fill, fill_findings, sweep_record
from workloads.errors import UnknownName

SGD, DP, FREE = cells("digits-mlp")
VIEWS = ("frontier", "runs", "overhead", "audit", "attribute", "reconstruction", "comparison", "failures")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store.open(tmp_path_factory.mktemp("filled") / "store", create=True)
    fill(store)
    fill_findings(store)
    return store.path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(filled, tmp_path / "store"))


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return query(store.path, sql).rows


def counts(store: Store) -> dict[str, int]:
    return {name: int(rows(store, f"select count(*) from {name}")[0][0]) for name in VIEWS}


def test_a_cell_of_several_sweeps_is_one_row_that_names_them(store: Store) -> None:
    collect(store.path)
    before = counts(store)
    assert rows(store, "select distinct sweep from frontier") == [(None,)]
    store.write_sweep(sweep_record("b", *(Task("train", SGD, index=each) for each in (0, 1))))
    store.write_sweep(sweep_record("a", Task("train", SGD), attack(DP, "lira")))
    collect(store.path)
    assert counts(store) == before
    named = "select distinct label, sweep from frontier where workload = 'digits-mlp' order by label"
    assert dict(rows(store, named)) == {
        SGD.label: "a, b",
        DP.label: "a",
        FREE.label: None,
        "dp-sgd ε=4": None,
    }
    # A training is of the sweeps that enqueued it, its cell of those that have any of its tasks.
    runs = f"select index, sweep from runs where cell = '{SGD.key}' order by index"
    assert rows(store, runs) == [(0, "a, b"), (1, "b"), (2, None), (3, None)]
    pair = f"'{DP.key}' in (cell, other) and '{SGD.key}' in (cell, other)"
    both = f"select distinct sweep from comparison where {pair}"
    assert rows(store, both) == [("a",)]


def test_the_newest_record_counts(store: Store) -> None:
    store.write_sweep(sweep_record("ad-hoc", Task("train", SGD)))
    collect(store.path)
    store.write_sweep(sweep_record("ad-hoc", Task("train", DP), enqueued="2026-01-02T03:04:05+00:00"))
    collect(store.path)
    assert rows(store, "select sweep, cell from sweep_task") == [("ad-hoc", DP.key)]
    assert rows(store, "select name, tasks, cast(enqueued as varchar) from sweep") == [
        ("ad-hoc", 1, "2026-01-02 03:04:05")
    ]
    (store.sweeps / "ad-hoc.json").unlink()
    collect(store.path)
    assert rows(store, "select * from sweep_task") == rows(store, "select * from sweep") == []


def test_a_rebuilt_database_has_the_same_rows(store: Store) -> None:
    store.write_sweep(sweep_record("a", Task("train", SGD), Task("train", DP)))
    store.write_sweep(sweep_record("b", Task("train", DP)))
    collect(store.path)
    names = ("sweep", "sweep_task", *db.view_names())
    before = {name: sorted(map(repr, rows(store, f"select * from {name}"))) for name in names}
    collect(store.path, rebuild=True)
    assert {name: sorted(map(repr, rows(store, f"select * from {name}"))) for name in names} == before


def test_shadows_of_another_method_are_not_cells_of_the_sweep(store: Store) -> None:
    lira = Task("attack", DP, models=2, attack=Plugin("lira", "1"), attack_params={}, shadows=SGD)
    record = sweep_record("a", Task("train", DP), Task("train", SGD), lira, cells=[DP.key])
    store.write_sweep(record)
    collect(store.path)
    assert {cell for (cell,) in rows(store, "select distinct cell from sweep_task")} == {DP.key, None}


def test_a_damaged_record_is_reported_and_loses_no_result(store: Store) -> None:
    store.write_sweep(sweep_record("a", Task("train", SGD)))
    collect(store.path)
    before = counts(store)
    file = store.sweeps / "a.json"
    odd = sweep_record("a", Task("train", SGD), enqueued="0001-01-01T00:00:00+23:59")
    store.write_sweep(odd)
    assert collect(store.path).broken == (file,)
    file.write_bytes(b"{")
    assert collect(store.path).broken == (file,)
    assert counts(store) == before
    assert rows(store, "select * from sweep") == []


def test_an_unknown_sweep_is_refused_with_those_there_are(store: Store) -> None:
    store.write_sweep(sweep_record("o'clock", Task("train", SGD)))
    collect(store.path)
    with open_reader(store.path) as reader:
        assert reader.execute(cells_of_sweep(reader, "o'clock")).rows == [(SGD.key,)]
        with pytest.raises(UnknownName) as refused:
            cells_of_sweep(reader, "oclock")
    assert isinstance(refused.value.allowed, Iterable) and [*refused.value.allowed] == ["o'clock"]
