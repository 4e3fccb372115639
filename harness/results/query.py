"""SQL queries of the database, strictly read-only.

query_server.py is for PostgreSQL. DuckDB is behind four walls, each enough for most of what could go wrong:
the file is opened read-only; only one SELECT-like statement is accepted; it may call only table functions
from a list (some of DuckDB's write, e.g. `enable_logging`); and DuckDB may open no file but the requested
step series.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import duckdb

import db
from harness.results.table import QueryResult, distinct
from harness.spec import Json
from harness.store import Store
from workloads.errors import SpecError, StoreError

Source = Path | str
"""The source of rows: a store's folder, or the URL of a database (db/address.py)."""

FUNCTIONS = frozenset(
    {
        "duckdb_columns",
        "duckdb_functions",
        "duckdb_tables",
        "duckdb_views",
        "generate_series",
        "json_each",
        "json_tree",
        "pragma_show",
        "pragma_table_info",
        "pragma_version",
        "range",
        "repeat",
        "summary",
        "unnest",
    }
)
"""The table functions a query may call: none reads or writes anything outside the database."""

WALLS = (
    "set autoinstall_known_extensions = false",
    "set autoload_known_extensions = false",
    "set allow_persistent_secrets = false",
    "set python_enable_replacements = false",  # else a query reads this module's variables
    "set temp_directory = ''",  # else a large sort spills into the store
    "set enable_external_access = false",
    "set lock_configuration = true",
)

EMPTY_STEPS = (
    "create temp view steps as select null::varchar as task, null::varchar as phase, "
    "null::integer as step, null::double as wall_seconds, null::double as cpu_seconds where false"
)


class Reader(Protocol):
    """A read-only snapshot of a database: one connection, one transaction."""

    def execute(self, sql: str) -> QueryResult:
        """Execute one SELECT-like statement; SpecError for SQL that is wrong or not allowed."""
        ...


@contextmanager
def open_reader(source: Source) -> Iterator[Reader]:
    """Open a store's database, or another one, for several statements on one snapshot.

    Besides the tables and views a store has `steps`: the full series of every step. StoreError without a
    database.
    """
    try:
        url = db.server_url(source)
        with ExitStack() as stack:
            if url is not None:
                from harness.results.query_server import read_server

                yield stack.enter_context(read_server(url))
            else:
                yield stack.enter_context(FileReader(source))
    except db.DatabaseError as error:
        raise StoreError(str(error)) from error


def query(source: Source, sql: str) -> QueryResult:
    """Execute one SELECT, EXPLAIN, DESCRIBE, SHOW or SUMMARIZE on a store's database, or another one."""
    refuse_other_bytes(sql)
    with open_reader(source) as reader:
        return reader.execute(sql)


def refuse_other_bytes(sql: str) -> None:
    """SpecError for bytes of the command line that are not text, and for NUL, which ends a statement."""
    if "\0" in sql:
        raise SpecError("a query must be text without NUL characters", field="query", value=sql[:100])
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise SpecError(f"a query must be UTF-8 text, got other bytes: {error.reason}") from error


def is_url(source: Source) -> bool:
    """Whether a source is a database by itself, without the store it was collected from."""
    return isinstance(source, str) and "://" in source


def explained(message: str, views: list[str], remark: str = "") -> str:
    """The database's message with its hint, without the position; and the available views and tables."""
    # Text after the first blank line repeats the statement.
    problem = " ".join(message.strip().split("\n\n")[0].split())
    tables = sorted(set(db.table_names()) - {"privbench_schema"})
    return f"{problem}\nviews: {', '.join(views)}; tables: {', '.join(tables)}{remark}"


