import csv
import hashlib
import io
import json
import math
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import db
from harness.results.collect import collect
from harness.results.query import open_reader, query
from harness.results.table import QueryResult, render
from harness.spec import Cell, Json, Plugin, Task
from harness.store import Store
from harness.store.result import Result, parse_result
from workloads.errors import SpecError, StoreError, UnknownName

CELL = Cell(
    Plugin("digits-mlp", "1"),
    100,
    Plugin("dp-sgd", "1"),
    {"epsilon": math.inf, "delta": 1e-5},
    seed=0,
)


def failed(task: Task) -> Result:
    return parse_result(head(task))


def head(task: Task) -> Json:
    return {
        "key": task.key,
        "kind": task.kind,
        "status": "failed",
        "reason": "error",
        "message": "one\ntwo \x1b[31m",
        "artefacts": {},
        "provenance": {"host": "here"},
        "wall_seconds": 1.5,
        "started": "2026-01-02T03:04:05+00:00",
    }


def trained(store: Store, task: Task, column: str) -> Result:
    """A finished training whose series has an additional column."""
    sink = io.BytesIO()
    steps = {"phase": ["train"] * 3, "step": [0, 1, 2], "wall_seconds": [0.1, 0.2, 0.3]}
    table = pa.table({**steps, "cpu_seconds": [0.1, 0.2, 0.3], column: [1.0, 2.0, 3.0]})
    pq.write_table(table, sink)
    document = {
        **head(task),
        "status": "done",
        "reason": None,
        "metrics": {"test_accuracy": 0.5, "train_accuracy": 0.5},
        "guarantee": dict.fromkeys(("epsilon", "delta"))
        | dict.fromkeys(("kind", "adjacency", "accountant"), "none"),
        "stats": {},
        "phases": {},
        "artefacts": {"steps": store.write_artefact(task.key, "steps.parquet", sink.getvalue())},
    }
    return parse_result(document)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collected store: two trainings with other clocks and a failure; its name needs quoting."""
    store = Store.open(tmp_path_factory.mktemp("query") / "it's a store", create=True)
    for index, column in enumerate(("loss", "clock_clip")):
        task = Task("train", CELL, index=index)
        store.add(task)
        assert store.publish(trained(store, task, column))
    third = Task("train", CELL, index=2)
    store.add(third)
    assert store.publish(failed(third))
    collect(store.path)
    return store.path


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside the store, with a file."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret.csv").write_text("word\nhush\n")
    (folder / "schema.sql").write_text("create table hush (x integer);")
    (folder / "load.sql").write_text("")
    return folder


def bytes_of(folder: Path) -> dict[str, str]:
    files = (each for each in sorted(folder.rglob("*")) if each.is_file())
    return {str(each): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


REFUSED = (
    "insert into task select * from task",
    "update task set status = 'done'",
    "delete from task",
    "merge into cell using cell c on cell.key = c.key when matched then delete",
    "truncate task",
    "create table mine as select 1",
    "create temp table mine as select 1",
    "create or replace view frontier as select 1",
    "create macro mine() as 1",
    "create secret (type s3)",
    "drop view frontier",
    "alter table task add column x integer",
    "attach '{outside}/other.duckdb' as other",
    "attach ':memory:' as other",
    "detach privbench",
    "use memory",
    "copy task to '{outside}/copy.csv'",
    "copy (select 1) to '{store}/tasks/copy.parquet' (format parquet)",
    "copy task from '{outside}/secret.csv'",
    "copy from database privbench to other",
    "export database '{outside}/export'",
    "import database '{outside}'",
    "pragma import_database('{outside}')",
    "install httpfs",
    "load httpfs",
    "load '{outside}/evil.duckdb_extension'",
    "update extensions",
    "pragma enable_profiling",
    "set enable_external_access = true",
    "set memory_limit = '1GB'",
    "set variable x = 1",
    "reset lock_configuration",
    "checkpoint",
    "vacuum",
    "call enable_logging()",
    "begin transaction",
    "prepare p as select 1",
    "execute p",
    "explain analyze insert into task select * from task",
    "explain analyze copy (select 1) to '{store}/tasks/copy.parquet'",
    "explain (analyze) copy (select 1) to '{outside}/copy.parquet'",
    "/* */ explain analyze copy (select 1) to '{outside}/copy.parquet'",
    "select * from enable_logging('QueryLog', storage = 'file', storage_path = '{store}/tasks')",
    "select * from ENABLE_LOGGING()",
    "select (select count(*) from enable_profiling())",
    "with x as (select * from force_checkpoint()) select * from x",
    "select * from query('select 1')",
    "select * from query_table('task')",
    "select * from json_execute_serialized_sql('{{}}')",
    "select * from pandas_scan(1)",
    "select * from read_csv('{outside}/secret.csv')",
    "select * from read_text('{outside}/secret.csv')",
    "select * from read_blob('/proc/self/environ')",
    "select * from '{outside}/secret.csv'",
    'select * from "{outside}/secret.csv"',
    "select * from glob('{outside}/*')",
    "select * from sniff_csv('{outside}/secret.csv')",
    "select * from parquet_metadata('{outside}/secret.csv')",
    "select * from steps, read_text('{outside}/secret.csv')",
    "describe select * from read_csv('{outside}/secret.csv')",
    "select getenv('HOME')",
    "select * from duckdb_secrets()",
    "select * from outside",
    "select 1; select 2",
    "select 1; drop view frontier",
    "select 1; insert into task select * from task",
    "with x as (insert into task select * from task returning *) select * from x",
    "with x as (delete from task returning key) select * from x",
    "",
    "-- nothing",
    "pivot task on status using count(*)",
    "selekt 1",
    "select * from frontir",
)


@pytest.mark.slow
@pytest.mark.parametrize("sql", REFUSED)
def test_statements_that_write_are_refused(
    path: Path, outside: Path, sql: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = bytes_of(path) | bytes_of(outside)
    with pytest.raises(SpecError) as caught:
        query(path, sql.format(outside=outside, store=str(path).replace("'", "''")))
    assert "hush" not in str(caught.value)
    assert bytes_of(path) | bytes_of(outside) == before
    assert capfd.readouterr().err == ""


def test_files_stay_closed_even_to_functions_that_read_them(
    path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.results.query.FUNCTIONS", {"read_text", "glob"})
    for sql in (f"from read_text('{outside}/secret.csv')", f"from glob('{outside}/*')"):
        for tables in ("", ", steps"):
            with pytest.raises(SpecError, match="Permission Error"):
                query(path, sql + tables)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from task",
        "from frontier",
        "with x as (select 1 as a) select a from x",
        "values (1), (2)",
        "describe frontier",
        "show tables",
        "summarize task",
        "explain select * from frontier",
        "explain analyze select * from frontier",
        "pragma table_info('task')",
        "select * from range(3)",
        "select j.key from cell, json_each(cell.params) j",
        "select * from (pivot task on status in ('done', 'failed') using count(*))",
        "select * from information_schema.tables",
        "select 1;",
        "-- a remark\nselect 1 -- another",
    ],
)
def test_read_only_statements_are_executed_and_change_nothing(path: Path, sql: str) -> None:
    before = bytes_of(path)
    assert query(path, sql).columns
    assert bytes_of(path) == before


def test_a_result_has_columns_and_rows(path: Path) -> None:
    answer = query(path, "select status, count(*) as n from task group by status order by n")
    assert answer.columns == ["status", "n"]
    assert answer.rows == [("failed", 1), ("done", 2)]


def test_the_full_series_are_one_view(path: Path) -> None:
    sql = "select task, step, wall_seconds, loss, clock_clip from steps order by clock_clip, step"
    answer = query(path, sql)
    first, second = (Task("train", CELL, index=index).key for index in range(2))
    assert answer.rows == [
        (second, 0, 0.1, None, 1.0),
        (second, 1, 0.2, None, 2.0),
        (second, 2, 0.3, None, 3.0),
        (first, 0, 0.1, 1.0, None),
        (first, 1, 0.2, 2.0, None),
        (first, 2, 0.3, 3.0, None),
    ]


def test_series_that_went_away_leave_an_empty_view(path: Path, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    collect(store.path)
    assert query(store.path, "select task, wall_seconds from steps").rows == []
    store.database.write_bytes((path / "privbench.duckdb").read_bytes())
    assert query(store.path, "select count(*) from steps").rows == [(0,)]


def test_a_mistake_is_reported_with_what_there_is(path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        query(path, "select accuracy from frontir")
    problem = str(caught.value)
    assert "frontir does not exist" in problem
    assert 'Did you mean "frontier"' in problem
    assert "views: cell_sweep, task_sweep, bench, model_cost, runs, newest_attack, tried," in problem
    assert "tables: attack_result, attribute_result, audit_result, bench_match, bench_result, cell" in problem
    assert len(problem.splitlines()) == 2


def test_a_store_without_a_database_states_what_to_do(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    with pytest.raises(StoreError, match="privbench collect"):
        query(store.path, "select 1")
    assert not store.database.exists()


def test_repeated_names_are_distinguished(path: Path) -> None:
    answer = query(path, "select 1 as a, 2 as a, 3 as b")
    assert answer.columns == ["a", "a_2", "b"]
    assert json.loads(render(answer, "json")) == [{"a": 1, "a_2": 2, "b": 3}]


def test_json_is_valid_whatever_the_numbers(path: Path) -> None:
    sql = (
        "select epsilon_asked, params, 'nan'::double as odd, -epsilon_asked as least, "
        "[1.5, 'inf'::double] as list, null as nothing, true as yes, timestamp '2026-01-02' as day, "
        "12.50::decimal(6, 2) as exact, sum(seed + 7) as total from cell group by all"
    )

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    (row,) = json.loads(render(query(path, sql), "json"), parse_constant=refuse)
    assert row == {
        "epsilon_asked": "inf",
        "params": {"delta": 1e-5, "epsilon": {"$number": "inf"}},
        "odd": None,
        "least": "-inf",
        "list": [1.5, "inf"],
        "nothing": None,
        "yes": True,
        "day": "2026-01-02T00:00:00",
        "exact": 12.5,
        "total": 7,
    }


def test_csv_keeps_every_digit_and_line_break(path: Path) -> None:
    text = render(query(path, "select 0.1::double as x, message, null as y from failures"), "csv")
    assert list(csv.reader(io.StringIO(text))) == [
        ["x", "message", "y"],
        ["0.1", "one\ntwo \x1b[31m", ""],
    ]


def test_a_table_is_aligned_and_safe_for_a_terminal(path: Path) -> None:
    text = render(query(path, "select message, 1 / 3.0::double as third from failures"), "table")
    assert text.splitlines() == [
        "message           third",
        "-------------  --------",
        "one two  [31m  0.333333",
        "(1 row)",
    ]


def test_a_table_without_rows_still_has_its_columns(path: Path) -> None:
    text = render(query(path, "select label, seed from cell where false"), "table")
    assert text.splitlines() == ["label  seed", "-----  ----", "(0 rows)"]


def test_parquet_needs_a_file(path: Path, tmp_path: Path) -> None:
    answer = query(path, "select * from cell")
    with pytest.raises(SpecError, match="--out"):
        render(answer, "parquet")
    file = tmp_path / "cell.parquet"
    assert render(answer, "parquet", file) == f"1 rows written to {file}\n"
    assert QueryResult(pq.read_table(file)).rows == answer.rows


def test_text_can_go_to_a_file(path: Path, tmp_path: Path) -> None:
    answer = query(path, "select label from cell")
    file = tmp_path / "cell.csv"
    render(answer, "csv", file)
    assert file.read_text(encoding="utf-8") == "label\ndp-sgd ε=inf\n"


def test_an_unknown_format_is_refused(path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        render(query(path, "select 1"), "yaml")
    assert (caught.value.value, caught.value.allowed) == ("yaml", ("csv", "json", "parquet", "table"))


def test_the_environment_cannot_be_queried(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PRIVBENCH_TEST_WORD", "hush-hush")
    sql = "select * from duckdb_functions() where function_name in ('getenv', 'getvariable')"
    assert "hush-hush" not in render(query(path, sql), "json")
    with pytest.raises(SpecError):
        query(path, "select getenv('PRIVBENCH_TEST_WORD')")


def test_a_reading_sees_one_state_however_often_the_database_is_replaced(path: Path, tmp_path: Path) -> None:
    """The file that `collect --rebuild` replaces it with is for the next reading."""
    store = Store.open(shutil.copytree(path, tmp_path / "store"))
    count = "select count(*) from task"
    later = tmp_path / "later"
    with open_reader(store.path) as reader:
        ((before,),) = reader.execute(count).rows
        task = Task("train", CELL, index=99)
        store.add(task)
        assert store.publish(parse_result(head(task)))
        collect(store.path, later)
        later.replace(store.database)
        assert reader.execute(count).rows == [(before,)]
    assert query(store.path, count).rows == [(before + 1,)]


def test_no_collector_writes_into_a_file_while_it_is_read(path: Path, tmp_path: Path) -> None:
    store = Store.open(shutil.copytree(path, tmp_path / "store"))
    with open_reader(store.path) as reader:
        reader.execute("select 1")
        with pytest.raises(db.DatabaseBusy):
            db.open_database(store.database, patience_seconds=0)
    db.open_database(store.database, patience_seconds=0).dispose()


def test_every_statement_of_a_reading_meets_the_walls(path: Path) -> None:
    with open_reader(path) as reader:
        reader.execute("select * from task")
        for sql in ("select * from read_text('/etc/hosts')", "delete from task", "commit", "begin; select 1"):
            with pytest.raises(SpecError):
                reader.execute(sql)
        assert reader.execute("select count(*) from task").rows


def test_steps_are_for_all_statements_of_a_reading_that_begins_with_them(path: Path) -> None:
    with open_reader(path) as reader:
        assert reader.execute("select * from steps").rows
        assert reader.execute("select count(*) from steps").rows[0][0] > 0
    with open_reader(path) as reader:
        reader.execute("select 1")
        with pytest.raises(ValueError, match="first statement"):
            reader.execute("select * from steps")
