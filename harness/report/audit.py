"""The audit report: lower bounds on epsilon from canaries, next to the guarantee and the paper's claim."""

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.figure.paper_sizes import SCREEN, Sheet, scaled, wrap
from harness.report.figure.style import (
    ALARM,
    FAINT,
    INK,
    KINDS,
    UNKNOWN_KIND,
    empty_figure,
    house_style,
    new_figure,
    save,
    shorten,
)
from harness.report.metadata import Imprint
from harness.report.reading import Row, rows_of_view
from harness.report.tables import TextTable, write_table
from harness.report.text_table import choose_columns
from harness.results.query import Source

BAR = "#8c96a0"
"""Of no method: a bar is named by its line."""
TITLE = "Audits: lower bounds on epsilon from canaries"
NOTES = (
    "A bound states that epsilon is at least this large, at its confidence; a small one proves nothing.",
    "Above the computed epsilon it is an alarm: the ledger or the accounting is wrong.",
    "Without a guarantee the bound is an effective epsilon at these canaries, never a guarantee.",
)
COLUMNS = (
    "workload",
    "method",
    "audit",
    "canaries",
    "models",
    "correct",
    "proved",
    "priced",
    "paper",
    "alarm",
)
RANKED = (
    "method",
    "proved",
    "priced",
    "alarm",
    "audit",
    "workload",
    "canaries",
    "paper",
    "correct",
    "models",
)
"""The columns for a reader, the most important first."""


def write_audit(
    store: Source, out: Path, where: str | None = None, sheet: Sheet = SCREEN, sweep: str | None = None
) -> list[Path]:
    """Write the audit's figure and table into `out`; `where` is an SQL condition on the view `audit`."""
    order = "workload, canary, method, epsilon_asked, label, attack, cell"
    rows, sql = rows_of_view(store, "audit", order, where, sweep)
    return draw_audit(rows, sql, out, sheet)


def draw_audit(rows: Sequence[Row], sql: str, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """The same from rows already read, by this statement."""
    (table,) = choose_columns([audit_table(rows, sql)], sheet.columns)
    with house_style(sheet):
        files = save(audit_figure(rows, sheet), out, "audit", Imprint(TITLE, sql, "\n".join(NOTES)))
    return [*files, *write_table(table, out)]


def audit_table(rows: Sequence[Row], sql: str) -> TextTable:
    """A row per audit."""
    lines = []
    for row in rows:
        lines.append(
            (
                row["workload"],
                row["label"],
                row["attack"],
                f"{row['canaries']} {row['canary']}",
                str(row["models"]),
                f"{row['correct']} of {row['guesses']}",
                f"≥ {row['epsilon_audited']:.3g} ({100 * row['confidence']:g} %)",
                _epsilon(row["epsilon_priced"]),
                _epsilon(row["epsilon_paper"]),
                "ALARM" if row["alarm"] else "",
            )
        )
    alarms = sum(bool(row["alarm"]) for row in rows)
    counts = f"{len(rows)} audits, {alarms} alarm{'s' * (alarms != 1)}."
    return TextTable("audit", TITLE, COLUMNS, tuple(lines), (), NOTES, counts, "How to read it", sql, RANKED)


def audit_figure(rows: Sequence[Row], sheet: Sheet = SCREEN) -> Figure:
    """A row per audit: a bar up to the bound, the guarantee and the paper's claim as marks; alarms in red."""
    if not rows:
        how = "privbench run --workload W --method M --set canary=gradient --set canaries=100"
        return empty_figure(TITLE, f"No audit is in the database.\nRun: {how} --attack audit-one-run", sheet)
    width = sheet.inches(9.5)
    names = [wrap(_name(row), width / 2, 8) for row in rows]
    line = scaled(8) / 72
    height = 1.5 * sheet.font / SCREEN.font + sum(
        0.19 + 1.15 * line * (1 + name.count("\n")) for name in names
    )
    figure = new_figure(width, height)
    axes = figure.subplots()
    if not sheet.printed:
        figure.suptitle(TITLE, x=0.01, ha="left", weight="bold")
    for place, row in enumerate(rows):
        _draw_line(axes, place, row)
    axes.set_yticks(range(len(rows)), names, fontsize=scaled(8))
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_color(ALARM if row["alarm"] else INK)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    signs = "epsilon (bar: lower bound; mark: guarantee; |: paper's claim)"
    axes.set_xlabel(wrap(signs, width / 2, SCREEN.font))
    axes.grid(visible=False, axis="y")
    return figure


def _draw_line(axes: Axes, place: int, row: Row) -> None:
    colour = ALARM if row["alarm"] else BAR
    axes.barh(place, row["epsilon_audited"], height=0.5, color=colour)
    if row["epsilon_audited"] == 0:
        axes.plot(0, place, marker="o", markersize=scaled(4), color=colour, clip_on=False)
    price, claim = row["epsilon_priced"], row["epsilon_paper"]
    if price is not None and math.isfinite(price):
        marker = KINDS.get(row["guarantee_kind"], UNKNOWN_KIND)[1]
        axes.plot(price, place, marker=marker, color=INK, markersize=scaled(6), linestyle="none")
    if claim is not None and math.isfinite(claim):
        axes.plot(
            claim, place, marker="|", color=FAINT, markersize=scaled(12), markeredgewidth=2, linestyle="none"
        )


def _name(row: Row) -> str:
    return f"{shorten(row['workload'])} · {shorten(row['label'], 44)} · {row['attack']}"


def _epsilon(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
