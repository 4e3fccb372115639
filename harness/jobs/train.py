"""One train task: draw the members, let the method train, price its ledger, keep what the model says."""

import hashlib
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import methods
import workloads
from harness.accounting import Guarantee, check, find_ceilings, price
from harness.jobs.memory_layout import apply_layout, restore_layout
from harness.jobs.run import Run, Series
from harness.plan.canaries import Armed, arm, coins
from harness.plan.public_records import public_records
from harness.spec import Json, Plugin, Task
from methods.base import Budgeted, Method, Params, Problem, Released
from workloads.base import Records, Workload
from workloads.errors import Diverged, SpecError
from workloads.records import without

EVALUATION_BATCH = 2048
DELTA = 1e-5
"""At which a ledger is priced whose method has no delta of its own."""


@dataclass(frozen=True)
class Outcome:
    """What a finished task hands to the store."""

    payload: Json
    artefacts: dict[str, bytes]
    """File name, e.g. `signals.safetensors`, to content."""


def train(task: Task, device: torch.device, folder: Path, stop: Callable[[], bool]) -> Outcome:
    """Train model `task.index` of the cell and measure what it gives and what it tells."""
    workload, method = members_of(task)
    params = method.Params(**task.cell.params)
    armed, public = lay_out(task)
    mask = torch.cat([membership(task, len(armed.pool)), coins(task.cell, task.index)])
    run = Run(task.key, device, folder / "checkpoint", stop=stop)
    watch(run)
    given = None if public is None else public.x.to(device)
    problem = Problem(workload.classes, armed.model, per_example_loss, given)
    members, problem = apply_layout(armed.members(mask).to(device), problem)
    released = method.train(members, problem, params, run)
    run.finish()
    guarantee = price(released.ledger, getattr(params, "delta", DELTA))
    check(guarantee, bound(method, params))
    ceilings = find_ceilings(released.ledger, guarantee)
    signals = ask(released, armed, device)
    aside = set_aside(released, armed, mask)
    own = slice(len(armed.pool))
    return Outcome(
        payload={
            "metrics": utility(signals, mask[own] & ~aside[own], ~mask[own]),
            "set_aside": int(aside.sum()),
            "guarantee": {
                **guarantee.asdict(),
                "kind": promised(guarantee, method),
                "ceilings": ceilings and ceilings.asdict(),
            },
            "stats": finite(released.stats),
            "phases": {name: summary(series) for name, series in run.phases.items()},
        },
        artefacts={
            "signals.safetensors": save({**signals, "members": mask, "set_aside": aside}),
            "model.safetensors": save(weights(released.predictor)),
            "steps.parquet": step_table(run.phases),
        },
    )


def lay_out(task: Task) -> tuple[Armed, Records | None]:
    """The records of the cell, and the public ones that its method is given, if any."""
    workload, method = members_of(task)
    armed, public = arm(workload, task.cell), public_records(workload, method)
    if public is not None:  # who was looked at in training judges nothing
        armed = replace(armed, test=without(armed.test, public))
    return armed, public


def bound(method: Method, params: Params) -> float | None:
    """The epsilon that the price may not pass; None where there is none."""
    if isinstance(method, Budgeted):
        return method.bound(params)
    epsilon: float | None = getattr(params, "epsilon", None)
    return epsilon


def promised(guarantee: Guarantee, method: Method) -> str:
    """The kind of guarantee: what the price says. Where there is no price, an empirical defence is told
    from no defence by the method's own word; nothing is ever raised above its price."""
    if guarantee.kind == "none" and method.guarantee == "empirical":
        return "empirical"
    return guarantee.kind


watched: list[Run] = []
"""The run in progress, for the heartbeat; at most one."""


def watch(run: Run) -> None:
    """Let the heartbeat tell this run's position."""
    watched[:] = [run]


def members_of(task: Task) -> tuple[Workload, Method]:
    """The plug-ins a task names; an error where the installed version is another."""
    workload = workloads.family.get(task.cell.workload.name)
    method = methods.family.get(task.cell.method.name)
    same_version("workload", task.cell.workload, workload.version)
    same_version("method", task.cell.method, method.version)
    return workload, method


def same_version(kind: str, asked: Plugin, installed: str) -> None:
    """Numbers of two versions are not comparable, so a task runs on the version it was planned for."""
    if asked.version != installed:
        raise SpecError(
            f"the task was planned for {kind} {asked.name} version {asked.version}; installed is "
            f"{installed}: enqueue the sweep again"
        )


def membership(task: Task, pool: int) -> Tensor:
    """Who trains this model: exactly `n_train` of the pool, drawn anew for every index.

    The draw does not depend on the method: model i of every cell of a workload has the same members,
    so that methods are compared on the same people.
    """
    cell = task.cell
    if cell.n_train > pool:
        raise SpecError(f"{cell.workload.name} wants {cell.n_train} members of a pool of {pool}")
    text = f"members/{cell.workload.name}/{cell.workload.version}/{cell.n_train}/{cell.seed}/{task.index}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
    order = torch.randperm(pool, generator=torch.Generator().manual_seed(seed))
    mask = torch.zeros(pool, dtype=torch.bool)
    mask[order[: cell.n_train]] = True
    return mask


