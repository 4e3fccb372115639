"""The database: tables, views, and how to open it. Readable without the rest of privbench.

What needs SQLAlchemy loads on first use: a query by DuckDB's own connection waits for none of it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from db.access import read_file
from db.address import database_name, database_path, server_url
from db.definition import fingerprint, table_names, view_names
from db.errors import DatabaseBusy, DatabaseError, DatabaseOutdated

if TYPE_CHECKING:
    from db.engine import begin_writing, insert_arrow, open_database
    from db.findings import (
        AttackResult,
        AttributeResult,
        AuditResult,
        ComparisonResult,
        FrontResult,
        ReconstructionResult,
    )
    from db.models import (
        Base,
        BenchMatch,
        BenchResult,
        Cell,
        ModelRun,
        Published,
        PublishedMatch,
        Schema,
        StepTime,
        Task,
        TaskStamp,
    )
    from db.postgres import connect as connect_server
    from db.postgres import read_server
    from db.schema import arrow_schema

__all__ = [
    "AttackResult",
    "AttributeResult",
    "AuditResult",
    "Base",
    "BenchMatch",
    "BenchResult",
    "Cell",
    "ComparisonResult",
    "DatabaseBusy",
    "DatabaseError",
    "DatabaseOutdated",
    "FrontResult",
    "ModelRun",
    "Published",
    "PublishedMatch",
    "ReconstructionResult",
    "Schema",
    "StepTime",
    "Task",
    "TaskStamp",
    "arrow_schema",
    "begin_writing",
    "connect_server",
    "database_name",
    "database_path",
    "fingerprint",
    "insert_arrow",
    "open_database",
    "read_file",
    "read_server",
    "server_url",
    "table_names",
    "view_names",
]

_HOMES = ("db.engine", "db.findings", "db.models", "db.postgres", "db.schema")
_RENAMED = {"connect_server": "connect"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'db' has no attribute {name!r}; it has {', '.join(__all__)}")
    # All at once: Base.metadata has every table whichever is named first.
    homes = [vars(importlib.import_module(home)) for home in _HOMES]
    found = next(home[key] for home in homes if (key := _RENAMED.get(name, name)) in home)
    globals()[name] = found  # the next time it is found without this function
    return found


def __dir__() -> list[str]:
    return __all__
