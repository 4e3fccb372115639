"""A DuckDB file under SQLAlchemy: opened by one writer or several readers, and filled from Arrow."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlalchemy as sa

from db.access import patiently, require
from db.schema import check_schema, create_schema


def open_file(path: Path, read_only: bool, patience_seconds: float) -> sa.Engine:
    """Open a DuckDB file, waiting for others to release it; unless read-only, create what is missing.

    The engine holds the file until `dispose()`.
    """
    require(path, read_only)
    engine = sa.create_engine(
        sa.URL.create("duckdb", database=str(path)), connect_args={"read_only": read_only}
    )
    try:
        patiently(lambda: _try(engine), path, patience_seconds)
        with engine.begin() as connection:
            if not read_only and not sa.inspect(connection).get_table_names():
                create_schema(connection)
            check_schema(connection, str(path))
    except BaseException:
        engine.dispose()
        raise
    return engine


def insert(connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
    """Add rows in bulk, matching columns by name."""
    driver: Any = connection.connection.driver_connection
    ordered = rows.select([column.name for column in table.columns])
    # In one piece, since DuckDB is slow on many small ones; and not by a registered view, which would keep
    # the rows in memory until the transaction ends.
    driver.from_arrow(ordered.combine_chunks()).insert_into(table.name)


def _try(engine: sa.Engine) -> None:
    """Connect once; DuckDB's own error if it cannot."""
    try:
        engine.connect().close()
    except sa.exc.DBAPIError as error:
        if isinstance(error.orig, duckdb.Error):
            raise error.orig from None
        raise
