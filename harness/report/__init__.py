"""Reports: figures, tables and a page as pure functions of the database. `where` is an SQL condition.

write_frontier          frontier         accuracy against measured leakage, ROC curves; every row of the view
                        frontier-cost    the same with time and memory as colour (a figure)
                        hypervolume      accuracy of each method over all caps on leakage (a table)
write_overhead          overhead         time and memory relative to the plain baseline
write_calibration       calibration      accuracy at equal leakage, ROC under its ceiling
write_compare           compare          paired differences between cells, with Holm's correction
write_audit             audit            lower bounds on epsilon from canaries, next to the guarantee
write_attributes        attributes       attribute inference on members and non-members, next to imputation
write_tune              tune-NAME-WORKLOAD  what a tune tried; tune has the choices of all (a table)
write_page              index.html       all of it, interactive, in one file
write_all               all of these
write_reconstructions   reconstructions  members and their reconstructions; only on request

A figure is a .png, an .svg and a .pdf; a table is a .md, a .tex and a .csv. Each states the query behind it,
the date ($SOURCE_DATE_EPOCH, if set) and the version: figures in their metadata, text in a comment, a CSV in
the .csv-metadata.json next to it. `sheet` is the paper size (harness.report.figure.paper_sizes).

Published numbers next to ours are text and not in `write_all`: harness.report.published.reproduce.
"""

from itertools import chain
from pathlib import Path

from harness.report.attributes import draw_attributes, write_attributes
from harness.report.audit import draw_audit, write_audit
from harness.report.calibration_figure import draw_calibration, write_calibration
from harness.report.compare import write_compare
from harness.report.conditions import select
from harness.report.figure.paper_sizes import SCREEN, Sheet
from harness.report.frontier import draw_frontier, write_frontier
from harness.report.overhead import draw_overhead, write_overhead
from harness.report.page.html import draw_page, write_page
from harness.report.reading import AUDITS, read
from harness.report.reconstructions import write_reconstructions
from harness.report.tuning.tune_report import draw_tunes, write_tune
from harness.results.query import Source

__all__ = [
    "write_all",
    "write_attributes",
    "write_audit",
    "write_calibration",
    "write_compare",
    "write_frontier",
    "write_overhead",
    "write_page",
    "write_reconstructions",
    "write_tune",
]


def write_all(
    store: Source,
    out: Path,
    where: str | None = None,
    sheet: Sheet = SCREEN,
    attack: str | None = None,
    fpr: float | None = None,
    sweep: str | None = None,
) -> list[Path]:
    """Write every report into `out`; `where` is a condition on the view `frontier`.

    The overhead is of the selected cells. All files show one snapshot of the database. `attack` and
    `fpr` choose the axis of leakage.
    """
    reading = read(store, where, attack=attack, fpr=fpr, sweep=sweep, whole=True)
    figures = [draw(reading, out, sheet) for draw in (draw_frontier, draw_overhead, draw_calibration)]
    audits = draw_audit(reading.audits, AUDITS, out, sheet) if reading.audits else []
    inferred = []
    if reading.attributes:
        inferred = draw_attributes(reading.attributes, select("attribute", reading.among), out, sheet)
    tuned = draw_tunes(reading.tunes, "select * from search", out, sheet) if reading.tunes else []
    return [*chain.from_iterable(figures), *audits, *inferred, *tuned, *draw_page(reading, out)]
