"""Reports: figures and a page as pure functions of the database. `where` is an SQL condition.

write_frontier   frontier.png, frontier.svg    accuracy against measured leakage, ROC curves
write_overhead   overhead.png, overhead.svg    time and memory relative to sgd
write_page       index.html                    all of it, interactive, in one file
write_all        all of these

Published numbers beside ours are text and not in `write_all`: harness.report.reproduce.
"""

from pathlib import Path

from harness.report.data import read
from harness.report.frontier import draw_frontier, write_frontier
from harness.report.html import draw_page, write_page
from harness.report.overhead import draw_overhead, write_overhead

__all__ = ["write_all", "write_frontier", "write_overhead", "write_page"]


def write_all(store: Path, out: Path, where: str | None = None) -> list[Path]:
    """Write every report into `out`; `where` is a condition on the view `frontier`.

    The overhead is that of the cells it selects. All files show one reading of the database.
    """
    reading = read(store, where)
    return [*draw_frontier(reading, out), *draw_overhead(reading, out), *draw_page(reading, out)]
