"""A paper's table next to ours: for the terminal, as Markdown, LaTeX and CSV.

Rows come from the view `reproduction`. Differences between a cell and the paper's settings are numbered
remarks below the table; those of the whole table follow.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.leakage.intervals import quantile
from harness.report.conditions import narrow, refuse_nothing, select
from harness.report.reading import Row, read_rows
from harness.report.tables import TextTable
from harness.results.query import Source, open_reader
from workloads.errors import SpecError, UnknownName

VERDICTS = ("within", "outside", "compared", "not measured")
STATUSES = (*VERDICTS, "not run")
WORDS = {
    "within": "within the paper's deviation",
    "outside": "outside it",
    "compared": "compared without a deviation",
    "not measured": "not measured",
    "not run": "not run",
}
FIGURES = {
    "accuracy": "accuracy",
    "train_accuracy": "train accuracy",
    "top10_accuracy": "top-10 accuracy",
    "auc": "AUC",
    "tpr_at_0p01pct": "TPR at 0.01 % FPR",
    "attack_accuracy": "attack accuracy",
    "attack_precision": "attack precision",
    "ssim_mean": "SSIM, mean",
    "mse_median": "MSE, median",
    "rejection_rate": "rejected steps",
    "updates_per_record_mean": "uses of a record, mean",
    "updates_per_record_min": "uses of a record, least",
    "updates_per_record_max": "uses of a record, most",
    "step_seconds": "time of a step",
}
ACCOUNTANTS = {
    "rdp_classic": "by the classic conversion of Rényi divergences",
    "rdp": "by Rényi divergences",
    "paper": "as the authors charge, which is disputed",
}
"""How papers count epsilon, in words."""
SUMMARY = "reproduce"


def compare(
    store: Source, table: str | None = None, where: str | None = None, sweep: str | None = None
) -> TextTable:
    """One published table next to ours; without a table, the progress on each.

    `where` is an SQL condition on the view `reproduction`. UnknownName for an unknown table.
    """
    with open_reader(store) as reader:
        sql = select("reproduction", narrow(reader, where, sweep))
        rows = read_rows(reader, f"{sql} order by published_key")
        names = read_rows(reader, "select distinct table_name from published")
    known = [row["table_name"] for row in names]
    if table is not None and table not in known:
        raise UnknownName("published table", table, known)
    refuse_nothing(rows, "reproduction", where, sweep)
    if table is None:
        return replace(summarise(rows), query=sql)
    found = [row for row in rows if row["table_name"] == table]
    if not found:
        given = where or sweep
        message = f"{given} leaves no number of {table}: give another --where or --sweep"
        raise SpecError(message, field="--where" if where else "--sweep", value=given)
    return replace(tabulate(found), query=sql)


def summarise(rows: Sequence[Row]) -> TextTable:
    """A row per published table: its lines, which of them can be and were run, and the verdicts."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(row["table_name"], []).append(row)
    lines = []
    for name, own in sorted(tables.items(), key=lambda item: _natural(item[0])):
        count = Counter(row["status"] for row in own)
        every, runnable, run = _coverage(own)
        numbers = [every, runnable, run, *(count[status] for status in VERDICTS), len(own)]
        lines.append((name, own[0]["printed"], own[0]["about"], *map(str, numbers)))
    columns = ("table", "printed", "about", "lines", "runnable", "run", *VERDICTS, "numbers")
    ranked = ("table", "lines", "runnable", "run", *VERDICTS)
    return TextTable(
        SUMMARY, "Published numbers", columns, tuple(lines), counts=count_statuses(rows), ranked=ranked
    )


def tabulate(rows: Sequence[Row]) -> TextTable:
    """One table: a row per published number, in printed order."""
    first = rows[0]
    remarks: dict[str, int] = {}
    lines = []
    for row in rows:
        marks = [remarks.setdefault(text, len(remarks) + 1) for text in remarks_of(row)]
        lines.append((*_line(row), " ".join(f"[{mark}]" for mark in marks)))
    columns = (
        *("workload", "method", "figure", "paper", "ours", "95 % interval"),
        *("difference", "verdict", "remarks"),
    )
    return TextTable(
        name=f"{SUMMARY}-{first['table_name']}",
        title=f"{first['citation']}, {first['printed']}: {first['about']}",
        columns=columns,
        rows=tuple(lines),
        remarks=tuple(remarks),
        protocol=tuple(first["protocol"]),
        counts=count_statuses(rows),
        ranked=(
            *("method", "figure", "paper", "ours", "remarks", "workload"),
            *("difference", "verdict", "95 % interval"),
        ),
    )


