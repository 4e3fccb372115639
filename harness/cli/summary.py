"""The summary of a sweep for the terminal: frontier, audits, reconstructions, cells without an attack."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from scipy.stats import t as student

from harness.cli import output
from harness.cli.terminal.fitting import Layout
from harness.report.attributes import ONLY_THE_GAP, find_leak
from harness.report.compare import NAMES, describe
from harness.report.costs import BELOW_ONE
from harness.report.frontier_table import AVERAGE_CASE
from harness.report.leakage import STRONGEST, TPRS, Leakage, choose_leakage, drawn_by
from harness.report.published.reproduce import tabulate
from harness.report.published.weak_baselines import notices
from harness.report.reading import PLAIN, read_rows
from harness.report.tuning.budgets import is_shown, tuning_notes
from harness.report.units import (
    MARK,
    NUMBER,
    PERCENT,
    Unit,
    is_no_better,
    note_majority,
    show_short,
    show_whole,
)
from harness.results.query import Reader, open_reader
from harness.spec import Cell, distinct_labels
from harness.store import Store

COMPARED = ("accuracy", "tpr_at_1pct")
"""Axes of the comparisons under the frontier."""
LINES = 12
"""Comparisons that are printed, at most; `privbench report compare` has all."""


FIXED = ("method", "accuracy", "TPR at 1 % FPR", "TPR at 10 % FPR", "priced ε", "front")
FRONTIER = Layout(
    group="workload",
    drop=("kind", "time", "training", "models", "studies", "AUC", "tuned"),
    keep=(*FIXED, "attack"),
    one_line=True,
)
"""At 80 columns a cell is one line: accuracy, leakage, epsilon and whether it is on the front."""
AUDITS = Layout(
    "workload", ("kind", "models", "paper's ε"), ("method", "audited ε ≥", "alarm"), one_line=True
)
PICTURES = Layout(
    "workload", ("kind", "model", "SSIM", "pictures", "of mean colours"), ("method", "MSE"), one_line=True
)
ATTRIBUTES = Layout("workload", ("at most", "attribute"), ("method", "gap", "finding"), one_line=True)
UNATTACKED = Layout("workload", ("kind", "models"), ("method", "accuracy"), one_line=True)
REST = "--wide shows all"


def frontier(store: Store, cells: Sequence[Cell], wide: bool = False) -> None:
    """Print the frontier of these cells and remarks; `wide` with every attack and whole intervals."""
    with open_reader(store.path) as reader:
        _frontier(reader, cells, wide)


def published(store: Store, cells: Sequence[Cell], table: str, wide: bool = False) -> None:
    """Print the numbers of a published table that these cells answer, beside theirs."""
    keys = ", ".join(f"'{each.key}'" for each in cells)
    sql = (
        f"select * from reproduction where table_name = '{table}' and cell in ({keys}) order by published_key"
    )
    with open_reader(store.path) as reader:
        rows = read_rows(reader, sql)
    if rows:
        output.text_table(tabulate(rows), output.REPRODUCED, wide, REST)


def _frontier(reader: Reader, cells: Sequence[Cell], wide: bool) -> None:
    keys = ", ".join(f"'{each.key}'" for each in cells)
    order = "workload, epsilon_asked desc nulls first, method, attack"
    sql = f"select * from frontier where cell in ({keys}) order by {order}"
    rows = read_rows(reader, sql)
    labels = name_cells(cells, {row["cell"]: row["study"] for row in rows if not is_shown(row)})
    rows = [{**row, "label": labels[row["cell"]]} for row in rows]
    shown = rows if wide else headlines(list(filter(is_shown, rows)))
    left_out: Sequence[str] = ()
    if shown:
        left_out = output.print_table(frontier_rows(shown, wide), _title(shown), FRONTIER, wide, REST)
    if note := note_majority(shown):
        output.prose(note)
    for text in tuning_notes(shown, "workload"):
        output.prose(text)
    if "time" not in left_out and any(row["role"] != PLAIN and (_ratio(row) or 1) < 1 for row in shown):
        output.prose(BELOW_ONE)
    if left := sorted({row["attack"] for row in rows} - {row["attack"] for row in shown}):
        output.prose(f"Other attacks ({', '.join(left)}) and both ends of every interval: --wide.")
    for notice in notices(reader, list(labels), labels):
        output.prose(notice)
    _comparisons(reader, keys, labels)
    _unattacked(reader, keys, labels, wide)
    _audits(reader, keys, labels, wide)
    _attributes(reader, keys, labels, wide)
    _reconstructions(reader, keys, labels, wide)
    for row in rows:
        if row["valid"] is False:
            found = "the blind check distinguishes members from non-members"
            output.prose(f"INVALID: {row['workload']} {row['label']}: {found}")
    for what in ("code", "data"):
        mixed = {(row["workload"], row["label"]): None for row in rows if row[f"mixed_{what}"]}
        for workload, label in mixed:
            output.prose(f"MIXED: {workload} {label}: its models were trained with different {what}")


def name_cells(cells: Sequence[Cell], studies: Mapping[str, int]) -> dict[str, str]:
    """Distinct labels by cell key; those of the other `studies` of a tune are named by their number."""
    own = distinct_labels([each for each in cells if each.key not in studies])
    return own | {
        each.key: f"{each.label} study {studies[each.key]}" for each in cells if each.key in studies
    }


def _title(rows: Sequence[dict[str, Any]]) -> str:
    strongest = all(row["attack"] == STRONGEST for row in rows)
    return "frontier, by the strongest attack on each cell" if strongest else "frontier"


def headlines(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per cell: of its strongest attack if that is known, else of the attack that reports draw by."""
    own: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        own.setdefault(row["cell"], []).append(row)
    return [dict(drawn_by(each)[0]) for each in own.values()]


