"""A DuckDB file: opened by one writer or several readers, and filled from Arrow."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import sqlalchemy as sa

from db.errors import DatabaseBusy, DatabaseError
from db.schema import check_fingerprint, check_schema, create_schema

PATIENCE_SECONDS = 15.0
"""Seconds to wait for another process to release the file."""

Opened = TypeVar("Opened")


def open_file(path: Path, read_only: bool, patience_seconds: float) -> sa.Engine:
    """Open a DuckDB file, waiting for others to release it; unless read-only, create what is missing.

    The engine holds the file until `dispose()`.
    """
    _require(path, read_only)
    engine = sa.create_engine(
        sa.URL.create("duckdb", database=str(path)), connect_args={"read_only": read_only}
    )
    try:
        _patiently(lambda: engine.connect().close(), path, patience_seconds)
        with engine.begin() as connection:
            if not read_only and not sa.inspect(connection).get_table_names():
                create_schema(connection)
            check_schema(connection, str(path))
    except BaseException:
        engine.dispose()
        raise
    return engine


def read_file(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection of DuckDB's own, for queries verbatim."""
    _require(path, read_only=True)
    connection = _patiently(lambda: duckdb.connect(str(path), read_only=True), path, PATIENCE_SECONDS)
    try:
        found = connection.execute("select fingerprint from privbench_schema").fetchone()
        check_fingerprint(found[0] if found else None, str(path))
    except duckdb.Error:
        connection.close()
        check_fingerprint(None, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def insert(connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
    """Add rows in bulk, matching columns by name."""
    driver: Any = connection.connection.driver_connection
    ordered = rows.select([column.name for column in table.columns])
    # In one piece, since DuckDB is slow on many small ones; and not by a registered view, which would keep
    # the rows in memory until the transaction ends.
    driver.from_arrow(ordered.combine_chunks()).insert_into(table.name)


def _require(path: Path, read_only: bool) -> None:
    if read_only and not path.is_file():
        raise DatabaseError(f"there is no database at {path}: `privbench collect` creates it")


def _patiently(opening: Callable[[], Opened], path: Path, patience_seconds: float) -> Opened:
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return opening()
        except (sa.exc.DBAPIError, duckdb.Error) as error:
            message = str(error.orig if isinstance(error, sa.exc.DBAPIError) else error)
            busy = _busy(message, path)
            if busy is None:
                raise DatabaseError(
                    f"{path} cannot be opened: {message.strip().splitlines()[0]}. "
                    "`privbench collect --rebuild` builds a new one from the store"
                ) from error
            if time.monotonic() >= deadline:
                raise busy from error
        time.sleep(0.1)


def _busy(message: str, path: Path) -> DatabaseBusy | None:
    # DuckDB has no error code for it. The second text: this process has it open in another mode.
    if "Could not set lock" in message:
        pid = re.search(r"\(PID (\d+)\)", message)
        return DatabaseBusy(path, int(pid[1]) if pid else None)
    if "different configuration" in message:
        return DatabaseBusy(path, None)
    return None
