"""`privbench report theory`: the methods' own figures (methods.base.Illustrated).

METHOD-theory.png, .svg, .pdf   the method's theory, next to statistics of its training runs
METHOD-theory.csv               every point of its lines
METHOD-theory.md, .tex          its tables; one .csv for each table

The only report that imports methods, and torch with them: on request, and for a store with a method that has
figures.
"""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.papers.published_tables import published
from harness.report.figure.drawing import draw
from harness.report.figure.paper_sizes import SCREEN, Sheet
from harness.report.figure.style import house_style, save
from harness.report.metadata import Imprint
from harness.report.reading import ILLUSTRATED, Row, rows_of
from harness.report.tables import TextTable, write_tables
from harness.report.text_table import choose_columns
from harness.results.query import Source
from workloads.drawings import Drawing, DrawnTable, Printed, Trained
from workloads.errors import UnknownName


def write_theory(out: Path, store: Source | None = None, sheet: Sheet = SCREEN) -> list[Path]:
    """Write the figures of every installed method into `out`; measured values from the store's database."""
    rows = rows_of(store, ILLUSTRATED) if store else []
    return [
        file
        for name, drawing in drawings(installed(), rows).items()
        for file in write_drawing(f"{name}-theory", drawing, out, sheet)
    ]


def installed() -> list[str]:
    """The methods with figures of their own."""
    from methods import family
    from methods.base import Illustrated

    return [name for name in family.names() if isinstance(family.get(name), Illustrated)]


def drawings(names: Iterable[str], trained: Sequence[Row]) -> Mapping[str, Drawing]:
    """By method: its figure, of all training runs among the rows; missing methods are skipped."""
    from methods import family
    from methods.base import Illustrated

    found: dict[str, Drawing] = {}
    for name in names:
        try:
            method = family.load(name)
        except UnknownName:
            continue
        if isinstance(method, Illustrated):
            own = [row for row in trained if row["method"] == name and row["stats"] is not None]
            runs = [Trained(row["workload"], row["params"], row["stats"]) for row in own]
            found[name] = method.illustrate(runs, printed_of(name))
    return found


def printed_of(method: str) -> list[Printed]:
    """The published cells of a method."""
    return [
        Printed(each.table.name, each.cell.label, each.cell.workload, each.cell.params)
        for each in published()
        if each.cell.method == method
    ]


def write_drawing(stem: str, drawing: Drawing, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """A drawing's figure, data and tables."""
    tables = choose_columns([_table(stem, table, drawing.about) for table in drawing.tables], sheet.columns)
    with house_style(sheet):
        figures = save(draw(drawing, sheet), out, stem, Imprint(drawing.title, drawing.about))
    data = out / f"{stem}.csv"
    write_points(drawing, data)
    return [*figures, data, *write_tables(stem, tables, out)]


def write_points(drawing: Drawing, file: Path) -> None:
    """One row per drawn point; none where a bound does not hold."""
    with file.open("w", encoding="utf-8", newline="") as sink:
        writer = csv.writer(sink, lineterminator="\n")
        writer.writerow(("panel", "curve", drawing.level, "x", "y"))
        for panel in drawing.panels:
            for line in panel.lines:
                for x, y in zip(line.x, line.y, strict=True):
                    if not math.isnan(y):
                        writer.writerow((panel.name, line.name, line.level, x, y))


def _table(stem: str, table: DrawnTable, about: str) -> TextTable:
    return TextTable(
        stem, table.title, table.columns, table.rows, counts=f"{len(table.rows)} lines.", query=about
    )