def _comparisons(reader: Reader, keys: str, labels: dict[str, str]) -> None:
    """Print which cells differ significantly from the best one, and which are indistinguishable."""
    axes = ", ".join(f"'{axis}'" for axis in COMPARED)
    sql = f"""
        select * from comparison
        where shown and difference is not null and axis in ({axes}) and cell in ({keys}) and other in ({keys})
        order by workload, axis, label, cell, other_label, other
    """
    rows = reader.execute(sql).arrow.to_pylist()
    for row in rows[:LINES]:
        named = {**row, "label": labels[row["cell"]], "other_label": labels[row["other"]]}
        pair = f"{named['label']} and {named['other_label']}"
        output.prose(f"{row['workload']}, {NAMES[row['axis']]}, {pair}: {describe(named)}")
    if len(rows) > LINES:
        output.say(f"{len(rows) - LINES} more comparisons: privbench report compare")


def _unattacked(reader: Reader, keys: str, labels: dict[str, str], wide: bool) -> None:
    """Print cells with an accuracy only: no attack was requested, or none has succeeded."""
    sql = f"""
        select c.key, c.workload, r.test_accuracy, r.majority_accuracy, r.epsilon, r.guarantee_kind
        from cell c join model_run r on r.cell = c.key
        where c.key in ({keys}) and not exists (
            select 1 from task t
            where t.cell = c.key and t.kind = 'attack' and t.attack <> 'blind' and t.status = 'done'
                and not exists (select 1 from attack_result a where a.task = t.key and a.auc is null)
        ) and not exists (select 1 from trial_result x where x.cell = c.key)
        order by c.workload, c.epsilon_asked desc nulls first, c.label, c.key, r.index
    """
    runs: dict[str, list[dict[str, Any]]] = {}
    for run in reader.execute(sql).arrow.to_pylist():
        runs.setdefault(run["key"], []).append(run)
    found = [_trained(own) for own in runs.values()]
    rows = [
        {
            "workload": row["workload"],
            "method": labels[row["key"]],
            "models": row["models"],
            "accuracy": _accuracy(row, wide),
            "priced ε": None if row["epsilon"] is None else f"{row['epsilon']:.3g}",
            "kind": row["guarantee_kind"],
        }
        for row in found
    ]
    if rows:
        output.print_table(rows, "trained without an attack: not in the frontier", UNATTACKED, wide, REST)
    if note := note_majority(found):
        output.prose(note)