class FileReader:
    """The reader of a DuckDB file.

    The file is opened for the first statement, which determines whether `steps` is created: once the walls
    are up, no other file can be opened.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.store = None if is_url(source) else Store.open(source)
        self._open = ExitStack()
        self._parser: duckdb.DuckDBPyConnection | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._has_steps = False

    def __enter__(self) -> "FileReader":
        """Open the parser of statements, separate from the database."""
        self._parser = self._open.enter_context(duckdb.connect())
        # Parsing alone can read files: IMPORT DATABASE is replaced by what it imports.
        _wall_in(self._parser)
        return self

    def __exit__(self, *_: object) -> None:
        """End the transaction and release the file."""
        self._open.close()

    def execute(self, sql: str) -> QueryResult:
        """Execute one SELECT-like statement; SpecError for SQL that is wrong or not allowed."""
        refuse_other_bytes(sql)
        if self._parser is None:
            raise ValueError("a reader must be used inside its `with` block")
        tree = _checked(self._parser, sql)
        try:
            cursor = self._connected(_names_steps(tree)).execute(sql)
            description = cursor.description or []
            arrow = cursor.to_arrow_table()
        except duckdb.Error as error:
            raise SpecError(_explained(error)) from error
        names = distinct([column[0] for column in description])
        described = zip(names, description, strict=True)
        is_json = frozenset(name for name, column in described if str(column[1]) == "JSON")
        return QueryResult(arrow.rename_columns(names), is_json)

    def _connected(self, with_steps: bool) -> duckdb.DuckDBPyConnection:
        """The connection, inside its transaction."""
        if self._connection is None:
            self._connection = self._connect(with_steps)
            self._has_steps = with_steps
        if with_steps and not self._has_steps:
            raise ValueError("a reader shows `steps` only if its first statement uses it")
        return self._connection

    def _connect(self, with_steps: bool) -> duckdb.DuckDBPyConnection:
        path = self.store.database if self.store else db.database_path(self.source)
        connection = self._open.enter_context(db.read_file(path))
        if with_steps:
            if self.store is None:
                raise SpecError("`steps` is read from a store's files: leave --database out to query it")
            _show_steps(connection, self.store)
        _wall_in(connection)
        connection.execute("begin transaction read only")
        return connection


def _explained(error: duckdb.Error) -> str:
    return explained(str(error), [*db.view_names(), "steps"])


# -- walls -----------------------------------------------------------------------------------------


def _checked(parser: duckdb.DuckDBPyConnection, sql: str) -> Json:
    """The syntax tree of the one statement in `sql`; SpecError unless it only reads."""
    try:
        statements = parser.extract_statements(sql)
    except duckdb.Error as error:
        raise SpecError(_explained(error)) from error
    if len(statements) != 1:
        hint = " (a PIVOT lists its values: `on x in (...)`)" if statements else ""
        raise SpecError(f"a query is one statement, got {len(statements)}{hint}: give a single SELECT")
    tree = _parsed(parser, statements[0])
    if tree is None:
        kind = statements[0].type.name
        raise SpecError(f"a query only reads, got {kind}: give a SELECT, DESCRIBE, SHOW or EXPLAIN")
    for name in sorted(_functions(tree) - FUNCTIONS):
        raise SpecError(
            f"a query cannot call {name}(); table functions it can: {', '.join(sorted(FUNCTIONS))}"
        )
    return tree


def _wall_in(connection: duckdb.DuckDBPyConnection) -> None:
    for wall in WALLS:
        connection.execute(wall)


def _parsed(parser: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> Json | None:
    """DuckDB's syntax tree of a SELECT-like statement, None for any other statement."""
    text = statement.query
    if statement.type == duckdb.StatementType.EXPLAIN:
        # The explained statement must itself only read: EXPLAIN ANALYZE runs it.
        text = re.sub(r"^\s*explain(\s+analyze)?\s", "", text, count=1, flags=re.IGNORECASE)
    if "\0" in text:  # ends a statement, but no text in it
        return None
    # Not as a parameter: to find out its type DuckDB would import pandas, which takes longer than the query.
    row = parser.execute(f"select json_serialize_sql({_quoted(text)})").fetchone()
    tree: Json = json.loads(row[0]) if row else {"error": True}
    return None if tree["error"] else tree


def _functions(tree: Json) -> set[str]:
    called = (node["function"] for node in _nodes(tree) if node.get("type") == "TABLE_FUNCTION")
    return {str(function["function_name"]).lower() for function in called}


def _names_steps(tree: Json) -> bool:
    return any(str(node.get("table_name", "")).lower() == "steps" for node in _nodes(tree))


def _nodes(tree: Any) -> Iterator[Json]:
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(child, dict | list):
            yield from _nodes(child)


def _show_steps(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """Create the view `steps` and allow DuckDB exactly its files: a folder could be written to."""
    listed = connection.execute("select steps_file from task where steps_file is not null")
    files = [str(file) for (name,) in listed.fetchall() if (file := store.path / name).is_file()]
    if not files:
        connection.execute(EMPTY_STEPS)
        return
    paths = "[" + ", ".join(map(_quoted, files)) + "]"
    connection.execute(f"set allowed_paths = {paths}")
    connection.execute(
        "create temp view steps as select t.key as task, s.* exclude (filename) "
        f"from read_parquet({paths}, union_by_name = true, filename = true) s "
        f"join task t on s.filename = {_quoted(str(store.path))} || '/' || t.steps_file"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
