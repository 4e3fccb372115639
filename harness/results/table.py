"""Query results and their formats: a text table, CSV, JSON or Parquet."""

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workloads.errors import SpecError, UnknownName

FORMATS = ("table", "csv", "json", "parquet")


@dataclass(frozen=True)
class QueryResult:
    """The rows of a query."""

    arrow: pa.Table
    json_columns: frozenset[str] = frozenset()
    """Columns whose text is JSON."""

    @property
    def columns(self) -> list[str]:
        """The columns' names; duplicates are numbered."""
        return list(self.arrow.column_names)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as Python values."""
        columns = [column.to_pylist() for column in self.arrow.columns]
        return list(zip(*columns, strict=True))


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with duplicates numbered."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return out


def render(result: QueryResult, form: str, output: Path | None = None) -> str:
    """The result as `table`, `csv`, `json` or `parquet`.

    With an output it is written to the file and the text states so; Parquet is never text and needs one.
    """
    if form not in FORMATS:
        raise UnknownName("format", form, FORMATS)
    if form == "parquet" and output is None:
        raise SpecError("parquet is not text: give a file with --out")
    if output is None:
        return TEXTS[form](result)
    try:
        if form == "parquet":
            pq.write_table(result.arrow, output)
        else:
            output.write_text(TEXTS[form](result), encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{output} cannot be written: {error.strerror}; give another --out") from error
    return f"{result.arrow.num_rows} rows written to {output}\n"


def _as_json(result: QueryResult) -> str:
    rows = [
        {
            name: json_value(json.loads(value) if name in result.json_columns and value else value)
            for name, value in zip(result.columns, row, strict=True)
        }
        for row in result.rows
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def json_value(value: Any) -> Any:
    """A value as JSON allows it: infinities as the strings `inf` and `-inf`, NaN as null."""
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


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A header and rows as in RFC 4180, but with plain line ends."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


def _as_csv(result: QueryResult) -> str:
    return csv_text(result.columns, result.rows)


def _as_table(result: QueryResult) -> str:
    """Aligned columns, numbers to the right; long texts and digits are cut."""
    rows = [[_cell_text(value) for value in row] for row in result.rows]
    columns = list(zip(result.columns, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [pa.types.is_primitive(kind) for kind in result.arrow.schema.types]
    lines = [
        "  ".join(
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [result.columns, ["-" * width for width in widths], *rows]
    ]
    count = len(rows)
    return "\n".join([*lines, f"({count} row{'' if count == 1 else 's'})"]) + "\n"


def text_rows(result: QueryResult) -> list[dict[str, str]]:
    """The rows as the text table shows them, by column."""
    return [dict(zip(result.columns, map(_cell_text, row), strict=True)) for row in result.rows]


def _cell_text(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    # A stored message may hold line breaks or control codes of a terminal.
    text = "".join(each if each.isprintable() else " " for each in text)
    return text if len(text) <= 60 else text[:59] + "…"


TEXTS = {"table": _as_table, "csv": _as_csv, "json": _as_json}
