"""The schema of a database: its tables and views, created together and identified by one fingerprint."""

import hashlib
import re
from functools import cache
from importlib import resources
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from db.errors import DatabaseError, DatabaseOutdated
from db.models import VERSION, Base, Schema

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


def check_fingerprint(made_with: str | None, name: str) -> None:
    """The same from the fingerprint found in it; None if it has none."""
    if made_with is None:
        raise DatabaseError(f"{name} is not a database of privbench: give another one")
    if made_with != fingerprint():
        raise DatabaseOutdated(f"{name} is of another version of privbench: `privbench collect` rebuilds it")


def fingerprint() -> str:
    """A hash of all tables and views, so that no change of the schema goes unnoticed."""
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


@cache
def arrow_schema(table: sa.Table) -> pa.Schema:
    """The Arrow schema of a table; JSON as text."""
    return pa.schema([(column.name, _arrow_type(column.type)) for column in table.columns])


def _arrow_type(kind: sa.types.TypeEngine[Any]) -> pa.DataType:
    return next(arrow for ours, arrow in ARROW.items() if isinstance(kind, ours))
