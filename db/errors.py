"""The errors of databases; every message states what to do."""

from pathlib import Path


class DatabaseError(Exception):
    """The database cannot be used as it is; the message states why and what to do."""


class DatabaseBusy(DatabaseError):
    """Another process has the file open: DuckDB allows one writer, or several readers."""

    def __init__(self, path: Path, pid: int | None) -> None:
        self.pid = pid
        holder = f"process {pid}" if pid else "another connection"
        super().__init__(f"the database {path} is in use by {holder}: wait for it to end, then retry")


class DatabaseOutdated(DatabaseError):
    """The tables or views are of another version: rebuilt from the store, never migrated."""
