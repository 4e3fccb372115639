"""From the files of one task to its rows in the database: the same files give the same rows."""

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from safetensors.numpy import load

import db
from harness.leakage.figures import METRICS, recompute, unmeasured
from harness.leakage.intervals import DEPENDENCE
from harness.results.old_tasks import ask_declared, ask_uncounted
from harness.spec import FIRST_VERSION, Json, configuration_of, despelled, read_notes, spelled
from harness.store.checks import purged_files
from harness.store.imports import Origin
from harness.store.private import publishable
from workloads.errors import StoreError

log = logging.getLogger(__name__)

KEPT_STEPS = 1000
"""Single steps kept per task and phase; the full series stays in Parquet."""
QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
BENCH_JSON = ("params", "step_params", "clocks", "phases")
RATES = {"0.1": "10pct", "0.01": "1pct", "0.001": "0p1pct", "0.0001": "0p01pct"}

TABLES: dict[str, sa.Table] = dict(db.Base.metadata.tables)

Rows = dict[str, list[pa.Table]]
"""Table name to pieces to insert."""


def task_rows(origin: Origin, spec: Json, result: Json, broken: list[Path]) -> Rows:
    """All rows of one task except its cell's; an unreadable file of steps is added to `broken`.

    KeyError, TypeError, ValueError or AttributeError where the result has another shape.
    """
    task, notes = spec["task"], spec["notes"]
    cell = notes["cell"] and origin.key(notes["cell"])
    payload = {**publishable(result), "key": origin.key(result["key"])}
    row = {**_task_row(task, cell, payload), "origin": origin.name, "steps_file": _steps_file(origin, result)}
    rows: Rows = {"task": [to_arrow("task", [row])]}
    if result["status"] != "done":
        return rows
    payload = despelled(payload)
    if task["kind"] == "train":
        rows["model_run"] = [to_arrow("model_run", [_model_row(task, cell, payload)])]
        quantiles = to_arrow("step_time", _quantile_rows(payload["key"], payload["phases"]))
        rows["step_time"] = [quantiles, *_single_steps(origin, result, broken)]
    elif task["kind"] == "attack":
        name, row = _finding(task, cell, payload)
        row["attack_defaults"] = read_notes(notes).attack_defaults
        rows[name] = [to_arrow(name, [row])]
    elif task["kind"] == "bench":
        rows["bench_result"] = [to_arrow("bench_result", _bench_rows(task, payload))]
    return rows


def to_arrow(name: str, rows: list[Json]) -> pa.Table:
    """Rows of a table, with its types; a column that a row lacks is null."""
    # As structs: column by column, which Arrow does by itself, takes three times as long for single rows.
    schema = db.arrow_schema(TABLES[name])
    return pa.Table.from_struct_array(pa.array(rows, pa.struct(list(schema))))


def _text(value: Any) -> str:
    """JSON with one spelling per value, so that views can compare it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def cell_row(origin: Origin, spec: Json) -> Json | None:
    """The cell of a task, from its `spec.json`; None for a bench, which belongs to none."""
    task, notes = spec["task"], spec["notes"]
    if task["kind"] == "bench":
        return None
    params, beside = despelled(task["params"]), read_notes(notes)
    method = task["method"]["name"]
    declared = beside.declared or ask_declared(method, params)
    return {
        "key": origin.key(notes["cell"]),
        "workload": task["workload"]["name"],
        "workload_version": task["workload"]["version"],
        "method": method,
        "method_version": task["method"]["version"],
        "role": declared.role,
        "solved": declared.solved,
        "illustrated": declared.illustrated,
        "params": _text(task["params"]),
        "epsilon_asked": params.get("epsilon"),
        "delta": params.get("delta"),
        "seed": task["seed"],
        "n_train": task["n_train"],
        "batch_size": _whole(params.get("batch_size")),
        "label": notes["label"],
        "configuration": beside.configuration or configuration_of(params, ask_uncounted(method)),
        "levels": _text(spelled(beside.levels)),
        "tried_before": beside.tried,
        "tuned_by": beside.tuned_by,
        "tuned_on": beside.tuned_on,
        "canary": task.get("canary"),
        "canaries": task.get("canaries", 0),
        "canary_version": task.get("canary_version", FIRST_VERSION) if "canary" in task else None,
        "origin": origin.name,
        "protocol": task["protocol"],
    }


def _whole(value: Any) -> int | None:
    """A whole number; None for anything else that a plug-in may call so."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _task_row(task: Json, cell: str | None, result: Json) -> Json:
    provenance = result.get("provenance") or {}
    return {
        "key": result["key"],
        "kind": task["kind"],
        "cell": cell,
        "workload": task["workload"]["name"],
        "method": task["method"]["name"] if task["kind"] != "bench" else None,
        "attack": task["attack"]["name"] if task["kind"] == "attack" else None,
        "index": task.get("index"),
        "status": result["status"],
        "reason": result.get("reason"),
        "message": result.get("message"),
        "started": _moment(result.get("started")),
        "finished": _moment(result.get("finished")),
        "wall_seconds": result.get("wall_seconds"),
        "host": provenance.get("host"),
        "device": provenance.get("device"),
        "threads": provenance.get("threads"),
        "provenance": _text(provenance),
        "spec": _text(task),
        "protocol": task["protocol"],
        "checksum": result["checksum"],
    }


