"""One training task: draw the members, train, account for the ledger, store the logits."""

import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from dp_accounting import DpEvent
from safetensors.torch import save
from torch import Tensor, nn

from harness.accounting.guarantee import Guarantee, check, without_guarantee
from harness.accounting.ledger import check_priceable
from harness.jobs.memory_layout import quick_pools, restore_layout
from harness.jobs.run import Run, Series
from harness.jobs.setup import Setup, per_example_loss
from harness.plan.canaries import CellRecords
from harness.spec import Json, Task
from harness.store.outcomes import (
    Outcome,
    Phase,
    PricedCeilings,
    PricedGuarantee,
    Quantiles,
    Training,
    Utility,
)
from methods.base import Budgeted, Method, Params, Released
from workloads.base import Records
from workloads.errors import Diverged
from workloads.records import describe

EVALUATION_BATCH = 256
"""What a cache holds of a small network: on a CPU up to three times as fast as 2,048, with the same bits."""
TOP = 10
"""Classes among which the right one counts for `top10_accuracy`."""
DELTA = 1e-5
"""The delta for methods without one."""


@dataclass(frozen=True)
class Made:
    """The outcome and artefacts of a finished task."""

    outcome: Outcome
    artefacts: dict[str, bytes]
    """File name, e.g. `signals.safetensors`, to content."""
    data: Json = field(default_factory=dict)
    """Pool and test records as described by workloads/records.py; empty if none were used."""


def train(task: Task, device: torch.device, folder: Path, stop: Callable[[], bool]) -> Made:
    """Train model `task.index` of the cell, and compute its utility, guarantee and signals."""
    setup = Setup(task.cell, task.index, device)
    records, mask, params = setup.records, setup.mask, setup.params
    run = Run(task.key, device, folder / "checkpoint", stop=stop)
    watch(run)
    released = setup.method.train(setup.members, setup.problem, params, run)
    run.finish()
    guarantee, ceilings = account(released.ledger, setup.method, params)
    signals = collect_signals(released, records, device)
    aside = set_aside(released, records, mask)
    own = slice(len(records.pool))
    return Made(
        Training(
            metrics=utility(signals, mask[own] & ~aside[own], ~mask[own]),
            set_aside=int(aside.sum()),
            guarantee=PricedGuarantee(
                **{**guarantee.asdict(), "kind": promised(guarantee, setup.method)},
                ceilings=ceilings,
            ),
            stats=finite(released.stats),
            phases={name: summary(series) for name, series in run.phases.items()},
        ),
        artefacts={
            "signals.safetensors": save({**signals, "members": mask, "set_aside": aside}),
            "model.safetensors": save(weights(released.predictor)),
            "steps.parquet": step_table(run.phases),
        },
        data=describe_data(setup),
    )


def describe_data(setup: Setup) -> Json:
    """The workload's own records, without canaries, described for the fingerprint of the data."""
    return {"pool": describe(setup.records.pool), "test": describe(setup.workload.test())}


def account(ledger: DpEvent, method: Method, params: Params) -> tuple[Guarantee, PricedCeilings | None]:
    """The guarantee of a ledger and its ceilings; AccountingError if it exceeds the method's bound.

    Accountants load only for a ledger that has a guarantee or claims one.
    """
    check_priceable(ledger)
    nothing = without_guarantee(ledger)
    if nothing is not None:
        check(nothing, bound(method, params))
        return nothing, None
    from harness.accounting import find_ceilings, price_once

    guarantee = price_once(ledger, getattr(params, "delta", DELTA))
    check(guarantee, bound(method, params))
    ceilings = find_ceilings(ledger, guarantee)
    return guarantee, None if ceilings is None else PricedCeilings(**ceilings.asdict())


def bound(method: Method, params: Params) -> float | None:
    """The epsilon that the training may not exceed; None if unlimited."""
    if isinstance(method, Budgeted):
        return method.bound(params)
    epsilon: float | None = getattr(params, "epsilon", None)
    return epsilon


def promised(guarantee: Guarantee, method: Method) -> str:
    """The kind of guarantee that the ledger supports. Only `none` may become `empirical`, if the method
    declares that; no method gets a stronger kind than its ledger supports."""
    if guarantee.kind == "none" and method.guarantee == "empirical":
        return "empirical"
    return guarantee.kind


class Positioned(Protocol):
    """Work in progress."""

    position: tuple[str, int, int]
    """Phase, steps done, total."""


watched: list[Positioned] = []
"""The work in progress, for the heartbeat; at most one."""


def watch(work: Positioned) -> None:
    """Let the heartbeat report the position of this work."""
    watched[:] = [work]


def collect_signals(released: Released, records: CellRecords, device: torch.device) -> dict[str, Tensor]:
    """Logits of the released model on pool, canaries and test records."""
    predictor = restore_layout(released.predictor).to(device).eval()
    candidates = records.candidates
    return {
        "logits": predict_logits(predictor, candidates, device),
        "labels": candidates.y,
        "test_logits": predict_logits(predictor, records.test, device),
        "test_labels": records.test.y,
    }


