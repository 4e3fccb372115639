"""Weak baselines: cells of the private baseline below a published line that is no less private.

Rows come from the view `baseline`, which finds the most accurate comparable line of every cell. A cell is
weak if even the upper end of its interval is below the printed accuracy: to beat such a baseline is not to
beat what is published.
"""

import math
from collections.abc import Mapping, Sequence

from harness.leakage.intervals import quantile
from harness.report.conditions import narrow, refuse_nothing, select
from harness.report.published.reproduce import ACCOUNTANTS
from harness.report.reading import Row, read_rows
from harness.report.tables import TextTable
from harness.results.query import Reader, Source, open_reader

TITLE = "The private baseline beside the best published line"
NAME = "baseline"
COLUMNS = ("data", "workload", "cell", "accuracy", "published", "line", "difference", "finding", "remarks")
RANKED = ("workload", "cell", "accuracy", "published", "difference", "finding", "remarks")
WEAK, EQUAL, ALONE = "weak", "not weak", "no line"
NOTES = (
    "Published: the most accurate line on the same data set, of any method and network, whose epsilon is at "
    "most the cell's by the same accountant, with three quarters to four thirds of its training records.",
    "Weak: the upper end of the cell's 95 % interval is below the printed accuracy; with one model, its "
    "accuracy.",
)


def tabulate_baselines(store: Source, where: str | None = None, sweep: str | None = None) -> TextTable:
    """Every cell of the private baseline on published data; `where` is a condition on the view `baseline`."""
    with open_reader(store) as reader:
        sql = select("baseline", narrow(reader, where, sweep))
        rows = read_rows(reader, f"{sql} order by dataset, difference, workload, label, cell")
    refuse_nothing(rows, "baseline", where, sweep)
    remarks: dict[str, int] = {}
    lines = []
    for row in rows:
        mark = "" if judge(row) == ALONE else f"[{remarks.setdefault(cite(row), len(remarks) + 1)}]"
        lines.append((*_line(row), mark))
    return TextTable(
        name=NAME,
        title=TITLE,
        columns=COLUMNS,
        rows=tuple(lines),
        remarks=tuple(remarks),
        protocol=NOTES,
        counts=f"{len(rows)} cells, {sum(is_weak(row) for row in rows)} of them weak.",
        heading="How to read it",
        query=sql,
        ranked=RANKED,
    )


def notices(reader: Reader, cells: Sequence[str], labels: Mapping[str, str]) -> list[str]:
    """One sentence per data set on which some of these cells are weak: of the one that misses most."""
    keys = ", ".join(f"'{each}'" for each in cells)
    sql = f"select * from baseline where cell in ({keys}) order by dataset, difference, workload, label, cell"
    weak: dict[str, list[Row]] = {}
    for row in read_rows(reader, sql):
        if is_weak(row):
            weak.setdefault(row["dataset"], []).append(row)
    return [_notice(rows, labels) for rows in weak.values()]


def _notice(rows: Sequence[Row], labels: Mapping[str, str]) -> str:
    first = rows[0]
    more = f", and {len(rows) - 1} more cells are weak" if len(rows) > 1 else ""
    return (
        f"WEAK BASELINE on {first['dataset']}: {first['workload']}, {labels[first['cell']]}, "
        f"{_accuracy(first)} %, is {-100 * first['difference']:.1f} points below {cite(first)}{more}. "
        "See `privbench report baseline`"
    )


def is_weak(row: Row) -> bool:
    """Whether the cell's accuracy is below the line's, its interval included."""
    return row["published_accuracy"] is not None and _upper(row) < row["published_accuracy"]


def judge(row: Row) -> str:
    """The finding on a row."""
    if row["published_accuracy"] is None:
        return ALONE
    return WEAK if is_weak(row) else EQUAL


def cite(row: Row) -> str:
    """The line: its accuracy, its privacy and its source."""
    counted = ACCOUNTANTS.get(row["accountant_printed"], f"by {row['accountant']}")
    return (
        f"{100 * row['published_accuracy']:.4g} % by {row['published_label']} ({row['printed_workload']}) "
        f"at epsilon {row['epsilon_printed']:g}: {row['citation']}, {row['printed']}; the cell's epsilon is "
        f"{row['epsilon_recounted']:.3g} {counted}"
    )


def _line(row: Row) -> tuple[str, ...]:
    head = (row["dataset"], row["workload"], row["label"], f"{_accuracy(row)} %")
    if row["published_accuracy"] is None:
        return (*head, "-", "-", "-", ALONE)
    line = f"{row['published_label']}, {row['printed_workload']}, epsilon {row['epsilon_printed']:g}"
    published = f"{100 * row['published_accuracy']:.4g} %"
    return (*head, published, line, f"{100 * row['difference']:+.2f}", judge(row))


def _accuracy(row: Row) -> str:
    shown = f"{100 * row['accuracy']:.2f}"
    return f"{shown} ± {100 * _half(row):.2f}" if row["models"] > 1 else f"{shown} (one model)"


def _upper(row: Row) -> float:
    return min(1.0, float(row["accuracy"]) + _half(row))


def _half(row: Row) -> float:
    """Half of the interval of the mean over models; none for one model."""
    models = row["models"]
    return quantile(models) * float(row["accuracy_sd"]) / math.sqrt(models) if models > 1 else 0.0
