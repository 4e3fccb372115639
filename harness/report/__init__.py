"""Reports: figures and a page as pure functions of the database. `where` is an SQL condition.

write_frontier   frontier.png, frontier.svg    accuracy against measured leakage, ROC curves
write_overhead   overhead.png, overhead.svg    time and memory relative to sgd
write_calibration  calibration.png, .svg, .md, .tex  accuracy at equal leakage, ROC under its ceiling
write_audit      audit.png, .svg, .md, .tex    what canaries prove about epsilon, beside the price
write_page       index.html                    all of it, interactive, in one file
write_all        all of these
write_reconstructions   reconstructions.png, .svg   members and what was rebuilt of them; asked for by name

Published numbers beside ours are text and not in `write_all`: harness.report.reproduce.
"""

from pathlib import Path

from harness.report.audit import draw_audit, write_audit
from harness.report.calibration_figure import draw_calibration, write_calibration
from harness.report.data import AUDITS, read
from harness.report.frontier import draw_frontier, write_frontier
from harness.report.html import draw_page, write_page
from harness.report.overhead import draw_overhead, write_overhead
from harness.report.reconstructions import write_reconstructions

__all__ = [
    "write_all",
    "write_audit",
    "write_calibration",
    "write_frontier",
    "write_overhead",
    "write_page",
    "write_reconstructions",
]


def write_all(store: Path, out: Path, where: str | None = None) -> list[Path]:
    """Write every report into `out`; `where` is a condition on the view `frontier`.

    The overhead is that of the cells it selects. All files show one reading of the database.
    """
    reading = read(store, where)
    figures = [*draw_frontier(reading, out), *draw_overhead(reading, out), *draw_calibration(reading, out)]
    audits = draw_audit(reading.audits, AUDITS, out) if reading.audits else []
    return [*figures, *audits, *draw_page(reading, out)]
