"""SQL queries of a PostgreSQL database, strictly read-only.

The transaction is read-only, each statement must be a SELECT because a cursor is declared for it, and it may
not take longer than TIMEOUT_SECONDS. What a role may do by calling functions of the server (read its files,
end its processes) is up to the server's administrator: give readers a role of their own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
import sqlalchemy as sa
from psycopg.types.string import TextLoader

import db
from harness.results.query import explained, refuse_other_bytes
from harness.results.table import QueryResult, distinct
from workloads.errors import SpecError

TIMEOUT_SECONDS = 60
JSON = ("json", "jsonb")
ARROW = {
    "bool": pa.bool_(),
    "int2": pa.int64(),
    "int4": pa.int64(),
    "int8": pa.int64(),
    "float4": pa.float64(),
    "float8": pa.float64(),
    "timestamp": pa.timestamp("us"),
    "date": pa.date32(),
}
"""By PostgreSQL's name of the type; a `numeric` has its own precision, all else is text."""


@contextmanager
def read_server(url: sa.URL) -> Iterator["ServerReader"]:
    """One connection to a server, in one transaction on one snapshot; db.DatabaseError without a server."""
    with db.read_server(url) as connection:
        driver: Any = connection.connection.driver_connection
        for name in JSON:  # as text
            driver.adapters.register_loader(name, TextLoader)
        driver.execute(f"set local statement_timeout = '{TIMEOUT_SECONDS}s'")
        yield ServerReader(driver)


class ServerReader:
    """The reader of a PostgreSQL database."""

    def __init__(self, driver: "psycopg.Connection[Any]") -> None:
        self._driver = driver

    def execute(self, sql: str) -> QueryResult:
        """Execute one SELECT; SpecError for SQL that is wrong or not allowed."""
        refuse_other_bytes(sql)
        try:
            return _execute(self._driver, sql)
        except psycopg.Error as error:
            raise SpecError(_explained(error)) from error


def _execute(driver: "psycopg.Connection[Any]", sql: str) -> QueryResult:
    with driver.cursor("result") as cursor:
        cursor.execute(sql)
        rows = cursor.fetchall()
        columns = cursor.description or []
    names = distinct([column.name for column in columns])
    kinds = [psycopg.adapters.types.get(column.type_code) for column in columns]
    # An array is listed under the type of its elements.
    types = [
        kind.name if kind and kind.oid == column.type_code else ""
        for kind, column in zip(kinds, columns, strict=True)
    ]
    values = [_column([row[place] for row in rows], kind) for place, kind in enumerate(types)]
    is_json = frozenset(name for name, kind in zip(names, types, strict=True) if kind in JSON)
    return QueryResult(pa.table(values, names=names), is_json)


def _column(values: list[Any], kind: str) -> pa.Array:
    if kind in ARROW:
        return pa.array(values, ARROW[kind])
    if kind == "numeric" and any(value is not None for value in values):
        return pa.array(values)
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _explained(error: psycopg.Error) -> str:
    problem = " ".join(filter(None, [error.diag.message_primary or str(error), error.diag.message_hint]))
    remark = ". `steps` is read from a store's files: leave --database out to query it"
    return explained(problem, db.view_names(), remark if "steps" in problem else "")
