import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

import db
from db import definition


def cell(**changes: Any) -> dict[str, Any]:
    return {
        "key": "c" * 32,
        "workload": "digits-mlp",
        "workload_version": "1",
        "method": "dp-sgd",
        "method_version": "1",
        "params": '{"lr":0.1}',
        "epsilon_asked": math.inf,
        "delta": 0.1,
        "seed": 2**40,
        "n_train": 100,
        "configuration": "c",
        "levels": "{}",
        "canaries": 0,
        "origin": "",
        "protocol": 1,
        "label": "dp-sgd ε=inf",
        "illustrated": False,
        **changes,
    }


def insert(connection: sa.Connection, model: type[db.Base], rows: list[dict[str, Any]]) -> None:
    table = db.Base.metadata.tables[model.__tablename__]
    db.insert_arrow(connection, table, pa.Table.from_pylist(rows, schema=db.arrow_schema(table)))


def test_what_was_inserted_is_not_kept_until_the_end_of_the_transaction(tmp_path: Path) -> None:
    engine = db.open_database(tmp_path / "results.duckdb")
    with engine.begin() as connection:
        before = pa.total_allocated_bytes()
        for start in range(0, 20_000, 1000):
            stamps = [{"task": f"{start + each:032}", "stamp": "x" * 32} for each in range(1000)]
            insert(connection, db.TaskStamp, stamps)
        assert connection.scalar(sa.select(sa.func.count()).select_from(db.TaskStamp)) == 20_000
        assert pa.total_allocated_bytes() - before < 200_000, "about two pieces of 72 kB, not twenty"
    engine.dispose()


def test_opening_twice_makes_everything_once(tmp_path: Path) -> None:
    file = tmp_path / "results.duckdb"
    for _ in range(2):
        engine = db.open_database(file)
        inspector = sa.inspect(engine)
        assert set(inspector.get_table_names()) == set(db.Base.metadata.tables)
        assert set(inspector.get_view_names()) == set(db.view_names())
        engine.dispose()


def test_views_are_there(tmp_path: Path) -> None:
    assert {"frontier", "overhead", "failures"} <= set(db.view_names())
    engine = db.open_database(tmp_path / "results.duckdb")
    with engine.connect() as connection:
        for name in db.view_names():
            assert connection.exec_driver_sql(f"select * from {name}").fetchall() == []
    engine.dispose()


def test_every_number_is_64_bit(tmp_path: Path) -> None:
    file = tmp_path / "results.duckdb"
    db.open_database(file).dispose()
    with duckdb.connect(str(file), read_only=True) as connection:
        sql = "select distinct data_type from duckdb_columns() where not internal"
        kinds = {kind for (kind,) in connection.execute(sql).fetchall()}
    assert kinds == {"BIGINT", "BOOLEAN", "DOUBLE", "JSON", "TIMESTAMP", "VARCHAR"}


def test_arrow_rows_come_back_as_objects(tmp_path: Path) -> None:
    engine = db.open_database(tmp_path / "results.duckdb")
    with engine.begin() as connection:
        insert(connection, db.Cell, [cell()])
    with Session(engine) as session:
        found = session.scalars(sa.select(db.Cell)).one()
        assert found.params == {"lr": 0.1}
        assert (found.epsilon_asked, found.delta, found.seed) == (math.inf, 0.1, 2**40)
        assert found.tried_before is None
    engine.dispose()


def test_single_steps_and_quantiles_are_objects_of_their_own(tmp_path: Path) -> None:
    engine = db.open_database(tmp_path / "results.duckdb")
    row = {"task": "t", "phase": "train", "clock": "step", "wall_seconds": 0.1}
    rows = [{**row, "quantile": 0.5}, {**row, "quantile": 0.95}, {**row, "step": 0}]
    with engine.begin() as connection:
        insert(connection, db.StepTime, rows)
    with Session(engine) as session:
        found = session.scalars(sa.select(db.StepTime)).all()
        assert {(each.quantile, each.step) for each in found} == {
            (0.5, None),
            (0.95, None),
            (None, 0),
        }
    engine.dispose()


