"""From the files of one task to its rows in the database: the same files give the same rows."""

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from safetensors.numpy import load

import db
from harness.leakage.figures import METRICS, NO_CURVE, recompute, unmeasured
from harness.leakage.intervals import DEPENDENCE
from harness.results.data_of import find_dataset
from harness.results.old_tasks import find_declared, find_uncounted
from harness.spec import Task, configuration_of, spelled
from harness.store.checks import purged_files
from harness.store.fingerprints import short_digest
from harness.store.imports import Origin
from harness.store.outcomes import (
    AuditOutcome,
    Benched,
    Finding,
    InferenceOutcome,
    Membership,
    Phase,
    PricedCeilings,
    PricedGuarantee,
    Quantiles,
    Rate,
    Reconstruction,
    Training,
)
from harness.store.private import publishable
from harness.store.result import Result
from workloads.errors import StoreError

log = logging.getLogger(__name__)

KEPT_STEPS = 1000
"""Single steps stored per task and phase; the full series stays in Parquet."""
QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
BENCH_JSON = ("params", "step_params", "clocks", "phases")
RATES = {"0.1": "10pct", "0.01": "1pct", "0.001": "0p1pct", "0.0001": "0p01pct"}

TABLES: dict[str, sa.Table] = dict(db.Base.metadata.tables)

Row = dict[str, Any]
"""A row of a table of db.models, by column; missing columns are null."""
Rows = dict[str, list[pa.Table]]
"""Table name to pieces to insert."""


def task_rows(
    origin: Origin, task: Task, result: Result, broken: list[Path], forgotten: bool = False
) -> Rows:
    """All rows of one task except its cell's; an unreadable file of steps is added to `broken`.

    A forgotten one keeps the row of the task, by which configurations are counted, and its failures.
    ValueError if the outcome has another shape.
    """
    result = publishable(result)
    key, cell = origin.key(result.key), task.cell_key and origin.key(task.cell_key)
    row = {**_task_row(task, result), "key": key, "cell": cell, "origin": origin.name}
    row["steps_file"], row["forgotten"] = None if forgotten else _steps_file(origin, result), forgotten
    rows: Rows = {"task": [to_arrow("task", [row])]}
    if not result.done or (forgotten and task.kind != "bench"):
        return rows
    head = {"task": key, "cell": cell}
    if task.kind == "train":
        training = result.training
        row = {**head, **_model_row(task, training), **_fingerprints(result)}
        rows["model_run"] = [to_arrow("model_run", [row])]
        quantiles = to_arrow("step_time", _quantile_rows(key, training.phases))
        rows["step_time"] = [quantiles, *_single_steps(origin, result, broken)]
    elif task.kind == "attack":
        name, row = _finding(task, result.finding)
        row["attack_defaults"] = task.notes.attack_defaults
        rows[name] = [to_arrow(name, [{**row, **head}])]
    else:
        every = _bench_rows(key, task, result.bench.bench)
        kept = [each for each in every if each["status"] == "failed"] if forgotten else every
        rows["bench_result"] = [to_arrow("bench_result", kept)]
    return rows


def to_arrow(name: str, rows: list[Row]) -> pa.Table:
    """Rows of a table, with its types; missing columns are null."""
    # As structs: column by column, Arrow's own way, takes three times as long for single rows.
    schema = db.arrow_schema(TABLES[name])
    return pa.Table.from_struct_array(pa.array(rows, pa.struct(list(schema))))