def _moment(text: str | None) -> datetime | None:
    """UTC without a zone: DuckDB's zoned type needs a further package to be read from Python."""
    return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None) if text else None


def _model_row(task: Json, cell: str, payload: Json) -> Json:
    guarantee = payload["guarantee"]
    return {
        "task": payload["key"],
        "cell": cell,
        "index": task["index"],
        **payload["metrics"],
        "set_aside": payload.get("set_aside"),
        "guarantee_kind": guarantee["kind"],
        **{name: guarantee[name] for name in ("epsilon", "delta", "adjacency", "accountant")},
        "epsilon_pld": (guarantee.get("epsilons") or {}).get("pld"),
        "epsilon_rdp": (guarantee.get("epsilons") or {}).get("rdp"),
        "epsilon_paper": (guarantee.get("epsilons") or {}).get("paper"),
        "assumptions": _text(list(guarantee.get("assumptions") or [])),
        **_ceilings(guarantee),
        "stats": _text(payload["stats"]),
        **_cost(payload["phases"]),
    }


def _ceilings(guarantee: Json) -> Json:
    """What the guarantee allows any attack."""
    found = guarantee["ceilings"] if "ceilings" in guarantee else _older_ceilings(guarantee)
    if found is None:
        return {}
    return {
        **{f"ceiling_{name}": found[name] for name in ("by", "auc", "gap")},
        **{f"ceiling_tpr_at_{name}": found["tpr"][rate] for rate, name in RATES.items()},
        "ceiling_curve": _text(found["curve"]),
    }


def _older_ceilings(guarantee: Json) -> Json | None:
    """Those of a result from before they were stored."""
    from harness.accounting.ceilings import ceilings_of_guarantee  # a second, which newer stores do without

    return ceilings_of_guarantee(guarantee)


def _cost(phases: Json) -> Json:
    """Step figures of the phase that took longest, memory of the worst one, seconds of all."""
    if not phases:
        return {}
    seconds = {name: _total_seconds(phase) for name, phase in phases.items()}
    longest = max(seconds, key=lambda name: (seconds[name], name))
    phase = phases[longest]
    return {
        "phase": longest,
        "steps": phase["steps"],
        "step_seconds_p25": phase["wall"]["p25"],
        "step_seconds_median": phase["wall"]["p50"],
        "step_seconds_p75": phase["wall"]["p75"],
        "step_cpu_seconds_p25": phase["cpu"]["p25"],
        "step_cpu_seconds_median": phase["cpu"]["p50"],
        "step_cpu_seconds_p75": phase["cpu"]["p75"],
        "train_seconds": sum(seconds.values()),
        "peak_memory_bytes": max(each["peak_memory_bytes"] for each in phases.values()),
        "extra_memory_bytes": max(
            each["peak_memory_bytes"] - each["resting_memory_bytes"] for each in phases.values()
        ),
    }


def _total_seconds(phase: Json) -> float:
    """All steps of a phase, warm-up included where the result tells it."""
    total = phase.get("total_seconds")
    return float(phase["steps"] * (phase["wall"]["mean"] or 0.0) if total is None else total)


def _finding(task: Json, cell: str, payload: Json) -> tuple[str, Json]:
    """The table that an attack's result belongs to, and its row."""
    # Shadows of another method make another attack: the views tell attacks apart by their parameters.
    shadows = {"shadows": task["shadows"]["method"]["name"]} if "shadows" in task else {}
    head = {
        "task": payload["key"],
        "cell": cell,
        "attack": task["attack"]["name"],
        "attack_version": task["attack"]["version"],
        "attack_params": _text({**task["attack_params"], **shadows}),
        "models": task["models"],
    }
    if "attribute" in payload:
        return "attribute_result", {**payload["attribute"], **head}
    if "audit" in payload:
        return "audit_result", {**payload["audit"], **head}
    if "reconstruction" in payload:
        found = {**payload["reconstruction"], "moment": task["attack_params"]["when"]}
        return "reconstruction_result", {**found, **head}
    return "attack_result", {**_membership(payload), **head, "adaptive": not shadows}


