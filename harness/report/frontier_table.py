"""The frontier in numbers: a row per cell and attack, and the hypervolume of every method."""

from collections.abc import Callable, Sequence

from harness.leakage.pareto import mean_offer, mean_offer_band
from harness.report.costs import is_resolved
from harness.report.figure.panels import Panel, choose_panel
from harness.report.figure.style import KINDS, UNKNOWN_KIND
from harness.report.leakage import (
    AUC,
    SELECTED_BY,
    TPRS,
    able_rows,
    as_box,
    choose_leakage,
    drawn_by,
    name_attacks,
    rows_near_front,
    rows_on_front,
)
from harness.report.reading import Reading, Row
from harness.report.tables import TextTable
from harness.report.tuning.budgets import tuning_notes
from harness.report.units import MARK, is_no_better, note_majority, show_short

AVERAGE_CASE = "average case only"
"""In the column `tested`; every such row has the mark (docs/rules.md: worst case beside average)."""
ROWS_TITLE = "Cells and attacks"
AREAS_TITLE = "Hypervolume of every method"
ROW_COLUMNS = (
    *("workload", "cell", "guarantee", "ε", "ε computed", "attack", "models", "accuracy"),
    *(leakage.name for leakage in reversed(TPRS)),
    *("AUC", "training time (baseline = 1)", "extra memory (baseline = 1)", "tuned", "valid", "AUC front"),
)
AREA_COLUMNS = (
    "workload",
    "leakage",
    "attack",
    "method",
    "cells",
    "on its front",
    "hypervolume",
    "95 % band",
)
ROW_NOTES = (
    "In brackets 95 % intervals over seeds (masks and training) on this pool. "
    "- if there are too few non-members for a rate.",
    "strongest: of loss, lira and rmia the one that leaks most, chosen for each target on other models.",
    "AUC front, among the valid cells of a workload under one attack, selected by the accuracy on "
    "non-members: yes; near, if a cell is indistinguishable from it; no.",
    "ε is the one asked for, ε computed the harness's price of what was done. Epsilons of different "
    "guarantees are not comparable.",
    "Average case only: a defence without a guarantee, not tested with canaries.",
    "Tuned: configurations tried; 16 x 3 are the trials and studies of a tune.",
    "Training time: wall seconds of all steps over those of the baseline's training of the workload, each "
    "with its own number of steps and batch size; the report `overhead` has the time of a step.",
)
AREA_NOTES = (
    "Hypervolume: the test accuracy of the method's best cell under a cap on leakage, chosen by its "
    "accuracy on non-members, mean over all caps from guessing to 1. Reference point: leakage 1, "
    "accuracy 0; 1 is a perfect model that leaks nothing.",
    "It is the area under the step line: between two cells nothing was measured. A method with more cells "
    "has more steps, so compare methods measured at the same leakages.",
    "The band is over models, from the cells' own intervals; - if a cell of the method has one model.",
)


def frontier_table(reading: Reading) -> TextTable:
    """A row per row of the view `frontier`."""
    lines, plain = [], []
    for group in reading.groups:
        rows = [row for row in reading.frontier if row["group"] == group]
        names = name_attacks(rows)
        standings = _standings(rows, names)
        for row, attack in zip(rows, names, strict=True):
            standing = standings.get(row["attack_task"], "no")
            lines.append((*_line(row, attack, _shown), standing))
            plain.append((*_line(row, attack, _fraction), standing))
    cells = len({row["cell"] for row in reading.frontier})
    return TextTable(
        name="frontier",
        title=ROWS_TITLE,
        columns=ROW_COLUMNS,
        rows=tuple(lines),
        plain=tuple(plain),
        protocol=(
            *ROW_NOTES,
            *filter(None, [note_majority(reading.frontier)]),
            *tuning_notes(reading.frontier),
        ),
        counts=f"{len(lines)} rows of {cells} cells.",
        heading="How to read it",
        query=reading.query,
        ranked=_ranked(reading, lines),
    )