def _text(value: Any) -> str:
    """Canonical JSON, so that views can compare it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def cell_row(origin: Origin, task: Task) -> Row | None:
    """The cell of a task; None for a bench, which has none."""
    if task.cell_key is None:
        return None
    cell, notes = task.cell, task.notes
    method = cell.method.name
    declared = notes.declared or find_declared(method, cell.params)
    return {
        "key": origin.key(task.cell_key),
        "workload": cell.workload.name,
        "workload_version": cell.workload.version,
        "dataset": find_dataset(cell.workload.name),
        "method": method,
        "method_version": cell.method.version,
        "role": declared.role,
        "solved": declared.solved,
        "illustrated": declared.illustrated,
        "params": _text(spelled(cell.params)),
        "epsilon_asked": cell.params.get("epsilon"),
        "delta": cell.params.get("delta"),
        "seed": cell.seed,
        "n_train": cell.n_train,
        "batch_size": _whole(cell.params.get("batch_size")),
        "label": cell.label,
        "configuration": notes.configuration or configuration_of(cell.params, find_uncounted(method)),
        "levels": _text(spelled(notes.levels)),
        "tried_before": notes.tried,
        "tuned_by": notes.tuned_by,
        "tuned_on": notes.tuned_on,
        "tuned_at": notes.tuned_at,
        "tune": notes.tune,
        "trials": notes.trials,
        "studies": notes.studies,
        "study": notes.study,
        "canary": cell.canary,
        "canaries": cell.canaries,
        "canary_version": cell.canary_version if cell.canary else None,
        "origin": origin.name,
        "protocol": cell.protocol,
    }


def _whole(value: Any) -> int | None:
    """A whole number; None for anything else a plug-in may give."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _task_row(task: Task, result: Result) -> Row:
    provenance = result.provenance
    return {
        "kind": task.kind,
        "workload": task.cell.workload.name,
        "method": task.cell.method.name if task.kind != "bench" else None,
        "attack": task.attack.name if task.attack else None,
        "index": task.index if task.kind == "train" else None,
        "status": result.status,
        "reason": result.reason,
        "message": result.message,
        "started": as_moment(result.started),
        "finished": as_moment(result.finished),
        "wall_seconds": result.wall_seconds,
        "host": provenance.get("host"),
        "device": provenance.get("device"),
        "threads": provenance.get("threads"),
        "provenance": _text(provenance),
        "spec": _text(spelled(task.spec())),
        "protocol": task.protocol,
        "checksum": result.checksum,
    }


def as_moment(text: str | None) -> datetime | None:
    """UTC without a zone: DuckDB's zoned type needs another package in Python."""
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None) if text else None


def _fingerprints(result: Result) -> Row:
    """Short fingerprints of code and data; null if the result has none."""
    parts = {name: result.provenance.get(name) for name in ("code", "data")}
    return {
        f"{name}_fingerprint": short_digest(part) if isinstance(part, dict) else None
        for name, part in parts.items()
    }


def _model_row(task: Task, training: Training) -> Row:
    guarantee = training.guarantee
    return {
        "index": task.index,
        **training.metrics.model_dump(),
        "set_aside": training.set_aside,
        "guarantee_kind": guarantee.kind,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency,
        "accountant": guarantee.accountant,
        "epsilon_pld": guarantee.epsilons.get("pld"),
        "epsilon_rdp": guarantee.epsilons.get("rdp"),
        "epsilon_rdp_classic": guarantee.epsilons.get("rdp_classic"),
        "epsilon_paper": guarantee.epsilons.get("paper"),
        "assumptions": _text(list(guarantee.assumptions)),
        **_ceilings(guarantee),
        "stats": _text(training.stats),
        **_cost(training.phases),
    }


def _ceilings(guarantee: PricedGuarantee) -> Row:
    """The ceilings of the guarantee on any attack."""
    found = guarantee.ceilings if guarantee.states_ceilings else _older_ceilings(guarantee)
    if found is None:
        return {}
    return {
        "ceiling_by": found.by,
        "ceiling_auc": found.auc,
        "ceiling_gap": found.gap,
        **{f"ceiling_tpr_at_{name}": found.tpr[rate] for rate, name in RATES.items()},
        "ceiling_curve": _text(found.curve.model_dump()),
    }


def _older_ceilings(guarantee: PricedGuarantee) -> PricedCeilings | None:
    """The ceilings of a result stored without them."""
    from harness.accounting.ceilings import ceilings_of_guarantee  # takes a second, only for older stores

    found = ceilings_of_guarantee(guarantee.model_dump())
    return None if found is None else PricedCeilings(**found)


