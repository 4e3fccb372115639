"""A real PostgreSQL beside DuckDB: the same store gives the same rows, and foreign objects stay untouched."""

import itertools
import json
import math
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

import db
from harness.report.reading import read
from harness.results.collect import collect
from harness.results.query import open_reader, query
from harness.spec import Task
from harness.store import Store
from harness.store.forgotten import Forgotten, delete_forgotten, write_forgotten
from harness.store.tunes import write_tune
from tests.harness.postgres import running_server
from tests.harness.simulated import cell, cells, fill, fill_findings, publish, sweep_record, training
from tests.harness.tuned import make_tune
from workloads.errors import SpecError, StoreError

pytestmark = pytest.mark.postgres

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store.open(tmp_path_factory.mktemp("filled") / "store", create=True)
    fill(store)
    fill_findings(store)
    beside = Task("train", replace(cell("mnist-cnn", "dp-sgd", epsilon=4.0), n_train=50_000))
    publish(store, beside, training(beside, 0.9))
    task = Task("train", cell("digits-mlp", "dp-sgd", epsilon=9.0))
    publish(store, task, {"reason": "error", "message": 'a "quoted", odd\nline with a NUL \x00 and \\N'})
    trainings = [Task("train", each) for each in cells("digits-mlp")]
    store.write_sweep(sweep_record("Second", *trainings[:2]))
    store.write_sweep(sweep_record("first", *trainings))
    lone = cell("digits-mlp", "dp-sgd", epsilon=4.0)
    write_forgotten(
        store, Forgotten(key=lone.key, kind="cell", forgotten="2026-01-02T03:04:05+00:00", why="odd \x00 \\N")
    )
    write_tune(store, make_tune("fair"))
    collect(store.path)
    return store.path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Store:
    return Store(shutil.copytree(filled, tmp_path / "store"))


@pytest.fixture(scope="module")
def collected(server: str, filled: Path) -> str:
    """The store's rows on the server, for tests that only read."""
    collect(filled, server, rebuild=True)
    return server


@pytest.fixture
def url(server: str) -> Iterator[str]:
    """A database for one test."""
    name = f"own_{next(NUMBERS)}"
    with connect(server) as keeper:
        keeper.execute(f"create database {name}")
    yield server.replace("/postgres?", f"/{name}?")
    with connect(server) as keeper:
        keeper.execute(f"drop database {name}")


def connect(url: str) -> "psycopg.Connection[Any]":
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


def rows(source: Path | str, name: str) -> list[dict[str, Any]]:
    """Every row of a table or view, with JSON parsed, in a fixed order."""
    answer = query(source, f"select * from {name}")
    table = [
        {
            key: json.loads(value) if key in answer.json_columns and value is not None else value
            for key, value in zip(answer.columns, row, strict=True)
        }
        for row in answer.rows
    ]
    # What is computed may differ in the last bit, and must not decide the order.
    given = [column for column in answer.columns if any(isinstance(row[column], str | int) for row in table)]
    keys = [*given, *(column for column in answer.columns if column == "epsilon_asked")]
    return sorted(table, key=lambda row: [str(row[key]) for key in keys])


