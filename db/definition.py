"""The definition of the schema: the statements of its tables and views, and their fingerprint.

Without SQLAlchemy, so that a query starts quickly. tables.sql is generated from db/models.py and
db/findings.py (`make docs`; a test compares them): no fingerprint depends on the version of SQLAlchemy.
"""

import hashlib
import re
from pathlib import Path

from db.errors import DatabaseError, DatabaseOutdated

VERSION = 3
"""Raised when the meaning of a column changes; databases are then rebuilt."""

TABLES = Path(__file__).with_name("tables.sql")
VIEWS = Path(__file__).with_name("views.sql")


def fingerprint() -> str:
    """A hash of all tables and views, so that no change of the schema goes unnoticed."""
    text = "\n".join([str(VERSION), *table_statements(), *view_statements()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_fingerprint(made_with: str | None, name: str) -> None:
    """DatabaseError unless `made_with`, found in the database called `name`, is ours; None if it has none."""
    if made_with is None:
        raise DatabaseError(f"{name} is not a database of privbench: give another one")
    if made_with != fingerprint():
        raise DatabaseOutdated(f"{name} is of another version of privbench: `privbench collect` rebuilds it")


def table_statements() -> list[str]:
    """The statements of tables.sql, in order."""
    return _statements(TABLES)


def table_names() -> list[str]:
    """The tables' names, in the order of tables.sql."""
    return re.findall(r"^CREATE TABLE (\w+)", "\n".join(table_statements()), re.MULTILINE)


def view_statements() -> list[str]:
    """The statements of views.sql, in order."""
    return _statements(VIEWS)


def view_names() -> list[str]:
    """The views' names, in the order of views.sql."""
    return re.findall(r"^create view (\w+)", "\n".join(view_statements()), re.MULTILINE)


def _statements(file: Path) -> list[str]:
    return [each.strip() for each in file.read_text(encoding="utf-8").split(";\n") if each.strip()]