def _trained(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The accuracy of a cell over its models as the view `frontier` has it, for a cell without an attack."""
    values = [run["test_accuracy"] for run in runs]
    mean, low, high = fmean(values), None, None
    if len(values) > 1:
        half = float(student.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
        low, high = max(0.0, mean - half), min(1.0, mean + half)
    share = max(
        (run["majority_accuracy"] for run in runs if run["majority_accuracy"] is not None), default=None
    )
    priced = [run["epsilon"] for run in runs if run["epsilon"] is not None]
    return {
        **runs[0],
        "models": len(values),
        "accuracy": mean,
        "accuracy_low": low,
        "accuracy_high": high,
        "majority_accuracy": share,
        "beats_majority": None if share is None else (mean if low is None else low) > share + 1e-9,
        "epsilon": max(priced, default=None),
    }


def _audits(reader: Reader, keys: str, labels: dict[str, str], wide: bool) -> None:
    """Print lower bounds on epsilon from canaries, next to the guarantee."""
    sql = f"""
        select cell, workload, attack, canary, canaries, models, epsilon_audited, confidence, epsilon_priced,
            epsilon_paper, guarantee_kind, alarm
        from audit where cell in ({keys}) order by workload, epsilon_asked desc nulls first, label, attack
    """
    rows = [
        {
            "workload": row["workload"],
            "method": labels[row["cell"]],
            "audit": row["attack"],
            "models": row["models"],
            "audited ε ≥": f"{row['epsilon_audited']:.3g} ({100 * row['confidence']:g} %)",
            "priced ε": output.cell(row["epsilon_priced"]),
            "paper's ε": output.cell(row["epsilon_paper"]),
            "kind": row["guarantee_kind"],
            "alarm": "ALARM" if row["alarm"] else "",
        }
        for row in reader.execute(sql).arrow.to_pylist()
    ]
    if rows:
        output.print_table(rows, "audits: a small bound proves nothing", AUDITS, wide, REST)


def _attributes(reader: Reader, keys: str, labels: dict[str, str], wide: bool) -> None:
    """Print attribute inference on members and non-members, each next to an imputation without a model."""
    sql = f"""
        select * from attribute where cell in ({keys})
        order by workload, attribute, epsilon_asked desc nulls first, label, attack_task
    """
    rows = [
        {
            "workload": row["workload"],
            "method": labels[row["cell"]],
            "attribute": row["attribute"],
            "members": _guessed(row, "members"),
            "non-members": _guessed(row, "nonmembers"),
            "gap": f"{100 * row['gap']:+.1f} ± {50 * (row['gap_high'] - row['gap_low']):.1f}",
            "at most": None if row["gap_ceiling"] is None else f"{100 * row['gap_ceiling']:.1f}",
            "finding": find_leak(row),
        }
        for row in reader.execute(sql).arrow.to_pylist()
    ]
    if rows:
        title = "attribute inference (imputation without a model), %"
        output.print_table(rows, title, ATTRIBUTES, wide, REST)
        output.prose(ONLY_THE_GAP)


def _guessed(row: dict[str, Any], whose: str) -> str:
    """The accuracy on members or non-members, and that of the imputation in brackets."""
    return f"{100 * row[f'accuracy_{whose}']:.1f} ({100 * row[f'imputation_{whose}']:.1f})"


def _reconstructions(reader: Reader, keys: str, labels: dict[str, str], wide: bool) -> None:
    """Print the quality of reconstructed pictures, next to that of their mean colours."""
    sql = f"""
        select cell, workload, attack, moment, images, mse_median, mse_median_low, mse_median_high,
            mse_median_mean_colour, ssim_mean, beats_mean_colour, beats_mean_colour_low,
            beats_mean_colour_high, epsilon, guarantee_kind
        from reconstruction
        where cell in ({keys}) order by workload, attack, moment, epsilon_asked desc nulls first, label
    """
    rows = [
        {
            "workload": row["workload"],
            "method": labels[row["cell"]],
            "attack": row["attack"],
            "model": row["moment"],
            "pictures": row["images"],
            "MSE": _shown(row, "mse_median", wide, NUMBER),
            "of mean colours": output.cell(row["mse_median_mean_colour"]),
            "SSIM": output.cell(row["ssim_mean"]),
            "beat it": _shown(row, "beats_mean_colour", wide),
            "priced ε": output.cell(row["epsilon"]),
            "kind": row["guarantee_kind"],
        }
        for row in reader.execute(sql).arrow.to_pylist()
    ]
    if rows:
        title = "pictures reconstructed from shared gradients: see `privbench report reconstructions`"
        output.print_table(rows, title, PICTURES, wide, REST)


def frontier_rows(rows: Sequence[dict[str, Any]], wide: bool) -> list[dict[str, Any]]:
    """The rows for display: with one TPR, that at 1 % FPR if every row resolves it, or with all of them."""
    measured = [each for each in reversed(TPRS) if any(row[each.column] is not None for row in rows)]
    chosen = choose_leakage(rows)
    rates = measured if wide else [each for each in measured if each is chosen]
    # An attack is named if it is not the same in every row, or not the one of the title.
    named = wide or any(row["attack"] != STRONGEST for row in rows)
    several = any(row["accuracy_study_low"] is not None for row in rows)
    return [_frontier_row(row, rates, named, several, wide) for row in rows]


def _frontier_row(
    row: dict[str, Any], rates: Sequence[Leakage], named: bool, several: bool, wide: bool
) -> dict[str, Any]:
    priced = None if row["epsilon"] is None else f"{row['epsilon']:.3g}"
    training = None if row["training_overhead"] is None else f"{row['training_overhead']:.1f}x"
    kind = row["guarantee_kind"]
    return {
        "workload": row["workload"],
        "method": row["label"],
        **({"attack": row["attack"]} if named else {}),
        "models": row["models"],
        "accuracy": _accuracy(row, wide),
        **({"studies": _over_studies(row)} if several else {}),
        **{each.name: _shown(row, each.column, wide) for each in rates},
        "AUC": _shown(row, "auc", wide),
        "priced ε": priced,
        "kind": f"{kind}, {row['tested']}" if row["tested"] == AVERAGE_CASE else kind,
        "time": _time(row),
        "training": training,
        "tuned": row["tuned"],
        "front": "★" if row["on_front"] else "",
    }


def _accuracy(row: dict[str, Any], wide: bool) -> str | None:
    shown = _shown(row, "accuracy", wide)
    return f"{MARK} {shown}" if shown and is_no_better(row) else shown


def _over_studies(row: dict[str, Any]) -> str | None:
    """The range of test accuracy over the studies of a tune."""
    low, high = row["accuracy_study_low"], row["accuracy_study_high"]
    return None if low is None else f"{PERCENT.amount(low)} to {PERCENT.amount(high)} %"


def _shown(row: dict[str, Any], column: str, wide: bool, unit: Unit | None = None) -> str | None:
    return (show_whole if wide else show_short)(row, column, unit)


def _time(row: dict[str, Any]) -> str | None:
    """The cost of a step relative to the baseline's: at equal batch size if benched, else per example."""
    ratio = _ratio(row)
    if ratio is None:
        return None
    return f"{ratio:.2f}x a step" if row["step_overhead"] is not None else f"{ratio:.1f}x an example"


def _ratio(row: dict[str, Any]) -> float | None:
    # CPU time: the wall times of concurrent training runs are not comparable.
    ratio: float | None = row["step_overhead"]
    return row["example_cpu_overhead"] if ratio is None else ratio
