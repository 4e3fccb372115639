"""What a plan will cost: from recorded trainings of the same kind, or from a short probe."""

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from harness.plan.benches import Measure
from harness.plan.plan import Plan
from harness.spec import Cell, Task
from harness.store import Store
from harness.store.result import Result
from workloads.errors import BenchError, StoreError

ATTACK_SECONDS = 1.0
"""Taken for an attack: array work on stored signals."""
ATTACK_BYTES = 2**30
BENCH_OVERHEAD = 2.0
"""A bench takes about so many times the seconds it is to time: set-up, warm-up, the fifty steps that
are always timed and the weighing of memory come on top."""
BENCH_BYTES = 2**31

SHAPELESS = (StoreError, OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What a damaged file, or one of another shape, raises: it tells no times, and is no reason not to plan."""
Kind = tuple[str, str]
"""The names of a workload and a method."""
Device = Literal["cpu", "cuda"]
"""A kind of device: times and peaks of one say nothing of the other."""


@dataclass(frozen=True)
class Cost:
    """Of one training: seconds, peak memory, and where the figure comes from."""

    seconds: float
    memory_bytes: int
    source: str


class Training(NamedTuple):
    """What one recorded training took."""

    seconds_per_step: float
    """Inside the steps of all phases, over the steps that were asked for (`asked_steps`)."""
    other_seconds: float
    peak_memory_bytes: int


class Usual(NamedTuple):
    """What trainings of a workload and a method usually take: medians, and the highest peak."""

    trainings: int
    seconds_per_step: float
    other_seconds: float
    peak_memory_bytes: int

    def cost(self, cell: Cell) -> Cost:
        """Of one training of a cell."""
        seconds = self.seconds_per_step * asked_steps(cell.params) + self.other_seconds
        return Cost(seconds, self.peak_memory_bytes, f"recorded, {self.trainings} trainings")


@dataclass(frozen=True)
class Estimate:
    """Of a whole plan."""

    seconds: float
    """Work to do, on one slot."""
    memory_bytes: int
    """The highest peak of one task."""
    costs: dict[str, Cost]
    """One training, by the key of its cell."""

    def tasks(self, plan: Plan) -> dict[str, float]:
        """Seconds of every task to do, by its key."""
        return {task.key: (flat_cost(task) or self.costs[task.cell.key]).seconds for task in plan.todo}


def estimate(
    plan: Plan, store: Store | None, probe: Callable[[Task], Cost] | None = None, device: Device = "cpu"
) -> Estimate | None:
    """The cost of what is to do; None where nothing was recorded and there is no probe.

    Args:
        plan: What is asked for.
        store: Where trainings were recorded.
        probe: Times a training on the device of which nothing was recorded (harness/jobs/probe.py).
        device: What trainings will run on; only those recorded on its kind count.
    """
    recorded = _recorded(plan.todo, store, device)
    probed: dict[Kind, tuple[Cost, Cell]] = {}
    costs: dict[str, Cost] = {}
    seconds, memory = 0.0, 0
    for task in plan.todo:
        if (flat := flat_cost(task)) is not None:
            seconds += flat.seconds
            continue
        cell = task.cell
        kind = _kind(cell)
        if kind in recorded:
            costs[cell.key] = recorded[kind].cost(cell)
        elif probe is None:
            return None
        else:
            try:
                probed[kind] = probed.get(kind) or (probe(task), cell)
            except BenchError:  # its data is not here; planning needs only its size
                return None
            costs[cell.key] = _scaled(*probed[kind], cell)
        seconds += costs[cell.key].seconds
        memory = max(memory, costs[cell.key].memory_bytes)
    return Estimate(seconds, memory, costs)


def expected(tasks: Sequence[Task], store: Store, device: Device = "cpu") -> dict[str, Cost]:
    """The cost of every task whose kind was recorded on such a device before, by its key."""
    recorded = _recorded(tasks, store, device)
    found: dict[str, Cost] = {}
    for task in tasks:
        if (flat := flat_cost(task)) is not None:
            found[task.key] = flat
        elif _kind(task.cell) in recorded:
            found[task.key] = recorded[_kind(task.cell)].cost(task.cell)
    return found


def flat_cost(task: Task) -> Cost | None:
    """What is taken for an attack or a bench; None for a training, whose cost is recorded or probed."""
    if task.kind == "attack":
        return Cost(ATTACK_SECONDS, ATTACK_BYTES, "taken for an attack")
    if task.timing is None:
        return None
    seconds = BENCH_OVERHEAD * Measure(**task.timing.settings).seconds
    return Cost(seconds, BENCH_BYTES, "as long as it was told to time")


def _kind(cell: Cell) -> Kind:
    return cell.workload.name, cell.method.name


def _scaled(cost: Cost, measured: Cell, cell: Cell) -> Cost:
    """The cost of a cell from that of another of its kind, by their steps."""
    share = asked_steps(cell.params) / asked_steps(measured.params)
    return Cost(cost.seconds * share, cost.memory_bytes, cost.source)


def _recorded(tasks: Iterable[Task], store: Store | None, device: Device) -> dict[Kind, Usual]:
    """What was recorded on a kind of device of the kinds that these tasks train."""
    wanted = {_kind(task.cell) for task in tasks if task.kind == "train"}
    found: dict[Kind, list[Training]] = defaultdict(list)
    if not wanted or store is None or not store.exists():
        return {}
    for key in store.keys():  # noqa: SIM118 - a store is no dict
        with contextlib.suppress(*SHAPELESS):
            task = store.task(key)
            kind = _kind(task.cell)
            if task.kind != "train" or kind not in wanted:
                continue
            result = store.result(key, verify=False)
            if result is not None and result.done and device_of(result) == device:
                found[kind].append(_training(task.cell.params, result))
    return {kind: _usual(rows) for kind, rows in found.items()}


def device_of(result: Result) -> Device:
    """The kind of device a result was made on: provenance names a GPU, or says `cpu`."""
    return "cpu" if result.provenance.get("device", "cpu") == "cpu" else "cuda"


def asked_steps(params: Mapping[str, Any]) -> float:
    """The steps that all phases of a training grow with: teachers, generators and students too.

    A method that does not call them `steps` is taken to do as many as it did, all at once.
    """
    return float(params.get("steps") or 1)


def _training(params: Mapping[str, Any], result: Result) -> Training:
    phases = result.training.phases.values()
    inside = sum(phase.seconds for phase in phases)
    peak = max((phase.peak_memory_bytes for phase in phases), default=0)
    return Training(inside / asked_steps(params), max(0.0, (result.wall_seconds or 0.0) - inside), peak)


def _usual(rows: Sequence[Training]) -> Usual:
    return Usual(
        len(rows),
        statistics.median(row.seconds_per_step for row in rows),
        statistics.median(row.other_seconds for row in rows),
        max(row.peak_memory_bytes for row in rows),
    )
