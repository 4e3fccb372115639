"""The data of the page, as plain values: the views' rows, and what is derived from them.

Rows are sent as tables, `{"columns": [...], "rows": [[...], ...]}`, and unpacked by the page.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from harness.report.costs import choose_costs
from harness.report.figure.marks import assign_marks, colours_of
from harness.report.figure.style import KINDS, UNKNOWN_KIND, explain_empty
from harness.report.leakage import (
    AUC,
    TPRS,
    choose_attack,
    choose_leakage,
    drawn_by,
    name_attacks,
    resolved_fpr,
)
from harness.report.overhead import PANELS, explain_clocks, name_lines, relative_quartiles, say_missing
from harness.report.page.commands import command_of
from harness.report.page.front_lookup import front_data
from harness.report.page.sections import (
    attribute_data,
    calibration_data,
    picture_data,
    reproduction_data,
    theory_data,
)
from harness.report.page.tune_section import tune_data
from harness.report.reading import Reading, Roc, Row, group_failures, program_version
from harness.report.tuning.budgets import find_untuned, tuning_notes

UTILITIES = (
    {"column": "accuracy", "name": "test accuracy", "higher": True},
    {"column": "train_accuracy", "name": "train accuracy", "higher": True},
    {"column": "test_loss", "name": "test loss", "higher": False},
    {"column": "train_seconds", "name": "seconds of training", "higher": False},
    {"column": "training_overhead", "name": "time of the training (baseline = 1)", "higher": False},
    {"column": "example_overhead", "name": "time per example (baseline = 1)", "higher": False},
    {"column": "memory_overhead", "name": "extra memory (baseline = 1)", "higher": False},
)
"""The axes across leakage: means or medians over a cell's models."""

THIRDS = (
    {"column": "training_overhead", "name": "time of the training (baseline = 1)"},
    {"column": "example_overhead", "name": "time per example (baseline = 1)"},
    {"column": "memory_overhead", "name": "extra memory (baseline = 1)"},
    {"column": "train_seconds", "name": "seconds of training"},
)
"""The choices for the size of a point."""

ADDED = ("group", "provenance")
"""Columns that reports add to a view's rows."""
CURVE_POINTS = 64
"""Points of a ROC curve, at most: enough for a small plot."""
DIGITS = 5
"""Significant digits of drawn curves."""
NAMED_VALUES = 3
"""Parameters in a cell's name, at most."""
MADE = ("host", "device", "threads", "git", "image", "privbench", "torch", "opacus", "python")
"""The parts of the provenance that the page shows."""


def page_data(reading: Reading) -> dict[str, Any]:
    """Everything the page shows, as plain values."""
    costs = choose_costs(reading)
    seen = [*reading.methods, *(row["method"] for row in [*reading.frontier, *costs])]
    marks = assign_marks(seen, reading.baselines)
    groups = {name: [row for row in reading.frontier if row["group"] == name] for name in reading.groups}
    ordered = [row for rows in groups.values() for row in rows]
    points = list(_points(groups, reading.runs))
    competing = [{**row, **point} for row, point in zip(ordered, points, strict=True)]
    return {
        "version": program_version(),
        "where": reading.condition,
        "empty": explain_empty(reading),
        "clocks": explain_clocks(reading),
        "colours": colours_of(marks),
        "symbols": {name: mark.symbol for name, mark in marks.items()},
        "kinds": _kinds([*reading.frontier, *costs]),
        "leakages": [
            {"column": each.column, "name": each.name, "chance": each.chance, "needs": each.needs}
            for each in (*reversed(TPRS), AUC)
        ],
        "utilities": UTILITIES,
        "thirds": THIRDS,
        "defaults": {name: _defaults(rows, reading) for name, rows in groups.items()},
        "points": table(points),
        "fronts": front_data(competing, UTILITIES),
        "made": _made(reading.runs),
        "rocs": {
            row["attack_task"]: thin(reading.rocs[row["attack_task"]], resolved_fpr(row))
            for row in ordered
            if row["attack_task"] in reading.rocs
        },
        "costs": [
            {
                **row,
                "quartiles": relative_quartiles(row),
                "line_name": name,
                "missing": {column: say_missing(row, column) for column in PANELS},
            }
            for row, name in zip(costs, name_lines(costs), strict=True)
        ],
        "calibrations": calibration_data(reading),
        "inferred": attribute_data(reading),
        "theory": theory_data(reading),
        "pictures": picture_data(reading),
        "reproduced": reproduction_data(reading),
        "untuned": sorted(cell for rows in groups.values() for cell in find_untuned(rows)),
        "tuning": {name: tuning_notes(rows) for name, rows in groups.items()},
        "tunes": tune_data(reading.tunes),
        "failed": group_failures(reading.failures),
        "views": _views(reading, ordered),
    }


