"""Access to a DuckDB file: wait until others release it, and read it by a connection of DuckDB's own."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import duckdb

from db.definition import check_fingerprint
from db.errors import DatabaseBusy, DatabaseError

PATIENCE_SECONDS = 15.0
"""Seconds to wait for another process to release the file."""

Opened = TypeVar("Opened")


def read_file(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection of DuckDB's own, for queries verbatim."""
    require(path, read_only=True)
    connection = patiently(lambda: duckdb.connect(str(path), read_only=True), path, PATIENCE_SECONDS)
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


def require(path: Path, read_only: bool) -> None:
    """DatabaseError if a file to be read is missing."""
    if read_only and not path.is_file():
        raise DatabaseError(f"there is no database at {path}: `privbench collect` creates it")


def patiently(opening: Callable[[], Opened], path: Path, patience_seconds: float) -> Opened:
    """Open a file, waiting for others to release it; DatabaseBusy if they keep it, or DatabaseError."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            return opening()
        except duckdb.Error as error:
            message = str(error)
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
