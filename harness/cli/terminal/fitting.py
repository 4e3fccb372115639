"""Tables that fit the width of the terminal: what gives way first, and what never does."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.cli.terminal.shortening import shorten_distinctly

GAP = 2
"""Columns between two columns of a table."""
NAME, PROSE = 24, 30
"""Widths below which columns are left out rather than names shortened or prose wrapped any further."""
LEAST_NAME, LEAST_PROSE = 8, 16
"""Widths of the narrowest columns of names and of prose."""
SENTENCE = 40
"""A column with a text of several words longer than this is prose, and may take several lines."""
NAMED = 8
"""Columns left out that are named, at most."""
NUMBER = re.compile(r"(† )?[-+]?(\d[\d,.]*|inf)(x| ?%)?( (±|\+|\[|\().*)?")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Layout:
    """What gives way in a table that is too wide, in this order: the group, what may go, long names."""

    group: str | None = None
    """The column that becomes a line above its rows."""
    drop: Sequence[str] = ()
    """Columns that are left out, the first one first; the others then follow from the right."""
    keep: Sequence[str] = ()
    """Columns that are never left out; the first column is not either."""
    one_line: bool = False
    """Whether a row is always one line: long texts are then names, not prose."""


PLAIN = Layout()


@dataclass(frozen=True)
class Column:
    """One column: its texts, and how it is drawn."""

    name: str
    texts: Sequence[str]
    right: bool
    prose: bool

    @property
    def natural(self) -> int:
        """The width that shows every text whole."""
        return max(map(cell_len, [self.name, *self.texts]))

    def narrow(self, text: int, prose: int) -> int:
        """The width if names take `text` columns and prose `prose`; numbers and headers are never cut."""
        if self.right:
            return self.natural
        return max(cell_len(self.name), min(self.natural, prose if self.prose else text))


@dataclass(frozen=True)
class Fit:
    """The columns that are shown with their widths, and what became of the others."""

    columns: Sequence[Column]
    widths: Sequence[int]
    grouped: bool = False
    """Whether the group is a line above its rows."""
    dropped: Sequence[str] = ()


@dataclass(frozen=True)
class FittedTable:
    """Rows that share their keys as a table, fitted to the width of the console that prints it."""

    rows: Sequence[Row]
    title: str | None = None
    layout: Layout = PLAIN
    wide: bool = False
    """Whether every column is shown whole, however wide the table becomes."""
    rest: str = "--wide or --json shows all"
    """Where the columns that are left out are shown."""

    def fit(self, width: int) -> Fit:
        """What it shows on a console of this width."""
        columns = columns_of(self.rows, self.layout.one_line)
        return whole(columns) if self.wide else fit_columns(columns, self.layout, width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it."""
        fit = self.fit(options.max_width)
        width = max(options.max_width, sum(fit.widths) + GAP * len(fit.widths))
        wider = options.update(width=width)
        if self.title is not None:
            yield Text(self.title, style="bold")
        for part in _parts(self.rows, fit, self.layout):
            yield from console.render(part, wider)
        if fit.dropped:
            more = [f"{len(fit.dropped) - NAMED} more"] * (len(fit.dropped) > NAMED)
            names = ", ".join([*fit.dropped[:NAMED], *more])
            yield Text(f"Not shown: {names} ({self.rest})", style="dim")


def cell_text(value: Any) -> str:
    """One value for display, on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return " ".join(str(value).split())


def columns_of(rows: Sequence[Row], one_line: bool = False) -> list[Column]:
    """The columns of rows that share their keys."""
    found = []
    for name in rows[0] if rows else ():
        texts = [cell_text(row[name]) for row in rows]
        known = [text for text in texts if text not in ("-", "")]
        right = bool(known) and all(NUMBER.fullmatch(text) for text in known)
        sentence = any(len(text) > SENTENCE and text.count(" ") > 2 for text in texts)
        found.append(Column(name, texts, right, prose=sentence and not one_line and not right))
    return found


def whole(columns: Sequence[Column]) -> Fit:
    """Every column, as wide as its texts."""
    return Fit(columns, [each.natural for each in columns])


def fit_columns(columns: Sequence[Column], layout: Layout, width: int) -> Fit:
    """The columns that fit this width."""
    kept, dropped = list(columns), []
    if _taken([each.natural for each in kept]) <= width:
        return whole(kept)
    grouped = any(each.name == layout.group for each in kept) and len(kept) > 1
    kept = [each for each in kept if not grouped or each.name != layout.group]
    for each in _sacrifices(kept, layout):
        if _taken([column.narrow(NAME, PROSE) for column in kept]) <= width:
            break
        kept.remove(each)
        dropped.append(each.name)
    for floor in ((NAME, PROSE), (LEAST_NAME, LEAST_PROSE)):
        least = [column.narrow(*floor) for column in kept]
        if _taken(least) <= width:
            break
    order = [each.name for each in columns]
    return Fit(kept, _grown(kept, least, width), grouped, sorted(dropped, key=order.index))


def _sacrifices(columns: Sequence[Column], layout: Layout) -> list[Column]:
    """The columns that may be left out, in this order."""
    named = [each for name in layout.drop for each in columns if each.name == name]
    others = [each for each in reversed(columns[1:]) if each not in named and each.name not in layout.keep]
    return named + others


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _grown(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """The widths with what is left over, names before prose, the narrowest first."""
    grown = list(widths)
    spare = width - _taken(grown)
    for prose in (False, True):
        able = [
            place for place, each in enumerate(columns) if each.prose is prose and each.natural > grown[place]
        ]
        while spare > 0 and able:
            place = min(able, key=lambda each: grown[each])
            grown[place] += 1
            spare -= 1
            if grown[place] == columns[place].natural:
                able.remove(place)
    return grown


def _parts(rows: Sequence[Row], fit: Fit, layout: Layout) -> Iterator[Table | Text]:
    """The table; or, if its rows are grouped, its head and then every group below its name."""
    texts = [_shown(column, width) for column, width in zip(fit.columns, fit.widths, strict=True)]
    lines = [[column[place] for column in texts] for place in range(len(rows))]
    if not fit.grouped or layout.group is None:
        yield _drawn(fit, lines)
        return
    yield _drawn(fit, [])
    groups: dict[str, list[list[str]]] = {}
    for row, line in zip(rows, lines, strict=True):
        groups.setdefault(cell_text(row[layout.group]), []).append(line)
    for name, own in groups.items():
        yield Text(name, style="italic", no_wrap=True, overflow="ellipsis")
        yield _drawn(fit, own, head=False)


def _shown(column: Column, width: int) -> list[str]:
    """The texts of a column, with long names shortened."""
    if column.prose:
        return list(column.texts)
    short = shorten_distinctly(column.texts, width)
    return [short[text] for text in column.texts]


def _drawn(fit: Fit, lines: Sequence[Sequence[str]], head: bool = True) -> Table:
    drawn = Table(
        header_style="bold",
        box=SIMPLE_HEAD,
        show_header=head,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column, width in zip(fit.columns, fit.widths, strict=True):
        drawn.add_column(
            escape(column.name),
            justify="right" if column.right else "left",
            width=width,
            no_wrap=not column.prose,
            overflow="fold" if column.prose else "ellipsis",
        )
    for line in lines:
        drawn.add_row(*map(escape, line))
    return drawn