def table(rows: Sequence[Row], columns: Sequence[str] | None = None) -> dict[str, Any]:
    """Rows as a table with a list of columns; by default all of them."""
    names = list(dict.fromkeys(name for row in rows for name in row)) if columns is None else list(columns)
    return {"columns": names, "rows": [[row.get(name) for name in names] for row in rows]}


def thin(roc: Roc, lowest: float) -> dict[str, list[float]]:
    """The curve from the lowest resolved FPR, at points about evenly spaced on a log axis."""
    kept = [
        (fpr, tpr) for fpr, tpr in zip(roc.fpr, roc.tpr, strict=True) if fpr >= lowest and fpr > 0 and tpr > 0
    ]
    if len(kept) > CURVE_POINTS:
        rates = [fpr for fpr, _ in kept]
        first, last = math.log(rates[0]), math.log(rates[-1])
        steps = CURVE_POINTS - 2
        wanted = (math.exp(first + (last - first) * step / steps) for step in range(steps))
        places = {0, *(min(bisect_left(rates, rate), len(rates) - 1) for rate in wanted), len(rates) - 1}
        kept = [kept[place] for place in sorted(places)]
    return {
        "fpr": [float(f"{fpr:.{DIGITS}g}") for fpr, _ in kept],
        "tpr": [float(f"{tpr:.{DIGITS}g}") for _, tpr in kept],
    }


def _kinds(rows: Iterable[Row]) -> dict[str, Any]:
    kinds = sorted({str(row["guarantee_kind"]) for row in rows})
    return {kind: {"name": KINDS.get(kind, UNKNOWN_KIND)[0]} for kind in kinds}


def _defaults(rows: Sequence[Row], reading: Reading) -> dict[str, Any]:
    """The initial axis and attack."""
    leakage = choose_leakage(drawn_by(rows, reading.attack), reading.fpr)
    return {"leakage": leakage.column, "attack": choose_attack(rows, reading.attack)}


def _points(groups: Mapping[str, Sequence[Row]], runs: Iterable[Row]) -> Iterable[dict[str, Any]]:
    """The page's own columns of a point, in the order of the view's rows."""
    losses: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for run in runs:
        if run["test_loss"] is not None and math.isfinite(run["test_loss"]):
            losses[run["cell"]].append((run["index"], run["test_loss"]))
    for rows in groups.values():
        names = distinct_names(rows)
        for row, attack in zip(rows, name_attacks(rows), strict=True):
            own = [loss for index, loss in losses[row["cell"]] if index < row["models"]]
            yield {
                "group": row["group"],
                "name": names[row["cell"]],
                "attack_name": attack,
                "command": command_of(row),
                "test_loss": fmean(own) if own else None,
            }


def distinct_names(rows: Iterable[Row]) -> dict[str, str]:
    """By cell, the label; cells of one label get the first values in which they differ."""
    alike: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        alike[str(row["label"] or row["method"])][row["cell"]] = row
    names = {}
    for label, cells in alike.items():
        values = {key: {"seed": row.get("seed"), **(row["params"] or {})} for key, row in cells.items()}
        known = dict.fromkeys(name for each in values.values() for name in each)
        differing = [name for name in known if len({str(each.get(name)) for each in values.values()}) > 1]
        for key, own in values.items():
            shown = [f"{name}={_short(own.get(name))}" for name in differing[:NAMED_VALUES]]
            names[key] = " ".join([label, *shown, *["…"] * (len(differing) > NAMED_VALUES)])
    return names


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _made(runs: Iterable[Row]) -> dict[str, dict[str, list[str]]]:
    """By cell: hosts, devices and versions of its training runs, and their last day."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for run in runs:
        known = {**(run["provenance"] or {}), "host": run["host"], "device": run["device"]}
        for name in MADE:
            if known.get(name) is not None:
                found[run["cell"]][name].add(str(known[name]))
        if run["finished"] is not None:
            found[run["cell"]]["day"].add(str(run["finished"])[:10])
    return {cell: {name: sorted(values) for name, values in each.items()} for cell, each in found.items()}


def _views(reading: Reading, frontier: Sequence[Row]) -> dict[str, Any]:
    """The rows of every non-empty view, as in the database."""
    rows = {
        "frontier": frontier,
        "runs": reading.runs,
        "overhead": reading.overhead,
        "bench": reading.bench,
        "audit": reading.audits,
        "reconstruction": reading.reconstructions,
        "attribute": reading.attributes,
        "reproduction": reading.reproduction,
        "baseline": reading.standings,
        "failures": reading.failures,
        "forgotten": reading.forgotten,
        "conflicts": reading.conflicts,
        "tried": reading.tried,
        "search": reading.searches,
        "trial": reading.trials,
        "comparison": reading.comparisons,
    }
    return {name: table(found, _columns(reading, name, found)) for name, found in rows.items()}


def _columns(reading: Reading, view: str, rows: Sequence[Row]) -> Sequence[str]:
    """The columns of the view itself."""
    known = reading.columns.get(view)
    return known or list(dict.fromkeys(name for row in rows for name in row if name not in ADDED))
