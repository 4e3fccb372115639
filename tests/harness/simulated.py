"""A store of simulated results, as jobs would write them, at any size."""

import io
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.leakage.figures import unmeasured
from harness.spec import Cell, Json, Notes, Plugin, Task, Timing
from harness.store import Store
from harness.store.journal import SweepEntry, SweepRecord
from harness.store.outcomes import Rate
from harness.store.result import Result, parse_result

WORKLOADS = ("digits-linear", "digits-mlp")
ATTACKS = ("loss", "lira")
MODELS = 4
STEPS = 30
WHOSE = ("members", "nonmembers")
PAPER = {"batch_size": 64, "steps": 90, "sigma": 0.3, "gamma": 4, "T": 3}
"""Parameters of a cell that a published table holds."""


def cell(workload: str, method: str, **params: Any) -> Cell:
    return Cell(Plugin(workload, "1"), 100, Plugin(method, "1"), {"lr": 0.5, "batch_size": 64, **params}, 0)


def cells(workload: str) -> list[Cell]:
    return [
        cell(workload, "sgd"),
        cell(workload, "dp-sgd", epsilon=1.0, delta=1e-5),
        cell(workload, "dp-sgd", epsilon=math.inf, delta=1e-5),
    ]


def attack(on: Cell, name: str, models: int = MODELS, version: str = "1") -> Task:
    return Task("attack", on, models=models, attack=Plugin(name, version), attack_params={"k": 3})


