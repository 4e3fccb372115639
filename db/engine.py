"""Open the database, make its tables and views, and put Arrow tables into it."""

import hashlib
import re
import time
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateTable

from db.models import VERSION, Base, Schema

ARROW: dict[type[sa.types.TypeEngine[Any]], pa.DataType] = {
    sa.BigInteger: pa.int64(),
    sa.Double: pa.float64(),
    sa.Boolean: pa.bool_(),
    sa.DateTime: pa.timestamp("us"),
    sa.String: pa.string(),
    sa.JSON: pa.string(),
}


class DatabaseError(Exception):
    """The database cannot be used as it is; the message says why and what to do."""


class DatabaseBusy(DatabaseError):
    """Another process has the file open: DuckDB admits one writer, or several readers."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.pid = pid
        holder = f"process {pid}" if pid else "another connection"
        super().__init__(f"the database {path} is in use by {holder}: wait for it to end, then try again")


class DatabaseOutdated(DatabaseError):
    """The tables or views are another version's: to be rebuilt from the store, never migrated."""


def open_database(database: str | Path, read_only: bool = False, patience_seconds: float = 5.0) -> sa.Engine:
    """Open a DuckDB file (a path or a `duckdb:///` URL); unless read-only, make what is missing.

    Waits up to `patience_seconds` for another process to let the file go. The engine holds the file
    until `dispose()`. Raises DatabaseError, DatabaseBusy or DatabaseOutdated.
    """
    path = database_path(database)
    if read_only and not path.is_file():
        raise DatabaseError(f"there is no database at {path}: `privbench collect` makes it")
    engine = sa.create_engine(
        sa.URL.create("duckdb", database=str(path)), connect_args={"read_only": read_only}
    )
    try:
        _await_lock(engine, path, patience_seconds)
        _check_or_create(engine, path, read_only)
    except BaseException:
        engine.dispose()
        raise
    return engine


def database_path(database: str | Path) -> Path:
    """The file a path or a `duckdb:///` URL names; DatabaseError for other kinds of database."""
    if isinstance(database, str) and "://" in database:
        url = make_url(database)
        if url.get_backend_name() != "duckdb" or not url.database or url.database == ":memory:":
            raise DatabaseError(
                f"'{url.render_as_string()}' cannot hold results: give the path of a DuckDB file "
                "or duckdb:///PATH"
            )
        return Path(url.database)
    return Path(database)


def fingerprint() -> str:
    """A hash of every table and view, so that no change of the schema can be forgotten."""
    tables = [str(CreateTable(table)) for table in Base.metadata.sorted_tables]
    text = "\n".join([str(VERSION), *tables, *view_statements()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def view_statements() -> list[str]:
    """The statements of views.sql, in order."""
    text = resources.files("db").joinpath("views.sql").read_text(encoding="utf-8")
    return [each.strip() for each in text.split(";\n") if each.strip()]


def view_names() -> list[str]:
    """The views' names, in the order of views.sql."""
    return re.findall(r"^create view (\w+)", "\n".join(view_statements()), re.MULTILINE)


def insert_arrow(connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
    """Add rows in bulk inside the connection's transaction, matching columns by name."""
    if not connection.in_transaction():
        connection.begin()  # SQLAlchemy begins one by itself, but not for what the driver is told
    driver: Any = connection.connection.driver_connection
    driver.register("incoming", rows.combine_chunks())  # DuckDB is slow on many small pieces
    driver.execute(f'insert into "{table.name}" by name select * from incoming')
    driver.unregister("incoming")


@cache
def arrow_schema(table: sa.Table) -> pa.Schema:
    """The Arrow schema of a table; JSON travels as text."""
    return pa.schema([(column.name, _arrow_type(column.type)) for column in table.columns])


def _arrow_type(kind: sa.types.TypeEngine[Any]) -> pa.DataType:
    return next(arrow for ours, arrow in ARROW.items() if isinstance(kind, ours))


def _await_lock(engine: sa.Engine, path: Path, patience_seconds: float) -> None:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            engine.connect().close()
            return
        except sa.exc.DBAPIError as error:
            busy = _busy(str(error.orig), path)
            if busy is None:
                raise DatabaseError(
                    f"{path} cannot be opened: {_first_line(error)}. `privbench collect --rebuild` "
                    "makes a new one from the store"
                ) from error
            if time.monotonic() >= deadline:
                raise busy from error
        time.sleep(0.1)


def _busy(message: str, path: Path) -> DatabaseBusy | None:
    # DuckDB has no error code for it. The second text: this very process has it open otherwise.
    if "Could not set lock" in message:
        pid = re.search(r"\(PID (\d+)\)", message)
        return DatabaseBusy(path, int(pid[1]) if pid else None)
    if "different configuration" in message:
        return DatabaseBusy(path, None)
    return None


def _first_line(error: sa.exc.DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0]


def _check_or_create(engine: sa.Engine, path: Path, read_only: bool) -> None:
    with engine.begin() as connection:
        tables = set(sa.inspect(connection).get_table_names())
        if not tables and not read_only:
            Base.metadata.create_all(connection)
            for statement in view_statements():
                connection.exec_driver_sql(statement)
            connection.execute(sa.insert(Schema).values(fingerprint=fingerprint()))
            return
        if Schema.__tablename__ not in tables:
            raise DatabaseError(f"{path} is no database of privbench: give another path")
        made_with = connection.scalar(sa.select(Schema.fingerprint))
        if made_with != fingerprint():
            raise DatabaseOutdated(
                f"{path} was made by another version of privbench: `privbench collect` rebuilds it"
            )
