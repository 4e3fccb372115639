"""A report's table as text in cells, and the columns of it that a reader sees."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.report.metadata import Imprint
from workloads.errors import SpecError

MOST = 7
"""Columns in Markdown and LaTeX unless others are chosen: more do not fit a column of a paper."""
EMPTY = ("", "-")
"""A cell without a value."""


@dataclass(frozen=True)
class TextTable:
    """A report as plain text in cells, from which every format is made."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    """Numbered from 1; the last column of a row refers to its own."""
    protocol: tuple[str, ...] = ()
    counts: str = ""
    heading: str = "What differs for the whole table"
    """The heading of the protocol."""
    query: str = ""
    """The SQL behind its rows."""
    ranked: tuple[str, ...] = ()
    """The columns for a reader, the most important first; empty for their own order."""
    chosen: tuple[str, ...] = ()
    """The columns asked for, in all formats; empty for the default."""
    plain: tuple[tuple[str, ...], ...] = ()
    """The rows for CSV if they differ: fractions where the others have per cent."""

    @property
    def imprint(self) -> Imprint:
        """Its provenance."""
        return Imprint(self.title, self.query)


@dataclass(frozen=True)
class Shown:
    """The part of a table in Markdown and LaTeX."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    same: str = ""
    """The columns that are left out because all rows are equal in them, with their values."""
    left_out: str = ""
    """The columns that are in the CSV only."""


def short_name(column: str) -> str:
    """A column's name for the command line: lower case, without units and spaces."""
    words = re.sub(r"\(.*?\)|%", " ", column.lower().replace("ε", "epsilon"))
    return re.sub(r"[^\w.]+", "-", words).strip("-")


def choose_columns(tables: Iterable[TextTable], names: Sequence[str]) -> list[TextTable]:
    """The tables with these columns; one that has none of them keeps its default.

    A name is a column's heading or its short name. SpecError for a name that no table has.
    """
    found = list(tables)
    if not names:
        return found
    known = {
        key: column for table in found for column in table.columns for key in (short_name(column), column)
    }
    for name in names:
        if name not in known:
            allowed = tuple(dict.fromkeys(short_name(column) for table in found for column in table.columns))
            message = f"there is no column {name!r}: choose among {', '.join(allowed)}"
            raise SpecError(message, field="columns-of", value=name, allowed=allowed)
    wanted = [known[name] for name in dict.fromkeys(names)]
    return [replace(table, chosen=tuple(c for c in wanted if c in table.columns)) for table in found]


def chosen_part(table: TextTable) -> Shown:
    """The columns asked for, in that order; all by default: for programs."""
    return _part(table, table.chosen or table.columns)


def reader_part(table: TextTable, most: int = MOST) -> Shown:
    """The columns asked for, else at most so many: the first ranked ones in which rows differ."""
    if table.chosen:
        return chosen_part(table)
    values = {name: {row[place] for row in table.rows} for place, name in enumerate(table.columns)}
    same = [name for name in table.columns if len(table.rows) > 1 and len(values[name]) == 1]
    able = [name for name in (table.ranked or table.columns) if name not in same]
    if len(table.columns) <= most:
        able, same = list(table.columns), []
    kept = able[:most]
    stated = [(name, *values[name]) for name in same if name in (table.ranked or same)]
    others = [name for name in table.columns if name not in (*kept, *same)]
    shown = _part(table, [name for name in table.columns if name in kept])
    return replace(
        shown,
        same="".join(f" {name}: {value};" for name, value in stated if value not in EMPTY).strip(" ;"),
        left_out=f"In the CSV only: {', '.join(others)}." if others else "",
    )


def _part(table: TextTable, names: Sequence[str]) -> Shown:
    places = [table.columns.index(name) for name in names]
    return Shown(tuple(names), tuple(tuple(row[place] for place in places) for row in table.rows))