def set_aside(released: Released, records: CellRecords, mask: Tensor) -> Tensor:
    """Mask over pool and canaries of the members that the method kept out of training."""
    if released.set_aside is None:
        return torch.zeros_like(mask)
    aside = records.set_aside(mask, released.set_aside.cpu())
    if not bool((mask & ~aside)[: len(records.pool)].any()):
        raise ValueError(f"the method set aside all of its {int(mask.sum())} members: it must train on some")
    return aside


def predict_logits(predictor: nn.Module, records: Records, device: torch.device) -> Tensor:
    """Logits in float32 on the CPU; Diverged if one is not finite."""
    with torch.no_grad(), quick_pools(predictor):
        parts = [predictor(x.to(device)).float().cpu() for x in records.batches(EVALUATION_BATCH)]
    logits = torch.cat(parts)
    if not torch.isfinite(logits).all():
        raise Diverged("evaluation", 0, "a logit of the released model")
    return logits.contiguous()


def utility(signals: dict[str, Tensor], included: Tensor, excluded: Tensor) -> Utility:
    """Accuracy of the last iterate on test records, members and non-members of the pool.

    Canaries and members that were set aside are left out.
    """
    logits, labels = signals["logits"][: len(included)], signals["labels"][: len(included)]
    test_logits, test_labels = signals["test_logits"], signals["test_labels"]
    right = logits.argmax(1) == labels
    losses = per_example_loss(logits.double(), labels)
    test_losses = per_example_loss(test_logits.double(), test_labels)
    return Utility(
        test_accuracy=share(test_logits.argmax(1) == test_labels),
        test_loss=float(test_losses.mean()),
        train_accuracy=share(right[included]),
        train_loss=float(losses[included].mean()),
        nonmember_accuracy=share(right[excluded]) if bool(excluded.any()) else None,
        majority_accuracy=share(test_labels == test_labels.mode().values),
        top10_accuracy=top_accuracy(test_logits, test_labels, TOP),
    )


def top_accuracy(logits: Tensor, labels: Tensor, count: int) -> float | None:
    """The share of records whose class is among the `count` likeliest; None if it is by necessity."""
    if logits.shape[1] <= count:
        return None
    return share((logits.topk(count, dim=1).indices == labels[:, None]).any(1))


def share(right: Tensor) -> float:
    """The share of True values."""
    return int(right.sum()) / right.numel()


def finite(stats: Mapping[str, float]) -> dict[str, float]:
    """A method's stats as finite floats, as JSON requires."""
    numbers = {name: float(value) for name, value in stats.items()}
    strange = {name: value for name, value in numbers.items() if not math.isfinite(value)}
    if strange:
        raise ValueError(f"the method returned non-finite stats: {strange}; leave them out")
    return numbers


def weights(predictor: nn.Module) -> dict[str, Tensor]:
    """The released weights, each contiguous in its own memory as safetensors requires."""
    return {
        name: each.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, each in predictor.state_dict().items()
    }


def summary(series: Series) -> Phase:
    """Quantiles of a phase's step times, without warm-up steps."""
    kept = slice(warm_up(len(series.wall)), None)
    return Phase(
        steps=len(series.wall),
        total_seconds=math.fsum(series.wall),
        wall=quantiles(series.wall[kept]),
        cpu=quantiles(series.cpu[kept]),
        clocks={name: quantiles(column[kept]) for name, column in series.clocks.items()},
        resting_memory_bytes=series.resting_memory_bytes,
        peak_memory_bytes=series.peak_memory_bytes,
    )


def warm_up(steps: int) -> int:
    """Number of warm-up steps: ten, or a fifth of a short phase."""
    return min(10, steps // 5)


def quantiles(column: list[float]) -> Quantiles:
    """Five quantiles and the mean; None if nothing was measured."""
    values = np.asarray(column, dtype=np.float64)
    values = values[np.isfinite(values)]
    if not values.size:
        return Quantiles(p05=None, p25=None, p50=None, p75=None, p95=None, mean=None)
    p05, p25, p50, p75, p95 = map(float, np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]))
    return Quantiles(p05=p05, p25=p25, p50=p50, p75=p75, p95=p95, mean=float(values.mean()))


def step_table(phases: dict[str, Series]) -> bytes:
    """All steps as Parquet: a row per step, a column per clock and per observed value."""
    clocks = sorted({name for series in phases.values() for name in series.clocks})
    values = sorted({name for series in phases.values() for name in series.values})
    columns: dict[str, list[Any]] = {name: [] for name in ("step", "wall_seconds", "cpu_seconds")}
    for series in phases.values():
        count = len(series.wall)
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
    arrays = {
        "phase": texts([phase for phase, series in phases.items() for _ in series.wall]),
        "step": numbers(columns.pop("step"), pa.int32()),
        **{name: numbers(column, pa.float64()) for name, column in columns.items()},
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays), sink, compression="zstd")
    return sink.getvalue()


def texts(column: list[str]) -> pa.Array:
    """A column for Parquet, from its bytes: `pa.array` loads pandas."""
    encoded = [text.encode() for text in column]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(column), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def numbers(column: list[Any], kind: pa.DataType) -> pa.Array:
    """A column for Parquet, with null for NaN, from its bytes as well."""
    values = np.asarray(column, kind.to_pandas_dtype())
    missing = np.isnan(values)
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(values)])
