"""The definition of the schema: tables.sql is that of the models, and reading needs no SQLAlchemy."""

import subprocess
import sys

import pytest

import db
from db.definition import TABLES, fingerprint, table_names, table_statements
from db.schema import tables_sql

HEAVY = ("sqlalchemy", "pandas", "pyarrow")


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_tables_sql_is_up_to_date() -> None:
    assert TABLES.read_text(encoding="utf-8") == tables_sql(), "run `make docs`"


def test_every_table_has_a_statement_and_a_name() -> None:
    assert set(table_names()) == set(db.Base.metadata.tables)
    assert len(table_names()) == len(table_statements())


def test_a_changed_table_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint()
    statements = table_statements()
    monkeypatch.setattr("db.definition.table_statements", lambda: [*statements[1:], statements[0]])
    assert fingerprint() != before


def test_a_file_is_read_without_sqlalchemy(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("read") / "results.duckdb"
    db.open_database(file).dispose()
    read = f"import pathlib, sys, db; db.read_file(pathlib.Path({str(file)!r})).close()"
    named = "db.view_names(), db.table_names(), db.server_url('x'), db.database_path('x')"
    loaded = run(f"{read}; {named}; print([each for each in {HEAVY!r} if each in sys.modules])")
    assert loaded == "[]"


@pytest.mark.parametrize("first", ["Base", "Task", "AuditResult", "open_database", "arrow_schema"])
def test_all_tables_are_known_whichever_name_is_used_first(first: str) -> None:
    same = f"import db; db.{first}; print(set(db.Base.metadata.tables) == set(db.table_names()))"
    assert run(same) == "True"


def test_every_name_is_found_and_no_other() -> None:
    assert all(getattr(db, name) is not None for name in db.__all__)
    assert dir(db) == db.__all__
    with pytest.raises(AttributeError, match="nothing"):
        getattr(db, "nothing")  # noqa: B009