def same(one: Any, other: Any) -> bool:
    """Equal, or floats that differ only by the order of summation."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
    if isinstance(one, str) and isinstance(other, str):
        return one.replace("\x00", "\ufffd") == other
    return bool(one == other)


TABLES = [name for name in db.Base.metadata.tables if name != "privbench_schema"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TABLES, *db.view_names()])
def test_every_table_and_view_has_the_rows_of_duckdb(collected: str, filled: Path, name: str) -> None:
    here, there = rows(filled, name), rows(collected, name)
    assert len(here) == len(there)
    assert here or name == "conflicts", "nothing to compare"
    for one, other in zip(here, there, strict=True):
        assert list(one) == list(other)
        assert not {key: (one[key], other[key]) for key in one if not same(one[key], other[key])}


def test_queries_of_the_documentation_have_the_same_results(collected: str, filled: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "querying.md").read_text(encoding="utf-8")
    asked = re.findall(r"^```sql\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for sql in asked:
        if "from steps" not in sql:
            assert len(query(collected, sql).rows) == len(query(filled, sql).rows), sql
    assert len(asked) >= 12


@pytest.mark.slow
def test_a_report_reads_the_same(collected: str, filled: Path) -> None:
    here, there = read(filled, "method = 'dp-sgd'"), read(collected, "method = 'dp-sgd'")
    assert [row["cell"] for row in here.frontier] == [row["cell"] for row in there.frontier]
    assert here.rocs == there.rocs
    assert here.groups == there.groups
    assert [row["task"] for row in here.failures] == [row["task"] for row in there.failures]


def test_a_reading_is_one_connection_that_does_not_see_what_is_collected_meanwhile(
    url: str, store: Store
) -> None:
    collect(store.path, url)
    count, session = "select count(*) from task", "select pg_backend_pid(), transaction_timestamp()::varchar"
    shutil.rmtree(store.folder(Task("train", cells("digits-mlp")[0]).key))
    with open_reader(url) as reader:
        before, first = reader.execute(count).rows, reader.execute(session).rows
        assert collect(store.path, url).gone == 1
        assert reader.execute(count).rows == before
        assert reader.execute(session).rows == first
    assert query(url, count).rows == [(before[0][0] - 1,)]


@pytest.mark.slow
def test_keeping_up_gives_the_rows_of_rebuilding(url: str, store: Store) -> None:
    first = collect(store.path, url)
    again = collect(store.path, url)
    assert (first.new, again.new, again.changed, again.gone) == (first.total, 0, 0, 0)
    retried = Task("train", cell("digits-mlp", "dp-sgd", epsilon=8.0))
    publish(store, retried, training(retried, 0.7))
    shutil.rmtree(store.folder(Task("train", cells("digits-mlp")[0]).key))
    kept = collect(store.path, url)
    assert (kept.changed, kept.gone) == (1, 1)
    before = [rows(url, name) for name in TABLES]
    assert collect(store.path, url, rebuild=True).rebuilt
    assert [rows(url, name) for name in TABLES] == before


def test_forgetting_and_sweeps_keep_up(url: str, store: Store) -> None:
    collect(store.path, url)
    (key,) = query(url, "select key from forgotten").rows[0]
    delete_forgotten(store, str(key))
    store.write_sweep(sweep_record("first", Task("train", cells("digits-linear")[0])))
    collect(store.path, url)
    collect(store.path)
    for sql in ("select cell, sweep from frontier", "select sweep, task from sweep_task"):
        assert sorted(map(repr, query(url, sql).rows)) == sorted(map(repr, query(store.path, sql).rows))
    assert query(url, "select key from forgotten").rows == []


@pytest.mark.parametrize("sweep", ["first", "Second"])
def test_a_report_of_a_sweep_reads_the_same(collected: str, filled: Path, sweep: str) -> None:
    theirs, ours = read(collected, sweep=sweep), read(filled, sweep=sweep)
    assert [row["attack_task"] for row in theirs.frontier] == [row["attack_task"] for row in ours.frontier]
    assert ours.frontier


def test_two_collectors_take_turns(url: str, store: Store) -> None:
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: collect(store.path, url), range(2)))
    assert sorted(each.new for each in done) == [0, done[0].total]
    assert len(rows(url, "task")) == done[0].total


def test_another_store_does_not_take_the_database_over(url: str, store: Store, tmp_path: Path) -> None:
    collect(store.path, url)
    moved = Path(shutil.move(store.path, tmp_path / "moved"))
    assert collect(moved, url).new == 0
    other = Store.open(tmp_path / "other", create=True)
    with pytest.raises(StoreError, match="another store"):
        collect(other.path, url)
    assert len(rows(url, "task")) > 0
    assert collect(other.path, url, rebuild=True).total == 0


def test_another_version_is_rebuilt_and_what_is_not_ours_stays(url: str, store: Store) -> None:
    collect(store.path, url)
    with connect(url) as keeper:
        keeper.execute("create table public.task (mine text)")
        keeper.execute("create table privbench.left_over_from_before (x integer)")
        keeper.execute("update privbench.privbench_schema set fingerprint = 'older'")
    with pytest.raises(StoreError, match="another version"):
        query(url, "select 1")
    assert collect(store.path, url).rebuilt
    with connect(url) as keeper:
        assert keeper.execute("select count(*) from public.task").fetchone() == (0,)
        assert keeper.execute("select to_regclass('privbench.left_over_from_before')").fetchone() == (None,)


def test_a_foreign_view_on_ours_is_not_dropped(url: str, store: Store) -> None:
    collect(store.path, url)
    with connect(url) as keeper:
        keeper.execute("create view public.mine as select * from privbench.frontier")
    before = rows(url, "task")
    with pytest.raises(StoreError, match="depends on"):
        collect(store.path, url, rebuild=True)
    assert rows(url, "task") == before


def test_a_schema_of_others_is_left_alone(url: str, store: Store) -> None:
    with connect(url) as keeper:
        keeper.execute("create schema privbench")
        keeper.execute("create table privbench.theirs (x integer)")
    for rebuild in (False, True):
        with pytest.raises(StoreError, match="privbench"):
            collect(store.path, url, rebuild=rebuild)
    with connect(url) as keeper:
        found = keeper.execute("select relname from pg_class where relnamespace = 'privbench'::regnamespace")
        assert found.fetchall() == [("theirs",)]


@pytest.mark.parametrize(
    "sql",
    [
        "delete from task",
        "select 1; drop view frontier",
        "create table mine as select 1",
        "with gone as (delete from task returning key) select * from gone",
        "select * into mine from task",
        "copy task to '/tmp/never'",
        "set transaction read write",
        "select set_config('transaction_read_only', 'off', true)",
        "select nextval('pg_temp.mine')",
        "commit",
        "",
    ],
)
def test_statements_that_write_are_refused(collected: str, sql: str) -> None:
    with pytest.raises(SpecError):
        query(collected, sql)
    assert query(collected, "select count(*) > 0 from task").rows == [(True,)]


def test_a_query_that_takes_too_long_is_ended(collected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.results.query_server.TIMEOUT_SECONDS", 1)
    with pytest.raises(SpecError, match="statement timeout"):
        query(collected, "select pg_sleep(600)")


def test_a_mistake_is_reported_with_what_there_is(collected: str) -> None:
    with pytest.raises(SpecError, match=r"acuracy.*does not exist.*accuracy.*\nviews: .*frontier"):
        query(collected, "select acuracy from frontier")
    with pytest.raises(SpecError, match="leave --database out"):
        query(collected, "select * from steps")


def test_a_password_is_never_shown(server: str, filled: Path) -> None:
    nowhere = server.replace("/postgres?", "/nowhere?")
    for call in (lambda: query(nowhere, "select 1"), lambda: collect(filled, nowhere)):
        with pytest.raises(StoreError, match="nowhere") as caught:
            call()
        assert "secret" not in str(caught.value)


def test_an_empty_database_states_what_to_do(url: str) -> None:
    with pytest.raises(StoreError, match="privbench collect"):
        query(url, "select 1")


def test_values_of_many_types_come_back(collected: str) -> None:
    sql = (
        "select 1::int2 as a, sum(seed) as b, 'inf'::float8 as c, null as d, true as e, "
        "date '2026-01-02' as f, timestamp '2026-01-02 03:04' as g, array[1, 2] as h, 1 as a from cell"
    )
    answer = query(collected, sql)
    assert answer.columns == ["a", "b", "c", "d", "e", "f", "g", "h", "a_2"]
    (row,) = answer.rows
    assert (row[0], int(row[1]), row[2], row[3], row[4]) == (1, 0, math.inf, None, True)
    assert [str(value) for value in row[5:]] == ["2026-01-02", "2026-01-02 03:04:00", "[1, 2]", "1"]