def per_example_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, one value per example."""
    return cross_entropy(logits, labels, reduction="none")


def ask(released: Released, armed: Armed, device: torch.device) -> dict[str, Tensor]:
    """One pass of the released model over the pool with its canaries and the test records."""
    predictor = restore_layout(released.predictor).to(device).eval()
    asked = armed.asked
    return {
        "logits": answers(predictor, asked, device),
        "labels": asked.y,
        "test_logits": answers(predictor, armed.test, device),
        "test_labels": armed.test.y,
    }


def set_aside(released: Released, armed: Armed, mask: Tensor) -> Tensor:
    """Members that never trained the released model, over pool and canaries; a method may declare some."""
    if released.set_aside is None:
        return torch.zeros_like(mask)
    aside = armed.set_aside(mask, released.set_aside.cpu())
    if not bool((mask & ~aside)[: len(armed.pool)].any()):
        raise ValueError(
            f"the method set all of its {int(mask.sum())} members aside; let some train the model"
        )
    return aside


def answers(predictor: nn.Module, records: Records, device: torch.device) -> Tensor:
    """Logits in float32 on the CPU; a non-finite one means the training diverged unseen."""
    with torch.no_grad():
        parts = [predictor(x.to(device)).float().cpu() for x in records.batches(EVALUATION_BATCH)]
    logits = torch.cat(parts)
    if not torch.isfinite(logits).all():
        raise Diverged("evaluation", 0, "an answer of the released model")
    return logits.contiguous()


def utility(signals: dict[str, Tensor], included: Tensor, excluded: Tensor) -> Json:
    """Accuracy of the last iterate on test records, members and non-members of the pool.

    Canaries count as neither, and so do members that are set aside.
    """
    logits, labels = signals["logits"][: len(included)], signals["labels"][: len(included)]
    test_logits, test_labels = signals["test_logits"], signals["test_labels"]
    right = logits.argmax(1) == labels
    losses = per_example_loss(logits.double(), labels)
    test_losses = per_example_loss(test_logits.double(), test_labels)
    return {
        "test_accuracy": share(test_logits.argmax(1) == test_labels),
        "test_loss": float(test_losses.mean()),
        "train_accuracy": share(right[included]),
        "train_loss": float(losses[included].mean()),
        "nonmember_accuracy": share(right[excluded]) if bool(excluded.any()) else None,
    }


def share(right: Tensor) -> float:
    """The share of True, exactly rounded: a count divided by a count."""
    return int(right.sum()) / right.numel()


def finite(stats: Mapping[str, float]) -> dict[str, float]:
    """A method's stats as plain numbers; JSON has no others."""
    numbers = {name: float(value) for name, value in stats.items()}
    strange = {name: value for name, value in numbers.items() if not math.isfinite(value)}
    if strange:
        raise ValueError(f"the method gave stats that are not finite: {strange}; leave them out")
    return numbers


def weights(predictor: nn.Module) -> dict[str, Tensor]:
    """The released weights, each contiguous on its own memory as safetensors wants it."""
    return {
        name: each.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, each in predictor.state_dict().items()
    }


def summary(series: Series) -> Json:
    """Quantiles of a phase's step times. The first steps pay for warm-up and are left out."""
    kept = slice(warm_up(len(series.wall)), None)
    return {
        "steps": len(series.wall),
        "total_seconds": math.fsum(series.wall),
        "wall": quantiles(series.wall[kept]),
        "cpu": quantiles(series.cpu[kept]),
        "clocks": {name: quantiles(column[kept]) for name, column in series.clocks.items()},
        "resting_memory_bytes": series.resting_memory_bytes,
        "peak_memory_bytes": series.peak_memory_bytes,
    }


def warm_up(steps: int) -> int:
    """Steps not counted in timings: ten, or a fifth of a short phase."""
    return min(10, steps // 5)


def quantiles(column: list[float]) -> dict[str, float | None]:
    """Five quantiles and the mean; null where nothing was measured."""
    names = ("p05", "p25", "p50", "p75", "p95")
    values = np.asarray(column, dtype=np.float64)
    values = values[np.isfinite(values)]
    if not values.size:
        return {**dict.fromkeys(names), "mean": None}
    levels = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
    return {**dict(zip(names, map(float, levels), strict=True)), "mean": float(values.mean())}


def step_table(phases: dict[str, Series]) -> bytes:
    """The full series as Parquet: a row per step, a column per clock and per observed value."""
    clocks = sorted({name for series in phases.values() for name in series.clocks})
    values = sorted({name for series in phases.values() for name in series.values})
    columns: dict[str, list[Any]] = {name: [] for name in ("phase", "step", "wall_seconds", "cpu_seconds")}
    for phase, series in phases.items():
        count = len(series.wall)
        columns["phase"] += [phase] * count
        columns["step"] += range(count)
        columns["wall_seconds"] += series.wall
        columns["cpu_seconds"] += series.cpu
        for prefix, names, source in (
            ("clock_", clocks, series.clocks),
            ("", values, series.values),
        ):
            for name in names:
                column = source.get(name, [])
                padded = column + [math.nan] * (count - len(column))
                columns.setdefault(prefix + name, []).extend(padded)
    types = {"phase": pa.string(), "step": pa.int32()}
    # from_pandas: a step without the value holds NaN here and null in the file.
    arrays = {
        name: pa.array(column, types.get(name, pa.float64()), from_pandas=True)
        for name, column in columns.items()
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays), sink, compression="zstd")
    return sink.getvalue()