def _membership(payload: Json) -> Json:
    metrics = payload["metrics"]
    apart = ("tpr", "canaries", "version", "interval", "auc_chosen")
    row = {name: value for name, value in metrics.items() if name not in apart}
    row |= _rates(metrics["tpr"], RATES, "tpr_at_", ("low", "high", "reason", "tied"))
    chosen = {"auc": metrics["auc_chosen"]} | {rate: each["chosen"] for rate, each in metrics["tpr"].items()}
    row |= {
        "roc": _text(payload["roc"]),
        "auc_interval": metrics["interval"],
        "metrics_version": metrics["version"],
        "chosen_attacks": _text(chosen) if metrics["auc_chosen"] else None,
    }
    canaries = metrics.get("canaries")
    if canaries is not None:
        few = {rate: RATES[rate] for rate in ("0.1", "0.01")}
        row |= {f"canary_{name}": canaries[name] for name in ("auc", "auc_low", "auc_high")}
        row |= _rates(canaries["tpr"], few, "canary_tpr_at_", ("low", "high", "reason"))
    return row


def _rates(points: Json, names: dict[str, str], prefix: str, parts: Sequence[str]) -> Json:
    """The columns of TPRs: value, interval, the reason where there is none, and how many share a score."""
    row = {}
    for rate, name in names.items():
        row[f"{prefix}{name}"] = points[rate]["value"]
        row |= {f"{prefix}{name}_{part}": points[rate][part] for part in parts}
    return row


def is_outdated(result: Json) -> bool:
    """Whether a result's leakage was measured in another way than now."""
    metrics = result.get("metrics") or {}
    return "tpr" in metrics and metrics.get("version") != METRICS


def remeasured(origin: Origin, spec: Json, result: Json) -> Json:
    """A result with its leakage measured as now, from the scores that it left; without them nothing is known.

    Results of two versions of the metrics are never mixed.
    """
    task = spec["task"]
    name = task["attack"]["name"]
    try:
        stored = load(origin.store.read_artefact(result, "scores"))
    except (StoreError, KeyError) as error:
        why = f"measured in another way than now, and its scores are not at hand: {error}"
        nobody = np.zeros((task["models"], 0), dtype=np.bool_)
        return {**result, "metrics": unmeasured(nobody, nobody, why), "roc": {"fpr": [], "tpr": []}}
    found = recompute(
        stored,
        DEPENDENCE.get(name, "learned"),
        canaries=task.get("canaries", 0),
        checks_split=name == "blind",
    )
    return {**result, **found}


def _bench_rows(task: Json, payload: Json) -> list[Json]:
    """One row per method; what is not the method's own comes from the bench."""
    bench = payload["bench"]
    shared = {name: bench[name] for name in ("n_train", "batch_size", "parameters", "device", "threads")}
    shared |= {
        "task": payload["key"],
        "workload": task["workload"]["name"],
        "workload_version": task["workload"]["version"],
        "malloc": _text(bench["malloc"]),
        "trustworthy": bench["trustworthy"],
        "doubt": bench["reason"],
    }
    return [
        {**entry, **shared, **{name: _text(spelled(entry[name])) for name in BENCH_JSON if name in entry}}
        for entry in bench["methods"]
    ]


def _quantile_rows(key: str, phases: Json) -> list[Json]:
    rows = []
    for name, phase in phases.items():
        clocks = {"step": (phase["wall"], phase["cpu"])}
        clocks |= {clock: (wall, {}) for clock, wall in phase["clocks"].items()}
        for clock, (wall, cpu) in clocks.items():
            row = {"task": key, "phase": name, "clock": clock}
            rows += [
                {**row, "quantile": q, "wall_seconds": wall[p], "cpu_seconds": cpu.get(p)}
                for p, q in QUANTILES.items()
            ]
    return rows


def _steps_file(origin: Origin, result: Json) -> str | None:
    """The series of a result as a path inside the store; None where it has none, or not any more."""
    if "steps" not in result["artefacts"]:
        return None
    file = origin.store.artefact(result, "steps")
    return None if file.name in purged_files(file.parent) else file.relative_to(origin.root).as_posix()


def _single_steps(origin: Origin, result: Json, broken: list[Path]) -> list[pa.Table]:
    """The steps of the Parquet file, evenly thinned; a damaged file is reported and left out."""
    if _steps_file(origin, result) is None:
        return []
    try:
        content = pa.BufferReader(origin.store.read_artefact(result, "steps"))
        columns = ["phase", "step", "wall_seconds", "cpu_seconds"]
        with pq.ParquetFile(content) as source:
            series = source.read(columns, use_threads=False)
        series = series.take(_thinned(series.column("phase").to_numpy()))
        count = series.num_rows
        series = series.append_column("task", pa.array([origin.key(result["key"])] * count, pa.string()))
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