def _ranked(reading: Reading, lines: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The columns for a reader: what a row is of, then the figure's axes; validity first if one is not."""
    rows = [row for name in reading.groups for row in reading.frontier if row["group"] == name]
    leakage = choose_leakage(drawn_by(rows, reading.attack), reading.fpr)
    doubt = any(line[ROW_COLUMNS.index("valid")] != "yes" for line in lines)
    first = (
        *["valid"] * doubt,
        *("workload", "cell", "attack"),  # without these, rows could not be told apart
        "accuracy",
        *dict.fromkeys((leakage.name, "AUC")),
    )
    return tuple(dict.fromkeys((*first, "guarantee", "AUC front", "models", *ROW_COLUMNS)))


def _line(row: Row, attack: str, show: Callable[[Row, str], str]) -> tuple[str, ...]:
    kind = KINDS.get(row["guarantee_kind"], UNKNOWN_KIND)[0]
    kind += f", {AVERAGE_CASE}" if row["tested"] == AVERAGE_CASE else ""
    asked, computed = (
        "-" if row[name] is None else f"{row[name]:.4g}" for name in ("epsilon_asked", "epsilon")
    )
    valid = {True: "yes", False: "NO", None: "not checked"}[row["valid"]]
    tprs = [show(row, leakage.column) for leakage in reversed(TPRS)]
    numbers = [show(row, "accuracy"), *tprs, show(row, "auc")]
    costs = [_ratio(row["training_overhead"]), _ratio(row["memory_overhead"] if is_resolved(row) else None)]
    names = [row["group"], row["label"] or row["method"], kind, asked, computed, attack, str(row["models"])]
    return *names, *numbers, *costs, _tuned(row), valid


def _tuned(row: Row) -> str:
    """How many configurations were tried; and which study of a tune it is."""
    study = "" if row.get("study") is None else f", study {row['study']}"
    return f"{row.get('tuned') or '-'}{study}"


def _standings(rows: Sequence[Row], names: Sequence[str]) -> dict[str, str]:
    """By attack task: whether it is on, or near, the front of the rows under the same attack."""
    found: dict[str, str] = {}
    for attack in set(names):
        rivals = [row for name, row in zip(names, rows, strict=True) if name == attack]
        found |= {row["attack_task"]: "near" for row in rows_near_front(rivals, AUC)}
        found |= {row["attack_task"]: "yes" for row in rows_on_front(rivals, AUC)}
    return found


def hypervolume_table(reading: Reading) -> TextTable:
    """A row per group, axis of leakage and method."""
    lines = []
    for name in reading.groups:
        rows = [row for row in reading.frontier if row["group"] == name]
        for leakage in dict.fromkeys((choose_leakage(drawn_by(rows, reading.attack), reading.fpr), AUC)):
            lines += _areas(name, choose_panel(rows, leakage, reading.attack))
    return TextTable(
        name="hypervolume",
        title=AREAS_TITLE,
        columns=AREA_COLUMNS,
        rows=tuple(lines),
        protocol=AREA_NOTES,
        counts=f"{len({line[3] for line in lines})} methods.",
        heading="How to read it",
        query=reading.query,
        ranked=(
            "method",
            "hypervolume",
            "95 % band",
            "workload",
            "leakage",
            "cells",
            "attack",
            "on its front",
        ),
    )


def _areas(group: str, panel: Panel) -> list[tuple[str, ...]]:
    """The hypervolumes of one group's methods, highest first."""
    leakage, found = panel.leakage, []
    for method in sorted({row["method"] for row in panel.rows}):
        own = able_rows([row for row in panel.rows if row["method"] == method], leakage)
        boxes = [as_box(row, leakage) for row in own]
        x, y = [box.point[0] for box in boxes], [box.point[1] for box in boxes]
        judged = [row[SELECTED_BY] for row in own]
        area = float(mean_offer(x, y, leakage.chance, judged))
        band = mean_offer_band(boxes, [row["models"] for row in own], leakage.chance, judged)
        spread = "-" if band is None else f"{band[0]:.4f} to {band[1]:.4f}"
        front = len(rows_on_front(own, leakage))
        names = (group, leakage.name, panel.attack, method, str(len(own)), str(front))
        found.append((area, (*names, f"{area:.4f}", spread)))
    return [line for _, line in sorted(found, key=lambda each: -each[0])]


def _shown(row: Row, column: str) -> str:
    """A figure in its unit, with its interval; an accuracy no better than the most common class is marked.

    ± takes one line in a column of a paper; both ends of the interval are in the CSV.
    """
    mark = f" {MARK}" if column == "accuracy" and is_no_better(row) else ""
    return (show_short(row, column) or "-") + mark


def _fraction(row: Row, column: str) -> str:
    """The same as a fraction, for programs."""
    if row[column] is None:
        return "-"
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    band = "" if low is None or high is None else f" [{low:.4f}, {high:.4f}]"
    return f"{row[column]:.4f}{band}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
