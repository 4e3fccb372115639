"""The schema of a database: its tables and views, created together and checked by their fingerprint."""

import re
from functools import cache
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from db import findings, tune_tables  # noqa: F401  # their tables are part of Base.metadata
from db.definition import check_fingerprint, fingerprint, view_statements
from db.models import Base, Schema

ARROW: dict[type[sa.types.TypeEngine[Any]], pa.DataType] = {
    sa.BigInteger: pa.int64(),
    sa.Double: pa.float64(),
    sa.Boolean: pa.bool_(),
    sa.DateTime: pa.timestamp("us"),
    sa.String: pa.string(),
    sa.JSON: pa.string(),
}


def create_schema(connection: sa.Connection) -> None:
    """Create all tables and views, and record their version."""
    Base.metadata.create_all(connection)
    driver: Any = connection.connection.driver_connection
    for statement in view_statements():
        driver.execute(statement)  # by the driver: SQLAlchemy would take a % for a parameter
    connection.execute(sa.insert(Schema).values(fingerprint=fingerprint()))


def check_schema(connection: sa.Connection, name: str) -> None:
    """DatabaseError unless this version of privbench created the database called `name`."""
    ours = Schema.__tablename__ in sa.inspect(connection).get_table_names()
    check_fingerprint(connection.scalar(sa.select(Schema.fingerprint)) if ours else None, name)


def tables_sql() -> str:
    """The content of tables.sql: a statement per table, as the models define it."""
    statements = (str(CreateTable(table)).strip() for table in Base.metadata.sorted_tables)
    return "\n".join(re.sub(r"[ \t]+$", "", f"{each};\n", flags=re.MULTILINE) for each in statements)


@cache
def arrow_schema(table: sa.Table) -> pa.Schema:
    """The Arrow schema of a table; JSON as text."""
    return pa.schema([(column.name, _arrow_type(column.type)) for column in table.columns])


def _arrow_type(kind: sa.types.TypeEngine[Any]) -> pa.DataType:
    return next(arrow for ours, arrow in ARROW.items() if isinstance(kind, ours))
