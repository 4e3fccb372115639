"""Open a database of either kind (db/address.py), and insert Arrow tables."""

from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from db import file, postgres
from db.access import PATIENCE_SECONDS
from db.address import database_path, server_url


def open_database(
    database: str | Path, read_only: bool = False, patience_seconds: float = PATIENCE_SECONDS
) -> sa.Engine:
    """Open a database; unless read-only, create what is missing.

    Waits up to `patience_seconds` for another process to release a DuckDB file. The engine holds the file
    until `dispose()`. Raises DatabaseError, DatabaseBusy or DatabaseOutdated.
    """
    url = server_url(database)
    if url is not None:
        return postgres.open_server(url, read_only)
    return file.open_file(database_path(database), read_only, patience_seconds)


def begin_writing(connection: sa.Connection, rebuild: bool = False) -> None:
    """Lock out other writers until the transaction ends; `rebuild` empties a server's database in it.

    A DuckDB file has one writer anyway, and is rebuilt as another file.
    """
    if connection.dialect.name == "postgresql":
        postgres.lock(connection)
        if rebuild:
            postgres.rebuild(connection)


def insert_arrow(connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
    """Add rows in bulk inside the connection's transaction, matching columns by name."""
    if not connection.in_transaction():
        connection.begin()  # SQLAlchemy begins one by itself, but not for the driver's own statements
    insert = postgres.insert if connection.dialect.name == "postgresql" else file.insert
    insert(connection, table, rows)
