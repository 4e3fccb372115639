"""The summary of a sweep for the terminal: frontier, audits, reconstructions, cells without an attack."""

from collections.abc import Sequence
from typing import Any

from harness.cli import output
from harness.leakage.candidates import FAMILY
from harness.report.compare import NAMES, describe
from harness.report.costs import BELOW_ONE
from harness.report.leakage import STRONGEST
from harness.report.reading import PLAIN
from harness.results.query import Reader, open_reader
from harness.spec import Cell, distinct_labels
from harness.store import Store

COMPARED = ("accuracy", "tpr_at_1pct")
"""Axes of the comparisons under the frontier."""
LINES = 12
"""Comparisons that are printed, at most; `privbench report compare` has all."""


def frontier(store: Store, cells: Sequence[Cell]) -> None:
    """Print the frontier of these cells: a table with intervals, and remarks."""
    with open_reader(store.path) as reader:
        _frontier(reader, cells)


def _frontier(reader: Reader, cells: Sequence[Cell]) -> None:
    columns = (
        "cell, workload, method, role, attack, models, accuracy, accuracy_low, accuracy_high, "
        "auc, auc_low, auc_high, tpr_at_1pct, tpr_at_1pct_low, tpr_at_1pct_high, epsilon, "
        "step_overhead, example_cpu_overhead, training_overhead, valid, on_front, "
        "guarantee_kind || case when tested = 'average case only' then ', ' || tested else '' end as kind"
    )
    keys = ", ".join(f"'{each.key}'" for each in cells)
    order = "workload, epsilon_asked desc nulls first, method, attack"
    sql = f"select {columns} from frontier where cell in ({keys}) order by {order}"
    labels = distinct_labels(cells)
    rows = [{**row, "label": labels[row["cell"]]} for row in reader.execute(sql).arrow.to_pylist()]
    shown = _headlines(rows)
    if shown:
        output.out.print(output.table([_frontier_row(row) for row in shown], title="frontier"))
    if any(row["role"] != PLAIN and (_ratio(row) or 1) < 1 for row in shown):
        output.say(BELOW_ONE)
    if len(shown) < len(rows):
        output.say('All attacks: privbench query "select label, attack, auc, tpr_at_1pct from frontier"')
    _comparisons(reader, keys, labels)
    _unattacked(reader, keys, labels)
    _audits(reader, keys, labels)
    _reconstructions(reader, keys, labels)
    for row in rows:
        if row["valid"] is False:
            found = "the blind check distinguishes members from non-members"
            output.say(f"INVALID: {row['workload']} {row['label']}: {found}")


def _headlines(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per cell if its strongest attack is known, and the rows of attacks outside its family."""
    known = {row["cell"] for row in rows if row["attack"] == STRONGEST}
    return [row for row in rows if row["cell"] not in known or row["attack"] not in FAMILY]


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
        output.say(f"{row['workload']}, {NAMES[row['axis']]}, {pair}: {describe(named)}")
    if len(rows) > LINES:
        output.say(f"{len(rows) - LINES} more comparisons: privbench report compare")


def _unattacked(reader: Reader, keys: str, labels: dict[str, str]) -> None:
    """Print cells with an accuracy only: no attack was requested, or none has succeeded."""
    sql = f"""
        select c.key, c.workload, count(*) as models, avg(r.test_accuracy order by r.index) as accuracy,
            max(r.epsilon) as epsilon, max(r.guarantee_kind) as guarantee_kind
        from cell c join model_run r on r.cell = c.key
        where c.key in ({keys}) and not exists (
            select 1 from task t
            where t.cell = c.key and t.kind = 'attack' and t.attack <> 'blind' and t.status = 'done'
                and not exists (select 1 from attack_result a where a.task = t.key and a.auc is null)
        )
        group by c.key, c.workload, c.label, c.epsilon_asked
        order by c.workload, c.epsilon_asked desc nulls first, c.label
    """
    rows = [
        {
            "workload": row["workload"],
            "method": labels[row["key"]],
            "models": row["models"],
            "accuracy": f"{100 * row['accuracy']:.1f} %",
            "priced ε": None if row["epsilon"] is None else f"{row['epsilon']:.3g}",
            "kind": row["guarantee_kind"],
        }
        for row in reader.execute(sql).arrow.to_pylist()
    ]
    if rows:
        output.out.print(output.table(rows, title="trained without an attack: not in the frontier"))


def _audits(reader: Reader, keys: str, labels: dict[str, str]) -> None:
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
        output.out.print(output.table(rows, title="audits: a small bound proves nothing"))


def _reconstructions(reader: Reader, keys: str, labels: dict[str, str]) -> None:
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
            "MSE": output.interval(row, "mse_median"),
            "of mean colours": output.cell(row["mse_median_mean_colour"]),
            "SSIM": output.cell(row["ssim_mean"]),
            "beat it": _percent(row, "beats_mean_colour"),
            "priced ε": output.cell(row["epsilon"]),
            "kind": row["guarantee_kind"],
        }
        for row in reader.execute(sql).arrow.to_pylist()
    ]
    if rows:
        title = "pictures reconstructed from shared gradients: see `privbench report reconstructions`"
        output.out.print(output.table(rows, title=title))


def _frontier_row(row: dict[str, Any]) -> dict[str, Any]:
    priced = None if row["epsilon"] is None else f"{row['epsilon']:.3g}"
    training = None if row["training_overhead"] is None else f"{row['training_overhead']:.1f}x"
    return {
        "workload": row["workload"],
        "method": row["label"],
        "attack": row["attack"],
        "models": row["models"],
        "accuracy": _percent(row, "accuracy"),
        "AUC": output.interval(row, "auc"),
        "TPR at 1 % FPR": _percent(row, "tpr_at_1pct"),
        "priced ε": priced,
        "kind": row["kind"],
        "time": _time(row),
        "training": training,
        "front": "★" if row["on_front"] else "",
    }


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


def _percent(row: dict[str, Any], name: str) -> str | None:
    scaled = {
        key: None if value is None else 100 * value for key, value in row.items() if key.startswith(name)
    }
    if scaled[name] is None:
        return None
    if scaled[f"{name}_low"] is None:
        return f"{scaled[name]:.1f} %"
    return f"{scaled[name]:.1f} % [{scaled[f'{name}_low']:.1f}, {scaled[f'{name}_high']:.1f}]"
