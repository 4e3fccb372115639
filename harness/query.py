"""Ask the database in SQL, strictly read-only, and write the answer as text or Parquet.

Four walls, each enough for most of what could go wrong: the file is opened read-only; only one
SELECT-like statement is taken; it may call only table functions from a list (some of DuckDB's
write, e.g. `enable_logging`); and DuckDB may touch no file but the step series it is asked for.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import db
from harness.spec import Json
from harness.store import Store
from workloads.errors import SpecError, StoreError

FORMATS = ("table", "csv", "json", "parquet")

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
"""Table functions a query may call: none reads or writes anything outside the database."""

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


@dataclass(frozen=True)
class Answer:
    """The rows a query gave."""

    arrow: pa.Table
    json_columns: frozenset[str] = frozenset()
    """Columns whose text is JSON."""

    @property
    def columns(self) -> list[str]:
        """The columns' names; a repeated name has got a number."""
        return list(self.arrow.column_names)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as Python values."""
        columns = [column.to_pylist() for column in self.arrow.columns]
        return list(zip(*columns, strict=True))


def query(store_path: Path | str, sql: str) -> Answer:
    """Answer one SELECT, EXPLAIN, DESCRIBE, SHOW or SUMMARIZE on the store's database.

    Beside the tables and views there is `steps`: the full series of every step. SpecError for SQL
    that is wrong or not allowed, StoreError where there is no database.
    """
    store = Store.open(store_path)
    tree = _checked(sql)
    connection = _connect(store)
    try:
        if _names_steps(tree):
            _show_steps(connection, store)
        _wall_in(connection)
        cursor = connection.execute(sql)
        description = cursor.description or []
        arrow = cursor.to_arrow_table()
    except duckdb.Error as error:
        raise SpecError(_explained(str(error))) from error
    finally:
        connection.close()
    names = _distinct([column[0] for column in description])
    described = zip(names, description, strict=True)
    is_json = frozenset(name for name, column in described if str(column[1]) == "JSON")
    return Answer(arrow.rename_columns(names), is_json)


# -- walls -----------------------------------------------------------------------------------------


def _checked(sql: str) -> Json:
    """The syntax tree of the one statement in `sql`; SpecError unless it only reads."""
    with duckdb.connect() as parser:
        # Parsing alone can read files: IMPORT DATABASE is replaced by what it imports.
        _wall_in(parser)
        try:
            statements = parser.extract_statements(sql)
        except duckdb.Error as error:
            raise SpecError(_explained(str(error))) from error
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
    """DuckDB's own tree of a SELECT-like statement, None for any other statement."""
    text = statement.query
    if statement.type == duckdb.StatementType.EXPLAIN:
        # What is explained must itself only read: EXPLAIN ANALYZE runs it.
        text = re.sub(r"^\s*explain(\s+analyze)?\s", "", text, count=1, flags=re.IGNORECASE)
    row = parser.execute("select json_serialize_sql(?::varchar)", [text]).fetchone()
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


def _connect(store: Store) -> duckdb.DuckDBPyConnection:
    try:
        # Waits for a collector to finish, and refuses a database of another version.
        db.open_database(store.database, read_only=True).dispose()
        return duckdb.connect(str(store.database), read_only=True)
    except (db.DatabaseError, duckdb.Error) as error:
        raise StoreError(str(error)) from error


def _show_steps(connection: duckdb.DuckDBPyConnection, store: Store) -> None:
    """Make the view `steps` and let DuckDB read exactly its files: a folder could be written to."""
    listed = connection.execute("select steps_file from task where steps_file is not null")
    files = [str(file) for (name,) in listed.fetchall() if (file := store.path / name).is_file()]
    if not files:
        connection.execute(EMPTY_STEPS)
        return
    paths = "[" + ", ".join("'" + file.replace("'", "''") + "'" for file in files) + "]"
    connection.execute(f"set allowed_paths = {paths}")
    connection.execute(
        "create temp view steps as select parse_path(filename)[-2] as task, * exclude (filename) "
        f"from read_parquet({paths}, union_by_name = true, filename = true)"
    )


def _explained(message: str) -> str:
    """DuckDB's message in one line, and what there is to ask."""
    line = message.strip().splitlines()[0]
    tables = sorted(set(db.Base.metadata.tables) - {"privbench_schema"})
    views = [*db.view_names(), "steps"]
    return f"{line}\nviews: {', '.join(views)}; tables: {', '.join(tables)}"


def _distinct(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return out


# -- formats ---------------------------------------------------------------------------------------


def render(answer: Answer, form: str, output: Path | None = None) -> str:
    """The answer as `table`, `csv`, `json` or `parquet`.

    With an output the file gets it and the text says so; Parquet is never text and needs one.
    """
    if form not in FORMATS:
        raise SpecError(f"unknown format '{form}'. Known: {', '.join(FORMATS)}.")
    if form == "parquet":
        if output is None:
            raise SpecError("parquet is not text: give a file with --output")
        pq.write_table(answer.arrow, output)
    else:
        text = {"table": _as_table, "csv": _as_csv, "json": _as_json}[form](answer)
        if output is None:
            return text
        output.write_text(text, encoding="utf-8")
    return f"{answer.arrow.num_rows} rows written to {output}\n"


def _as_json(answer: Answer) -> str:
    rows = [
        {
            name: json_value(json.loads(value) if name in answer.json_columns and value else value)
            for name, value in zip(answer.columns, row, strict=True)
        }
        for row in answer.rows
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def json_value(value: Any) -> Any:
    """A value that JSON has: infinities as the strings `inf` and `-inf`, NaN as null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {str(key): json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each) for each in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):  # what DuckDB sums integers to
        return int(value) if value == value.to_integral_value() else float(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _as_csv(answer: Answer) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows(answer.rows)
    return out.getvalue()


def _as_table(answer: Answer) -> str:
    """Columns in line, numbers to the right; for people, so long texts and digits are cut."""
    rows = [[_cell_text(value) for value in row] for row in answer.rows]
    columns = list(zip(answer.columns, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [pa.types.is_primitive(kind) for kind in answer.arrow.schema.types]
    lines = [
        "  ".join(
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [answer.columns, ["-" * width for width in widths], *rows]
    ]
    count = len(rows)
    return "\n".join([*lines, f"({count} row{'' if count == 1 else 's'})"]) + "\n"


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    # A stored message may hold line breaks or a terminal's control codes.
    text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= 60 else text[:59] + "…"
