"""The comparison report: every cell against the private baseline and the best, by paired tests."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from harness.leakage.comparison import ACCURACY, AUC, LEVEL, TPR, Axis, Comparison, sentence
from harness.report.figure.paper_sizes import PANELS, SCREEN, Sheet, lay_out, scaled, wrap
from harness.report.figure.style import FAINT, INK, empty_figure, house_style, new_figure, save, shorten
from harness.report.metadata import Imprint
from harness.report.reading import Row, rows_of_view
from harness.report.tables import TextTable, write_table
from harness.report.text_table import choose_columns
from harness.results.query import Source

TITLE = "Paired differences between methods"
AXES: dict[str, Axis] = {
    "accuracy": ACCURACY,
    "validation_accuracy": ACCURACY,
    "tpr_at_1pct": TPR,
    "tpr_at_10pct": TPR,
    "auc": AUC,
}
NAMES = {
    "accuracy": "test accuracy",
    "validation_accuracy": "accuracy on non-members",
    "tpr_at_1pct": "TPR at 1 % FPR",
    "tpr_at_10pct": "TPR at 10 % FPR",
    "auc": "AUC",
}
AXIS_OF = dict(zip(PANELS["compare"], NAMES, strict=True))
"""By the name of the panel."""
COLUMNS = (
    "workload",
    "axis",
    "cell",
    "against",
    "models",
    "difference",
    "95 % interval",
    "Holm p",
    "finding",
)
RANKED = ("cell", "against", "difference", "95 % interval", "Holm p", "axis", "workload", "models")
"""The columns for a reader, the most important first."""
NOTES = (
    "Differences are paired over models with the same members. Shown is every cell against the best by "
    "accuracy on non-members and against the private baseline; the family of Holm's correction is all pairs "
    "of an axis.",
    "Indistinguishable: not significantly different; with the smallest difference that this many "
    "models detect with a power of 80 %.",
    "Leakage: of the strongest of loss, lira and rmia, chosen for each target on other models.",
    "Accuracies are compared on these test records; the standard error over test records is the column "
    "accuracy_test_se of the view.",
)
SHOWN = "shown"
"""The condition on the view `comparison` that keeps pairs with the best cell or the private baseline."""


def write_compare(
    store: Source, out: Path, where: str | None = None, sheet: Sheet = SCREEN, sweep: str | None = None
) -> list[Path]:
    """Write the figure and the table into `out`; `where` is an SQL condition on the view `comparison`."""
    order = "workload, axis, label, cell, other_label, other"
    rows, sql = rows_of_view(store, "comparison", order, where, sweep, ("cell", "other"))
    return draw_compare([row for row in rows if row[SHOWN]], sql, out, sheet)


def draw_compare(rows: Sequence[Row], sql: str, out: Path, sheet: Sheet = SCREEN) -> list[Path]:
    """The same from rows already read, by this statement."""
    (table,) = choose_columns([compare_table(rows, sql)], sheet.columns)
    with house_style(sheet):
        files = save(compare_figure(rows, sheet), out, "compare", Imprint(TITLE, sql, "\n".join(NOTES)))
    return [*files, *write_table(table, out)]


def found(row: Row) -> Comparison:
    """The comparison of a row."""
    names = ("models", "difference", "low", "high", "se", "p", "effect_size", "detectable", "reason")
    return Comparison(**{name: row[name] for name in names})


def describe(row: Row) -> str:
    """A row in words."""
    return sentence(row["label"], row["other_label"], found(row), row["p_holm"], AXES[row["axis"]])


def compare_table(rows: Sequence[Row], sql: str) -> TextTable:
    """A row per axis and pair."""
    lines = []
    for row in rows:
        axis = AXES[row["axis"]]
        known = row["difference"] is not None
        lines.append(
            (
                row["workload"],
                NAMES[row["axis"]],
                row["label"],
                row["other_label"],
                str(row["models"]),
                f"{axis.amount(row['difference'])}{axis.unit}" if known else "-",
                f"[{axis.amount(row['low'])}, {axis.amount(row['high'])}]" if known else "-",
                "-" if row["p_holm"] is None else f"{row['p_holm']:.2g}",
                describe(row),
            )
        )
    shown = sum(row["p_holm"] is not None and row["p_holm"] < LEVEL for row in rows)
    counts = f"{len(rows)} comparisons, {shown} with Holm's p below {100 * LEVEL:g} %."
    return TextTable(
        "compare", TITLE, COLUMNS, tuple(lines), (), NOTES, counts, "How to read it", sql, RANKED
    )


def compare_figure(rows: Sequence[Row], sheet: Sheet = SCREEN) -> Figure:
    """A panel per workload and axis: differences with their intervals; filled if Holm's p is below 5 %."""
    axes_shown = [AXIS_OF[name] for name in sheet.panels_of("compare")]
    known = [row for row in rows if row["difference"] is not None and row["axis"] in axes_shown]
    if not known:
        how = "Differences need cells of one workload with four models each, attacked: privbench run SWEEP"
        return empty_figure(TITLE, f"Nothing to compare.\n{how}", sheet)
    panels = sorted(
        {(row["workload"], row["axis"]) for row in known},
        key=lambda each: (each[0], list(NAMES).index(each[1])),
    )
    most = max(sum((row["workload"], row["axis"]) == each for row in known) for each in panels)
    width = sheet.inches(13.5)
    line = (1.0 + 0.34 * most) * sheet.font / SCREEN.font
    figure = new_figure(width, sheet.lines(len(panels)) * line + 0.6 * (not sheet.printed))
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        engine.set(w_pad=0.15)  # names of pairs are wider than it measures
    if not sheet.printed:
        figure.suptitle(TITLE, x=0.01, ha="left", weight="bold", fontsize=scaled(13))
    for axes, (workload, axis) in zip(lay_out(figure, len(panels), sheet), panels, strict=False):
        own = [row for row in known if (row["workload"], row["axis"]) == (workload, axis)]
        scale, unit = AXES[axis].scale, AXES[axis].unit
        for place, row in enumerate(own):
            sure = row["p_holm"] is not None and row["p_holm"] < LEVEL
            axes.plot([scale * row["low"], scale * row["high"]], [place, place], color=INK, lw=1.2)
            axes.plot(
                scale * row["difference"],
                place,
                marker="o",
                ms=scaled(6),
                color=INK,
                mfc=INK if sure else "white",
            )
        axes.axvline(0, color=FAINT, lw=1, ls=":")
        names = [f"{shorten(row['label'], 18)}\nminus {shorten(row['other_label'], 16)}" for row in own]
        axes.set_yticks(range(len(own)), names, fontsize=scaled(7.5))
        axes.set_ylim(len(own) - 0.4, -0.6)
        axes.set_title(wrap(f"{shorten(workload, 30)}: {NAMES[axis]}", 4, 9), fontsize=scaled(9))
        axes.set_xlabel(f"difference{unit and f' ({unit.strip()})'}")
        axes.grid(visible=False, axis="y")
    return figure