def _cost(phases: Mapping[str, Phase]) -> Row:
    """Step figures of the phase that took longest, the maximum of memory, seconds of all."""
    if not phases:
        return {}
    longest = max(phases, key=lambda name: (phases[name].seconds, name))
    phase = phases[longest]
    return {
        "phase": longest,
        "steps": phase.steps,
        "step_seconds_p25": phase.wall.p25,
        "step_seconds_median": phase.wall.p50,
        "step_seconds_p75": phase.wall.p75,
        "step_cpu_seconds_p25": phase.cpu.p25,
        "step_cpu_seconds_median": phase.cpu.p50,
        "step_cpu_seconds_p75": phase.cpu.p75,
        "train_seconds": sum(each.seconds for each in phases.values()),
        "peak_memory_bytes": max(each.peak_memory_bytes for each in phases.values()),
        "extra_memory_bytes": max(
            each.peak_memory_bytes - each.resting_memory_bytes for each in phases.values()
        ),
    }


def _finding(task: Task, found: Finding) -> tuple[str, Row]:
    """The table of an attack's outcome, and its row."""
    if task.attack is None:
        raise ValueError("an attack task names its attack")
    # Shadows of another method make another attack: the views distinguish attacks by their parameters.
    shadows = {"shadows": task.shadows.method.name} if task.shadows else {}
    head = {
        "attack": task.attack.name,
        "attack_version": task.attack.version,
        "attack_params": _text(spelled({**task.attack_params, **shadows})),
        "models": task.models,
    }
    if isinstance(found, InferenceOutcome):
        return "attribute_result", {**found.attribute, **head}
    if isinstance(found, AuditOutcome):
        return "audit_result", {**found.audit.model_dump(), **head}
    if isinstance(found, Reconstruction):
        return "reconstruction_result", {
            **found.reconstruction,
            "moment": task.attack_params["when"],
            **head,
        }
    return "attack_result", {**_membership(found), **head, "adaptive": not shadows}


def _membership(found: Membership) -> Row:
    metrics = found.metrics
    row = metrics.model_dump(exclude={"tpr", "canaries", "version", "interval", "auc_chosen"})
    row |= _rates(metrics.tpr, RATES, "tpr_at_", ("low", "high", "reason", "tied"))
    chosen = {"auc": metrics.auc_chosen} | {rate: each.chosen for rate, each in metrics.tpr.items()}
    row |= {
        "roc": _text(found.roc.model_dump()),
        "auc_interval": metrics.interval,
        "metrics_version": metrics.version,
        "chosen_attacks": _text(chosen) if metrics.auc_chosen else None,
    }
    canaries = metrics.canaries
    if canaries is not None:
        few = {rate: RATES[rate] for rate in ("0.1", "0.01")}
        row |= {"canary_auc": canaries.auc, "canary_auc_low": canaries.auc_low}
        row |= {"canary_auc_high": canaries.auc_high}
        row |= _rates(canaries.tpr, few, "canary_tpr_at_", ("low", "high", "reason"))
    return row


def _rates(points: Mapping[str, Rate], names: dict[str, str], prefix: str, parts: Sequence[str]) -> Row:
    """The columns of TPRs: value, interval, the reason if there is none, and the share of ties."""
    row = {}
    for rate, name in names.items():
        row[f"{prefix}{name}"] = points[rate].value
        row |= {f"{prefix}{name}_{part}": getattr(points[rate], part) for part in parts}
    return row


def is_outdated(result: Result) -> bool:
    """Whether a result's leakage was measured by another version of the metrics."""
    metrics = result.figures.get("metrics") or {}
    return "tpr" in metrics and metrics.get("version") != METRICS


