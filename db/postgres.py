"""A PostgreSQL server: everything is in a schema of our own, and collectors take turns.

Nothing outside the schema `privbench` is ever created, changed or dropped; everything inside it is ours.
"""

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from pyarrow import csv

from db.address import shown
from db.errors import DatabaseError
from db.models import Schema
from db.schema import check_schema, create_schema

SCHEMA = "privbench"
LOCK = 0x70726976
"""The advisory lock that a collector holds while it writes: `priv`, in bytes."""

RELATIONS = sa.text(
    "select c.relname, c.relkind in ('v', 'm') as is_view from pg_class c "
    "join pg_namespace n on n.oid = c.relnamespace where n.nspname = :schema and c.relkind in ('r', 'v', 'm')"
)


def open_server(url: sa.URL, read_only: bool) -> sa.Engine:
    """Connect; unless read-only, create what is missing."""
    engine = connect(url)
    try:
        with engine.begin() as connection:
            if not read_only:
                lock(connection)
            if not read_only and not _schema_exists(connection):
                connection.execute(sa.schema.CreateSchema(SCHEMA))
            if not read_only and not connection.execute(RELATIONS, {"schema": SCHEMA}).first():
                create_schema(connection)
            _check(connection, url)
    except sa.exc.DBAPIError as error:
        engine.dispose()
        raise DatabaseError(f"{shown(url)} cannot be used: {_first_line(error)}") from error
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextmanager
def read_server(url: sa.URL) -> Iterator[sa.Connection]:
    """One connection in one read-only transaction: all its statements see the same snapshot."""
    snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    engine = connect(url).execution_options(**snapshot)
    with ExitStack() as stack:
        stack.callback(engine.dispose)
        try:
            connection = stack.enter_context(engine.connect())
            _check(connection, url)
        except sa.exc.DBAPIError as error:
            raise DatabaseError(f"{shown(url)} cannot be used: {_first_line(error)}") from error
        yield connection


def connect(url: sa.URL) -> sa.Engine:
    """An engine whose unqualified names resolve to our schema."""
    try:
        return sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            connect_args={"options": f"-c search_path={SCHEMA}", "application_name": "privbench"},
            poolclass=sa.NullPool,
        )
    except ModuleNotFoundError as error:
        raise DatabaseError("PostgreSQL needs psycopg: pip install 'privbench[postgres]'") from error


def lock(connection: sa.Connection) -> None:
    """Wait until no other collector writes; released when the transaction ends, however it ends."""
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))


def rebuild(connection: sa.Connection) -> None:
    """Drop the content of our schema and recreate it, inside the connection's transaction.

    DatabaseError if the schema is not ours, or if other views depend on ours.
    """
    if not _schema_exists(connection):
        connection.execute(sa.schema.CreateSchema(SCHEMA))
    found = connection.execute(RELATIONS, {"schema": SCHEMA}).all()
    if found and Schema.__tablename__ not in [row.relname for row in found]:
        raise DatabaseError(f"its schema '{SCHEMA}' is not privbench's: give another database")
    quote = connection.dialect.identifier_preparer.quote
    try:
        for kind, is_view in (("view", True), ("table", False)):
            names = [f"{SCHEMA}.{quote(row.relname)}" for row in found if row.is_view is is_view]
            if names:
                connection.execute(sa.text(f"drop {kind} {', '.join(names)} restrict"))
    except sa.exc.DBAPIError as error:
        raise DatabaseError(
            f"the views of another version cannot be replaced: {_first_line(error)}; drop what depends on "
            f"schema '{SCHEMA}' and collect again"
        ) from error
    create_schema(connection)


def insert(connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
    """Add rows by COPY, matching columns by name; NUL, which PostgreSQL cannot store, becomes U+FFFD."""
    import psycopg  # an extra, installed if there is a connection

    sink = io.BytesIO()
    csv.write_csv(rows, sink, csv.WriteOptions(include_header=False))
    columns = ", ".join(f'"{name}"' for name in rows.column_names)
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor().copy(f'copy "{table.name}" ({columns}) from stdin (format csv)') as copy:
            copy.write(sink.getvalue().replace(b"\x00", "\ufffd".encode()))
    except psycopg.Error as error:
        raise DatabaseError(
            f"rows of {table.name} cannot be written: {error.diag.message_primary or error}"
        ) from error


def _check(connection: sa.Connection, url: sa.URL) -> None:
    """DatabaseError unless the server holds results of this version."""
    if not _schema_exists(connection):
        raise DatabaseError(
            f"{shown(url)} holds no results: `privbench collect --database` writes them there"
        )
    check_schema(connection, f"schema '{SCHEMA}' of {shown(url)}")


def _schema_exists(connection: sa.Connection) -> bool:
    return SCHEMA in sa.inspect(connection).get_schema_names()


def _first_line(error: sa.exc.DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0]
