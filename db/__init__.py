"""The database: tables, views, and how to open it. Readable without the rest of privbench."""

from db.engine import (
    begin_writing,
    database_name,
    database_path,
    insert_arrow,
    open_database,
    server_url,
)
from db.errors import DatabaseBusy, DatabaseError, DatabaseOutdated
from db.file import read_file
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
from db.schema import arrow_schema, fingerprint, view_names

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
    "view_names",
]