def series(steps: int) -> bytes:
    rows = np.arange(steps)
    table = pa.table(
        {
            "phase": pa.array(["warm" if row < steps // 3 else "train" for row in rows]),
            "step": pa.array(rows, pa.int32()),
            "wall_seconds": 0.001 * (rows + 1),
            "cpu_seconds": 0.002 * (rows + 1),
            "clock_clip": 0.0005 * (rows + 1),
            "loss": 1.0 / (rows + 1),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def timing(seconds: float) -> Json:
    return {
        "p05": 0.8 * seconds,
        "p25": 0.9 * seconds,
        "p50": seconds,
        "p75": 1.1 * seconds,
        "p95": 1.2 * seconds,
        "mean": seconds,
    }


def phase(steps: int, seconds: float, extra: int) -> Json:
    return {
        "steps": steps,
        "wall": timing(seconds),
        "cpu": timing(2 * seconds),
        "clocks": {"clip": timing(seconds / 2)},
        "resting_memory_bytes": 1000,
        "peak_memory_bytes": 1000 + extra,
    }


def training(task: Task, accuracy: float, seconds: float = 0.01) -> Json:
    epsilon = task.cell.params.get("epsilon")
    private = epsilon is not None and math.isfinite(epsilon)
    return {
        "metrics": {
            "test_accuracy": accuracy,
            "test_loss": 1 - accuracy,
            "train_accuracy": accuracy / 2,
            "train_loss": 0.1,
            "nonmember_accuracy": accuracy,
        },
        "guarantee": {
            "kind": "approximate-dp" if private else "none",
            "epsilon": epsilon if private else None,
            "delta": 1e-5 if private else None,
            "adjacency": "add-or-remove-one",
            "accountant": "pld" if private else "none",
            "epsilons": {"pld": 1.0, "rdp": 1.25, "paper": 0.75} if private else {},
            "assumptions": ["poisson sampling"] if private else [],
        },
        "stats": {"clipped": 0.5},
        "phases": {"warm": phase(10, seconds / 4, 700), "train": phase(20, seconds, 500)},
    }


def known(figure: float | None) -> float:
    """A figure that was measured."""
    assert figure is not None
    return figure


def leakage(auc: float, **verdict: Any) -> Json:
    blank = Rate().model_dump()
    point = {**blank, "value": auc / 2, "low": auc / 3, "high": auc, "tied": 0.0}
    missing = {**blank, "reason": "needs N >= 100000"}
    empty = np.zeros((MODELS, 0), dtype=np.bool_)
    metrics = {
        **unmeasured(empty, empty, "").model_dump(exclude={"valid", "message"}),
        "note": None,
        "models": MODELS,
        "n_members": 400,
        "n_nonmembers": 500,
        "auc": auc,
        "auc_low": auc - 0.01,
        "auc_high": auc + 0.01,
        "auc_pooled": auc - 0.001,
        "auc_se": 0.005,
        "interval": "two-way",
        "balanced_accuracy": 0.6,
        "accuracy_oracle": 0.7,
        "advantage": 0.2,
        "tpr": {"0.1": point, "0.01": point, "0.001": missing, "0.0001": missing},
        **verdict,
    }
    return {"metrics": metrics, "roc": {"fpr": [0.0, 1.0], "tpr": [0.0, 1.0]}}


def ended(task: Task, status: str = "done", **more: Any) -> Result:
    """A minimal result: the task is done, or the reason of its failure."""
    reason = None if status == "done" else "error"
    head: Json = {"key": task.key, "kind": task.kind, "status": status, "reason": reason, "artefacts": {}}
    return parse_result({**head, **more})


def sweep_record(name: str, *tasks: Task, backend: str | None = "local", **more: Any) -> SweepRecord:
    """The record of tasks that were enqueued under a name."""
    entries = [SweepEntry(key=task.key, kind=task.kind, cell=task.cell_key) for task in tasks]
    return SweepRecord(name=name, backend=backend, tasks=entries, **more)


def publish(store: Store, task: Task, payload: Json, steps: int = STEPS) -> None:
    """Publish a result as a job does."""
    store.add(task)
    failed = "reason" in payload
    artefacts = {}
    if task.kind == "train" and not failed:
        artefacts["steps"] = store.write_artefact(task.key, "steps.parquet", series(steps))
    head = {
        "started": "2026-01-02T03:04:05+00:00",
        "finished": "2026-01-02T03:05:05+00:00",
        "wall_seconds": 60.0,
        "provenance": {"host": "here", "device": "cpu", "threads": 2, "torch": "2"},
        "artefacts": artefacts,
    }
    assert store.publish(ended(task, "failed" if failed else "done", **head | payload))


def fill(store: Store) -> None:
    """2 workloads x 3 cells x 4 models x 2 attacks, blind checks, a failure and a lone model."""
    random = np.random.default_rng(0)
    for workload in WORKLOADS:
        for number, each in enumerate(cells(workload)):
            for index in range(MODELS):
                accuracy = round(float(random.uniform(0.5, 0.9)), 3)
                task = Task("train", each, index=index, notes=Notes(tried=number or None))
                publish(store, task, training(task, accuracy, seconds=0.01 * (1 + number)))
            for name in ATTACKS:
                auc = round(float(random.uniform(0.5, 0.9)), 3)
                publish(store, attack(each, name), leakage(auc))
            sound = (workload, number) != ("digits-mlp", 2)
            blind = leakage(0.5 if sound else 0.8, valid=sound, message="looked")
            publish(store, attack(each, "blind"), blind)
    failed = Task("train", cell("digits-mlp", "dp-sgd", epsilon=8.0))
    publish(store, failed, {"reason": "diverged", "message": "loss is not finite at step 3"})
    lone = cell("digits-mlp", "dp-sgd", epsilon=4.0)
    publish(store, Task("train", lone), training(Task("train", lone), 0.75), steps=2500)
    publish(store, attack(lone, "loss", models=1), leakage(0.6))


def fill_findings(store: Store) -> None:
    """An audit, an attribute inference, a gradient inversion, a bench, and a cell that is a paper's."""
    on = cells("digits-mlp")[1]
    audit = {"canaries": 100, "threat": "black box", "copies": 1, "trials": 100, "guesses": 40, "correct": 30}
    audit |= {"confidence": 0.95, "delta": 1e-5, "epsilon": 1.5, "epsilon_priced": 1.0, "alarm": True}
    audit |= {"message": "above the price"}
    publish(store, attack(on, "audit-one-run"), {"audit": audit})
    guess: Json = {
        f"{what}_{whose}": 0.6 for what in ("accuracy", "imputation", "advantage") for whose in WHOSE
    }
    guess |= {"n_members": 10, "n_nonmembers": 12, "attribute": "sex", "prior": 0.5}
    guess |= {"gap": 0.1, "gap_low": 0.0, "gap_high": 0.2, "gap_interval": "t over models"}
    publish(store, attack(on, "attribute"), {"attribute": guess})
    shares = ("beats_mean_colour", "success_rate")
    figures = (
        "mse_median",
        "mse_median_normalised",
        "mse_median_mean_colour",
        "psnr_median",
        "label_accuracy",
    )
    rebuilt = dict.fromkeys(
        [*figures, *(share + end for share in shares for end in ("", "_low", "_high"))], 0.25
    )
    inversion = Task("attack", on, models=1, attack=Plugin("dlg", "1"), attack_params={"when": "start"})
    publish(store, inversion, {"reconstruction": {**rebuilt, "images": 4}})
    theirs = Cell(Plugin("cifar10-vit-head", "1"), 500, Plugin("pd-sgd", "1"), PAPER, 0)
    for index in range(3):
        task = Task("train", theirs, index=index)
        publish(store, task, training(task, 0.9 + index / 100) | {"stats": {"rejection_rate": index / 7}})
    publish_bench(store)


def publish_bench(store: Store) -> None:
    """Two methods, one of which failed."""
    timed = {"sgd": cell("digits-mlp", "sgd"), "dp-sgd": cell("digits-mlp", "dp-sgd", epsilon=1.0)}
    task = Task("bench", timed["sgd"], timing=Timing(timed, 64, {"threads": 2}, "2026-01-02"))
    shared: Json = {"workload": "digits-mlp", "n_train": 100, "batch_size": 64, "parameters": 10}
    shared |= {"device": "cpu", "clock": "cpu", "threads": 2, "malloc": {}}
    entries: list[Json] = [
        {
            "variant": name,
            "role": "yardstick" if name == "sgd" else "method",
            "method": name,
            "method_version": "1",
            "guarantee_kind": "none",
            "status": "done" if name == "sgd" else "failed",
            **dict.fromkeys(("engine", "engine_used", "reason", "message")),
            **dict.fromkeys(("logical_batch_size", "physical_batch_size"), 64),
            "steps": 60,
            "ratio": 1.0 if name == "sgd" else None,
            **{each: {} for each in ("params", "clocks", "phases")},
        }
        for name in timed
    ]
    publish(store, task, {"bench": {**shared, "trustworthy": True, "reason": None, "methods": entries}})
