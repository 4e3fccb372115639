"""Open a database of either kind, and insert Arrow tables.

A database is the path of a DuckDB file, `duckdb:///PATH`, or `postgresql+psycopg://USER@HOST/NAME`.
"""

from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from db import file, postgres
from db.errors import DatabaseError


def open_database(
    database: str | Path, read_only: bool = False, patience_seconds: float = file.PATIENCE_SECONDS
) -> sa.Engine:
    """Open a database; unless read-only, create what is missing.

    Waits up to `patience_seconds` for another process to release a DuckDB file. The engine holds the file
    until `dispose()`. Raises DatabaseError, DatabaseBusy or DatabaseOutdated.
    """
    url = server_url(database)
    if url is not None:
        return postgres.open_server(url, read_only)
    return file.open_file(database_path(database), read_only, patience_seconds)


def server_url(database: str | Path) -> sa.URL | None:
    """The URL of a PostgreSQL database; None for a file."""
    if isinstance(database, Path) or "://" not in database:
        return None
    try:
        url = make_url(database)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise DatabaseError(
            "the database's URL cannot be parsed: write postgresql+psycopg://USER@HOST/NAME or duckdb:///PATH"
        ) from error
    return url if url.get_backend_name() in ("postgresql", "postgres") else None


def database_path(database: str | Path) -> Path:
    """The file a path or a `duckdb:///` URL names; DatabaseError for other kinds of database."""
    if isinstance(database, str) and "://" in database:
        url = make_url(database)
        if url.get_backend_name() != "duckdb" or not url.database or url.database == ":memory:":
            raise DatabaseError(
                f"'{postgres.shown(url)}' cannot hold results: give the path of a DuckDB file, "
                "duckdb:///PATH or postgresql+psycopg://USER@HOST/NAME"
            )
        return Path(url.database)
    return Path(database)


def database_name(database: str | Path) -> str:
    """The database's name for display, without a password."""
    url = server_url(database)
    return postgres.shown(url) if url is not None else str(database_path(database))


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
