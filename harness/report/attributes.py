"""The report on attribute inference: members against non-members, each next to an imputation."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.figure.paper_sizes import SCREEN, Sheet, scaled, wrap
from harness.report.figure.style import (
    FAINT,
    INK,
    empty_figure,
    house_style,
    new_figure,
    save,
    shorten,
)
from harness.report.leakage import name_attacks
from harness.report.metadata import Imprint
from harness.report.reading import ATTRIBUTES, Row, rows_of_view
from harness.report.tables import TextTable, write_table
from harness.results.query import Source

TITLE = "Attribute inference: members against non-members"
VIEW = "attribute"
ONLY_THE_GAP = (
    "Only the gap, the advantage over the imputation on members minus that on non-members, is leakage; "
    "the rest is learnt from the distribution."
)
"""Stated wherever the terminal shows attribute inference."""
NOTES = (
    "Accuracy is the share of correct guesses of the sensitive column; the imputation guesses it from the "
    "other columns, the label and public records, without any model.",
    "An advantage over the imputation on non-members as well is what the model has learnt about the "
    "distribution, not a leak of anybody's record.",
    "The gap is the advantage on members minus that on non-members, in percentage points: only this is "
    "leakage of members' own records, and it is all that differential privacy bounds (highest gap).",
)
COLUMNS = (
    "workload",
    "method",
    "attribute",
    "attack",
    "models",
    "members",
    "non-members",
    "gap",
    "highest gap",
    "finding",
)
COLOUR = "#0072B2"


def write_attributes(
    store: Source, out: Path, where: str | None = None, sheet: Sheet = SCREEN, sweep: str | None = None
) -> list[Path]:
    """Write the figure and the table into `out`; `where` is an SQL condition on the view `attribute`."""
    rows, sql = rows_of_view(store, VIEW, ATTRIBUTES, where, sweep)
    return draw_attributes(rows, sql, out, sheet)


def draw_attributes(rows: Sequence[Row], sql: str, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """The same from rows already read, by this statement."""
    with house_style(sheet):
        files = save(attribute_figure(rows, sheet), out, "attributes", Imprint(TITLE, sql))
    return [*files, *write_table(attribute_table(rows, sql), out)]


def attribute_table(rows: Sequence[Row], sql: str) -> TextTable:
    """A row per inference."""
    lines = [
        (
            row["workload"],
            row["label"],
            row["attribute"],
            attack,
            str(row["models"]),
            beside_imputation(row, "members"),
            beside_imputation(row, "nonmembers"),
            describe_gap(row),
            "-" if row["gap_ceiling"] is None else f"{100 * row['gap_ceiling']:.1f}",
            find_leak(row),
        )
        for row, attack in zip(rows, name_attacks(rows), strict=True)
    ]
    leaks = sum(row["gap_low"] > 0 for row in rows)
    many = f"{len(rows)} inference{'s' * (len(rows) != 1)}"
    counts = f"{many}, {leaks} with a gap significantly above zero (95 %, each alone)."
    return TextTable("attributes", TITLE, COLUMNS, tuple(lines), (), NOTES, counts, "How to read it", sql)


def beside_imputation(row: Row, whose: str) -> str:
    """The accuracy on members or non-members, with that of the imputation."""
    return f"{100 * row[f'accuracy_{whose}']:.1f} % (imputation {100 * row[f'imputation_{whose}']:.1f} %)"


def describe_gap(row: Row) -> str:
    """The gap in percentage points, with its 95 % interval."""
    return f"{100 * row['gap']:+.1f} [{100 * row['gap_low']:+.1f}, {100 * row['gap_high']:+.1f}]"


def find_leak(row: Row) -> str:
    """What the gap's interval shows."""
    if row["gap_low"] > 0:
        return "leak of members' values"
    return "no leak found"


def attribute_figure(rows: Sequence[Row], sheet: Sheet = SCREEN) -> Figure:
    """A row per inference: the advantages on members and non-members, and the gap with its interval.

    One column of a paper has the gap alone.
    """
    if not rows:
        how = "privbench run --workload tabular-synthetic --method METHOD --attack attribute-inference"
        return empty_figure(TITLE, f"No attribute inference is in the database.\nRun: {how}", sheet)
    width = sheet.inches(9.5)
    panels = 1 if sheet.across == 1 else 2
    names = [wrap(name, width / 3.2, 8) for name in _names(rows)]
    line = scaled(8) / 72
    height = 1.6 * sheet.font / SCREEN.font + sum(
        0.19 + 1.15 * line * (1 + name.count("\n")) for name in names
    )
    figure = new_figure(width, height)
    every: Sequence[Axes] = list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])
    if not sheet.printed:
        figure.suptitle(TITLE, x=0.01, ha="left", weight="bold")
    reach = 3 * max(max(abs(row["gap_low"]), abs(row["gap_high"])) for row in rows)
    for place, row in enumerate(rows):
        if panels == 2:
            _draw_advantages(every[0], place, row)
        _draw_gap(every[-1], place, row, reach)
    every[0].set_yticks(range(len(rows)), names, fontsize=scaled(8))
    every[0].set_ylim(len(rows) - 0.4, -0.6)
    texts = ["advantage over the imputation, points (● members, ○ non-members)"] * (panels - 1)
    limited = any(row["gap_ceiling"] is not None and row["gap_ceiling"] <= reach for row in rows)
    texts.append("gap: members minus non-members, points" + " (| highest by the guarantee)" * limited)
    for axes, text in zip(every, texts, strict=True):
        axes.axvline(0, color=FAINT, lw=1, ls=":")
        axes.set_xlabel(wrap(text, width / (3.6 if panels == 2 else 2), SCREEN.font))
        axes.grid(visible=False, axis="y")
    return figure


def _draw_advantages(axes: Axes, place: int, row: Row) -> None:
    ends = [100 * row["advantage_nonmembers"], 100 * row["advantage_members"]]
    axes.plot(ends, [place, place], color=FAINT, lw=1.2, zorder=1)
    axes.plot(ends[0], place, marker="o", ms=scaled(6), color=INK, mfc="white", ls="none")
    axes.plot(ends[1], place, marker="o", ms=scaled(6), color=INK, ls="none")


def _draw_gap(axes: Axes, place: int, row: Row, reach: float) -> None:
    """The gap and its interval, filled if that is above zero; a ceiling beyond `reach` would dwarf them."""
    leaks = row["gap_low"] > 0
    axes.plot([100 * row["gap_low"], 100 * row["gap_high"]], [place, place], color=COLOUR, lw=1.6)
    filling = COLOUR if leaks else "white"
    axes.plot(100 * row["gap"], place, marker="o", ms=scaled(6), color=COLOUR, mfc=filling)
    ceiling = row["gap_ceiling"]
    if ceiling is not None and ceiling <= reach:
        axes.plot(100 * ceiling, place, marker="|", ms=scaled(12), mew=2, color=INK, ls="none")


def _names(rows: Sequence[Row]) -> list[str]:
    """Workload, method and attribute of each row, and the attack if there are several."""
    attacks = name_attacks(rows)
    several = len(set(attacks)) > 1
    return [
        " · ".join(
            [
                shorten(row["workload"]),
                shorten(row["label"], 44),
                shorten(row["attribute"], 24),
                *[attack] * several,
            ]
        )
        for row, attack in zip(rows, attacks, strict=True)
    ]