def test_a_failed_transaction_leaves_no_row(tmp_path: Path) -> None:
    engine = db.open_database(tmp_path / "results.duckdb")
    with pytest.raises(RuntimeError), engine.begin() as connection:
        insert(connection, db.Cell, [cell()])
        raise RuntimeError
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(db.Cell)) == 0
    engine.dispose()


def test_rows_wait_for_the_commit(tmp_path: Path) -> None:
    engine = db.open_database(tmp_path / "results.duckdb")
    with engine.connect() as connection:
        insert(connection, db.Cell, [cell()])
        connection.rollback()
        assert connection.scalar(sa.select(sa.func.count()).select_from(db.Cell)) == 0
    engine.dispose()


def test_a_row_can_be_replaced_in_one_transaction(tmp_path: Path) -> None:
    engine = db.open_database(tmp_path / "results.duckdb")
    with engine.begin() as connection:
        insert(connection, db.Cell, [cell()])
    with engine.begin() as connection:
        connection.execute(sa.delete(db.Cell))
        insert(connection, db.Cell, [cell(label="other")])
    with engine.connect() as connection:
        assert connection.scalars(sa.select(db.Cell.label)).all() == ["other"]
    engine.dispose()


def test_reading_makes_no_file_and_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "results.duckdb"
    with pytest.raises(db.DatabaseError, match="privbench collect"):
        db.open_database(file, read_only=True)
    assert not file.exists()
    db.open_database(file).dispose()
    engine = db.open_database(file, read_only=True)
    with pytest.raises(sa.exc.DBAPIError, match="read-only"), engine.begin() as connection:
        connection.execute(sa.delete(db.Cell))
    engine.dispose()


@pytest.mark.parametrize("read_only", [False, True])
def test_another_version_is_reported_and_left_alone(tmp_path: Path, read_only: bool) -> None:
    file = tmp_path / "results.duckdb"
    db.open_database(file).dispose()
    with duckdb.connect(str(file)) as connection:
        connection.execute("update privbench_schema set fingerprint = 'older'")
    with pytest.raises(db.DatabaseOutdated, match="rebuilds"):
        db.open_database(file, read_only=read_only)


def test_a_changed_view_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = definition.fingerprint()
    views = definition.view_statements()
    monkeypatch.setattr(definition, "view_statements", lambda: [*views[:-1], views[-1] + " "])
    assert definition.fingerprint() != before


def test_a_database_of_others_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "theirs.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("create table theirs (x integer)")
    before = file.read_bytes()
    with pytest.raises(db.DatabaseError, match="not a database of privbench"):
        db.open_database(file)
    assert file.read_bytes() == before


def test_a_url_names_a_file(tmp_path: Path) -> None:
    assert db.database_path(f"duckdb:///{tmp_path}/x.duckdb") == tmp_path / "x.duckdb"
    assert db.database_path("x.duckdb") == Path("x.duckdb")
    for other in ("mysql://user:word@host/results", "duckdb:///:memory:", "duckdb://"):
        with pytest.raises(db.DatabaseError, match="DuckDB file") as caught:
            db.database_path(other)
        assert "word" not in str(caught.value)


def test_a_file_in_use_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "results.duckdb"
    db.open_database(file).dispose()
    holder = (
        f"import duckdb, time\nc = duckdb.connect({str(file)!r})\nprint('open', flush=True)\ntime.sleep(0.5)"
    )
    with subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(db.DatabaseBusy) as caught:
            db.open_database(file, patience_seconds=0)
        assert caught.value.pid == process.pid
        db.open_database(file, patience_seconds=30).dispose()


def test_the_database_can_be_read_without_the_rest() -> None:
    code = (
        "import sys, db\n"
        "heavy = {'torch', 'harness', 'methods', 'workloads'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
