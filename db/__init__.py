"""The database: tables, views, and how to open it. It can be read years later without the rest."""

from db.engine import (
    DatabaseBusy,
    DatabaseError,
    DatabaseOutdated,
    arrow_schema,
    database_path,
    insert_arrow,
    open_database,
    view_names,
)
from db.findings import AttackResult, AttributeResult, AuditResult, ReconstructionResult
from db.models import (
    Base,
    BenchResult,
    Cell,
    ModelRun,
    Published,
    PublishedMatch,
    StepTime,
    Task,
)

__all__ = [
    "AttackResult",
    "AttributeResult",
    "AuditResult",
    "Base",
    "BenchResult",
    "Cell",
    "DatabaseBusy",
    "DatabaseError",
    "DatabaseOutdated",
    "ModelRun",
    "Published",
    "PublishedMatch",
    "ReconstructionResult",
    "StepTime",
    "Task",
    "arrow_schema",
    "database_path",
    "insert_arrow",
    "open_database",
    "view_names",
]