def remeasured(origin: Origin, task: Task, result: Result) -> Result:
    """A result with its leakage remeasured from its scores; without scores there are no figures.

    Results of two versions of the metrics are never mixed.
    """
    if task.attack is None:
        raise ValueError("an attack task names its attack")
    name = task.attack.name
    try:
        stored = load(origin.store.read_artefact(result, "scores"))
    except (StoreError, KeyError) as error:
        why = f"measured by another version of the metrics, and its scores are missing: {error}"
        empty = np.zeros((task.models, 0), dtype=np.bool_)
        return result.replacing(Membership(metrics=unmeasured(empty, empty, why), roc=NO_CURVE))
    found = recompute(
        stored,
        DEPENDENCE.get(name, "learned"),
        canaries=task.cell.canaries,
        checks_split=name == "blind",
    )
    return result.replacing(found)


def _bench_rows(key: str, task: Task, bench: Benched) -> list[Row]:
    """One row per variant; shared columns come from the bench."""
    shared = {
        "task": key,
        "workload": task.cell.workload.name,
        "workload_version": task.cell.workload.version,
        "n_train": bench.n_train,
        "batch_size": bench.batch_size,
        "parameters": bench.parameters,
        "device": bench.device,
        "threads": bench.threads,
        "malloc": _text(bench.malloc),
        "trustworthy": bench.trustworthy,
        "doubt": bench.reason,
    }
    rows = []
    for variant in bench.methods:
        row = variant.model_dump()
        texts = {name: _text(spelled(row[name])) for name in BENCH_JSON if row[name] is not None}
        rows.append({**row, **shared, **texts})
    return rows


def _quantile_rows(key: str, phases: Mapping[str, Phase]) -> list[Row]:
    rows = []
    for name, phase in phases.items():
        clocks: dict[str, tuple[Quantiles, Quantiles | None]] = {"step": (phase.wall, phase.cpu)}
        clocks |= {clock: (wall, None) for clock, wall in phase.clocks.items()}
        for clock, (wall, cpu) in clocks.items():
            row = {"task": key, "phase": name, "clock": clock}
            rows += [
                {**row, "quantile": q, "wall_seconds": getattr(wall, p), "cpu_seconds": getattr(cpu, p, None)}
                for p, q in QUANTILES.items()
            ]
    return rows


def _steps_file(origin: Origin, result: Result) -> str | None:
    """The series of a result as a path inside the store; None if it is missing."""
    if "steps" not in result.artefacts:
        return None
    file = origin.store.artefact(result, "steps")
    return None if file.name in purged_files(file.parent) else file.relative_to(origin.root).as_posix()


def _single_steps(origin: Origin, result: Result, broken: list[Path]) -> list[pa.Table]:
    """The steps of the Parquet file, evenly thinned; a damaged file is reported and skipped."""
    if _steps_file(origin, result) is None:
        return []
    try:
        content = pa.BufferReader(origin.store.read_artefact(result, "steps"))
        columns = ["phase", "step", "wall_seconds", "cpu_seconds"]
        with pq.ParquetFile(content) as source:
            series = source.read(columns, use_threads=False)
        series = series.take(_thinned(series.column("phase").to_numpy()))
        count = series.num_rows
        series = series.append_column("task", pa.array([origin.key(result.key)] * count, pa.string()))
        series = series.append_column("clock", pa.array(["step"] * count, pa.string()))
        series = series.append_column("quantile", pa.nulls(count, pa.float64()))
        schema = db.arrow_schema(TABLES["step_time"])
        return [series.select(schema.names).cast(schema)]
    except (OSError, KeyError, StoreError, pa.ArrowException) as error:
        file = origin.store.artefact(result, "steps")
        log.warning("%s cannot be read: %s", file, error)
        broken.append(file)
        return []


def _thinned(phases: Any) -> Any:
    """Row numbers of at most KEPT_STEPS evenly spread steps of every phase, both ends included."""
    kept = []
    for phase in sorted(set(phases)):
        rows = np.flatnonzero(phases == phase)
        places = np.linspace(0, len(rows) - 1, min(len(rows), KEPT_STEPS)).round().astype(np.int64)
        kept.append(rows[places])
    return np.concatenate(kept) if kept else np.array([], dtype=np.int64)