def remarks_of(row: Row) -> list[str]:
    """Remarks on this row, shortest reasons first."""
    texts = [row["reason"]] if row["reason"] else []
    if row["valid"] is False:
        texts.append("INVALID: the blind check distinguishes members from non-members")
    if row["differences"]:
        texts.append("; ".join(row["differences"]))
    if row["epochs"] is not None:
        texts.append(f"{row['epochs']:.3g} epochs")
    if row["epsilon"] is not None:
        texts.append(f"{row['guarantee_kind']} epsilon {row['epsilon']:.3g} by {row['accountant']}")
    if row["epsilon_recounted"] is not None:
        theirs = ACCOUNTANTS[row["accountant_printed"]]
        printed = f"where the paper prints {row['epsilon_printed']:g}"
        texts.append(f"epsilon {row['epsilon_recounted']:.4g} {theirs}, {printed}")
    if row["matches"] > 1:
        texts.append(f"{row['matches']} cells of ours match; shown is the closest in settings")
    return [*texts, row["note"]] if row["note"] else texts


def count_statuses(rows: Sequence[Row]) -> str:
    """Lines and the statuses of their numbers, in two sentences."""
    count = Counter(row["status"] for row in rows)
    every, runnable, run = _coverage(rows)
    parts = [f"{count[status]} {WORDS[status]}" for status in STATUSES]
    lines = f"{every} published line{'s' * (every != 1)}, {runnable} runnable, {run} run"
    return f"{lines}. {len(rows)} number{'s' * (len(rows) != 1)}: {', '.join(parts)}."


def _coverage(rows: Sequence[Row]) -> tuple[int, int, int]:
    """How many lines these numbers are of, how many of them can be run, and how many were."""
    every = {row["published"] for row in rows}
    runnable = {row["published"] for row in rows if row["runnable"]}
    run = {row["published"] for row in rows if row["cell"] is not None}
    return len(every), len(runnable), len(run)


def _line(row: Row) -> tuple[str, ...]:
    workload = row["workload"] or row["printed_workload"]
    params = ", ".join(f"{name}={_plain(value)}" for name, value in row["params"].items())
    method = f"{row['label']} ({params})" if params else row["label"]
    figure = FIGURES[row["metric"]] + (f", {row['attack']}" if row["attack"] else "")
    unit = f" {row['unit']}" if row["unit"] else ""
    digits = row["decimals"]
    paper = f"{row['value']:.{digits}f}" + _plus_minus(row["deviation"], digits) + unit
    if row["ours"] is None:
        return workload, method, figure, paper, "-", "-", "-", row["status"]
    # One digit more than printed, so that rounding does not hide a difference.
    ours = f"{row['ours']:.{digits + 1}f}" + _spread(row, digits + 1) + unit + f" (n={row['models']})"
    interval = interval_of(row)
    shown = "-" if interval is None else _range(*interval, digits + 1)
    difference = f"{row['difference']:+.{digits + 1}f}"
    return workload, method, figure, paper, ours, shown, difference, row["status"]


def interval_of(row: Row) -> tuple[float, float] | None:
    """The 95 % interval of our number: an attack's own, or Student's of a mean over models; None for neither.

    A mean over few models can have an interval beyond what the figure can be: it is not clipped.
    """
    if row["ours_low"] is not None:
        return row["ours_low"], row["ours_high"]
    if row["ours"] is None or row["ours_deviation"] is None or row["models"] <= 1:
        return None
    half = quantile(row["models"]) * row["ours_deviation"] / math.sqrt(row["models"])
    return row["ours"] - half, row["ours"] + half


def _spread(row: Row, digits: int) -> str:
    if row["ours_low"] is not None:
        return f" {_range(row['ours_low'], row['ours_high'], digits)}"
    return _plus_minus(row["ours_deviation"], digits)


def _range(low: float, high: float, digits: int) -> str:
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def _plus_minus(deviation: float | None, digits: int) -> str:
    return "" if deviation is None else f" ± {deviation:.{digits}f}"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _natural(name: str) -> tuple[Any, ...]:
    """Table 10 after Table 9."""
    return tuple((part.isdigit(), int(part) if part.isdigit() else 0, part) for part in name.split("-"))
