"""Forgotten results are in no table that reports read, count as tried, and come back exactly."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import db
from harness.results.collect import collect
from harness.results.forgetting import find_results, forget_results, recall_results
from harness.results.query import query
from harness.results.transfer import export_results
from harness.spec import Task
from harness.store import Store
from harness.store.forgotten import FOLDER
from harness.store.purge import holdings
from tests.harness.simulated import attack, cell, cells, fill, fill_findings, publish, sweep_record, training
from workloads.errors import SpecError, UnknownName

CELL = cells("digits-mlp")[1]
FAILED = cell("digits-mlp", "dp-sgd", epsilon=8.0)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store.open(tmp_path_factory.mktemp("filled") / "store", create=True)
    fill(store)
    fill_findings(store)
    first, second = (cells("digits-mlp")[number] for number in (0, 1))
    store.write_sweep(sweep_record("both", Task("train", first), Task("train", second)))
    store.write_sweep(sweep_record("one", Task("train", second), attack(second, "lira")))
    collect(store.path)
    return store.path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(filled, tmp_path / "store"))


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return query(store.path, sql).rows


def everything(store: Store) -> dict[str, list[str]]:
    names = [*db.Base.metadata.tables, *db.view_names()]
    return {name: sorted(map(repr, rows(store, f"select * from {name}"))) for name in names}


def forget(store: Store, *keys: str, **chosen: Any) -> None:
    forget_results(store, find_results(store, keys, **chosen), "a reason")
    collect(store.path)


def test_a_forgotten_cell_is_in_no_view_and_comes_back_exactly(store: Store) -> None:
    collect(store.path)  # the copy's files have stamps of their own
    before = everything(store)
    tried = "select configurations, trainings from tried order by workload, method, epsilon_asked"
    failures = "select count(*) from failures"
    counts = rows(store, tried), rows(store, failures)
    forget(store, CELL.key)
    tables = everything(store)
    # Its rows are gone wherever results are shown; the published numbers it matched are compared without it.
    for name in db.view_names():
        if name not in ("forgotten", "cell_sweep", "task_sweep"):
            assert not any(CELL.key in row for row in tables[name]), name
    assert (rows(store, tried), rows(store, failures)) == counts
    assert rows(store, "select sum(forgotten) from tried") == [(1,)]
    (found,) = query(store.path, "select * from forgotten").arrow.to_pylist()
    assert (found["key"], found["kind"], found["why"]) == (CELL.key, "cell", "a reason")
    assert found["tasks"] == rows(store, f"select count(*) from task where cell = '{CELL.key}'")[0][0]
    collect(store.path, rebuild=True)
    assert everything(store) == tables, "a rebuilt database forgets the same"
    recall_results(store, find_results(store, [CELL.key[:12]], undo=True))
    assert collect(store.path).changed > 0
    assert everything(store) == before


def test_fronts_and_comparisons_are_made_without_it(store: Store) -> None:
    beaten = "select label from frontier where workload = 'digits-linear' and attack = 'lira' and on_front"
    best = rows(store, f"{beaten} order by validation_accuracy desc")[0]
    (key,) = rows(store, f"select key from cell where workload = 'digits-linear' and label = '{best[0]}'")[0]
    forget(store, key)
    assert best not in rows(store, beaten)
    assert rows(store, beaten), "another row is on the front now"
    used = f"select count(*) from comparison where cell = '{key}' or other = '{key}'"
    assert rows(store, used) == [(0,)]


def test_a_failure_stays_and_is_marked(store: Store) -> None:
    publish(store, Task("train", FAILED, index=1), training(Task("train", FAILED, index=1), 0.7))
    collect(store.path)
    forget(store, FAILED.key)
    assert rows(store, "select reason, forgotten from failures where kind = 'train'") == [("diverged", True)]
    assert rows(store, f"select count(*) from runs where cell = '{FAILED.key}'") == [(0,)]


def test_an_attack_is_forgotten_alone(store: Store) -> None:
    lira = attack(CELL, "lira")
    before = rows(store, f"select count(*) from frontier where cell = '{CELL.key}'")[0][0]
    forget(store, lira.key[:10])
    assert rows(store, f"select count(*) from frontier where cell = '{CELL.key}'") == [(before - 1,)]
    assert rows(store, f"select count(*) from runs where cell = '{CELL.key}'") == [(4,)]
    back = find_results(store, where=f"cell = '{CELL.key}'", undo=True)
    assert [each.key for each in back] == [lira.key]


@pytest.mark.parametrize(
    "task", [Task("train", CELL, index=1), attack(CELL, "blind")], ids=["model", "blind"]
)
def test_what_belongs_to_its_cell_is_not_forgotten_alone(store: Store, task: Task) -> None:
    with pytest.raises(SpecError) as refused:
        find_results(store, [task.key])
    assert (refused.value.field, refused.value.allowed) == ("CELL", (CELL.key,))


def test_a_task_that_ends_later_is_forgotten_with_its_cell(store: Store) -> None:
    forget(store, CELL.key)
    late = Task("train", CELL, index=7)
    publish(store, late, training(late, 0.9))
    assert collect(store.path).new == 1
    assert rows(store, f"select forgotten from task where key = '{late.key}'") == [(True,)]
    assert rows(store, f"select count(*) from model_run where cell = '{CELL.key}'") == [(0,)]


def test_selections(store: Store) -> None:
    dp = find_results(store, where="workload = 'digits-mlp' and method = 'dp-sgd' and epsilon_asked < 5")
    assert {each.kind for each in dp} == {"cell"} and len(dp) == 2
    assert [each.key for each in find_results(store, sweep="one")] == [CELL.key]
    assert len(find_results(store, where="sweep like '%both%'")) == 2
    for where, undo in (("workload = 'none'", False), ("true", True)):
        with pytest.raises(SpecError) as refused:
            find_results(store, where=where, undo=undo)
        assert refused.value.field == "--where"
    for prefix in ("zz", "00000000", "", "'; drop"):
        with pytest.raises(SpecError) as refused:
            find_results(store, [prefix])
        assert (refused.value.field, refused.value.value) == ("CELL", prefix)
    with pytest.raises(SpecError):
        find_results(store)
    with pytest.raises(SpecError):
        find_results(store, [CELL.key], where="true")
    with pytest.raises(UnknownName):
        find_results(store, sweep="none")


def test_several_matches_are_listed(store: Store) -> None:
    keys = [key for (key,) in rows(store, "select key from cell union all select key from task")]
    common = next(key[:2] for key in keys if sum(each.startswith(key[:2]) for each in keys) > 1)
    with pytest.raises(SpecError) as refused:
        find_results(store, [common])
    assert isinstance(refused.value.allowed, tuple) and len(refused.value.allowed) > 1


def test_a_damaged_record_shows_the_results_again(store: Store) -> None:
    collect(store.path)  # the copy's files have stamps of their own
    before = everything(store)
    forget(store, CELL.key)
    (file,) = (store.path / FOLDER).iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    assert collect(store.path).broken == (file,)
    assert everything(store) == before
    forget(store, CELL.key)
    assert rows(store, f"select count(*) from frontier where cell = '{CELL.key}'") == [(0,)]


def test_an_export_leaves_it_out(store: Store, tmp_path: Path) -> None:
    every = export_results(store.path, tmp_path / "every.zip").tasks
    forget(store, CELL.key)
    (hidden,) = rows(store, "select tasks from forgotten")[0]
    assert export_results(store.path, tmp_path / "rest.zip").tasks == every - hidden
    with pytest.raises(SpecError) as refused:
        export_results(
            store.path, tmp_path / "none.zip", where=f"label = '{CELL.label}' and sweep like '%one%'"
        )
    assert refused.value.field == "--where"


def test_a_purge_of_forgotten_results_spares_the_others(store: Store) -> None:
    for on in (CELL, cells("digits-mlp")[0]):
        (store.folder(Task("train", on).key) / "left.over").write_text("by a crash")
    assert holdings(store, forgotten=True) == []
    forget(store, CELL.key)
    assert [each.key for each in holdings(store, forgotten=True)] == [Task("train", CELL).key]
