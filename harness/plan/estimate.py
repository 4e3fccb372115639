"""Estimate the cost of a plan from recorded trainings of the same kind, or from a short probe."""

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
"""Assumed for an attack: array operations on stored signals."""
ATTACK_BYTES = 2**30
BENCH_OVERHEAD = 2.0
"""Ratio of a bench's run time to the time it measures: set-up, warm-up, a minimum of fifty steps, and memory
measurement are added."""
BENCH_BYTES = 2**31

SHAPELESS = (StoreError, OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Errors of a damaged file or one of another shape: it is ignored."""
Kind = tuple[str, str]
"""The names of a workload and a method."""
Device = Literal["cpu", "cuda"]
"""A kind of device; costs on one do not apply to the other."""


@dataclass(frozen=True)
class Cost:
    """Cost of one training, and its source."""

    seconds: float
    memory_bytes: int
    source: str


class Training(NamedTuple):
    """The cost of one recorded training."""

    seconds_per_step: float
    """Time inside the steps of all phases, divided by `asked_steps`."""
    other_seconds: float
    peak_memory_bytes: int


class Usual(NamedTuple):
    """Cost of trainings of a workload and a method: medians, and the highest peak."""

    trainings: int
    seconds_per_step: float
    other_seconds: float
    peak_memory_bytes: int

    def cost(self, cell: Cell) -> Cost:
        """Cost of one training of a cell."""
        seconds = self.seconds_per_step * asked_steps(cell.params) + self.other_seconds
        return Cost(seconds, self.peak_memory_bytes, f"recorded, {self.trainings} trainings")


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of a plan."""

    seconds: float
    """Total run time on one slot."""
    memory_bytes: int
    """The highest peak of one task."""
    costs: dict[str, Cost]
    """Cost of one training, by cell key."""

    def tasks(self, plan: Plan) -> dict[str, float]:
        """Run time of every unfinished task, by key."""
        return {task.key: (flat_cost(task) or self.costs[task.cell.key]).seconds for task in plan.todo}


def estimate(
    plan: Plan, store: Store | None, probe: Callable[[Task], Cost] | None = None, device: Device = "cpu"
) -> Estimate | None:
    """Estimate the cost of the unfinished tasks; None if nothing was recorded and probing is impossible.

    Args:
        plan: The plan.
        store: The store with recorded trainings.
        probe: Times a training of which nothing was recorded (harness/jobs/probe.py).
        device: The device of trainings; only those recorded on its kind count.
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
            except BenchError:  # its data is missing, which planning does not need
                return None
            costs[cell.key] = _scaled(*probed[kind], cell)
        seconds += costs[cell.key].seconds
        memory = max(memory, costs[cell.key].memory_bytes)
    return Estimate(seconds, memory, costs)


def expected(tasks: Sequence[Task], store: Store, device: Device = "cpu") -> dict[str, Cost]:
    """The cost of every task whose kind was recorded on this device, by key."""
    recorded = _recorded(tasks, store, device)
    found: dict[str, Cost] = {}
    for task in tasks:
        if (flat := flat_cost(task)) is not None:
            found[task.key] = flat
        elif _kind(task.cell) in recorded:
            found[task.key] = recorded[_kind(task.cell)].cost(task.cell)
    return found


def flat_cost(task: Task) -> Cost | None:
    """The assumed cost of an attack or a bench; None for a training, whose cost is recorded or probed."""
    if task.kind == "attack":
        return Cost(ATTACK_SECONDS, ATTACK_BYTES, "assumed for an attack")
    if task.timing is None:
        return None
    seconds = BENCH_OVERHEAD * Measure(**task.timing.settings).seconds
    return Cost(seconds, BENCH_BYTES, "from its settings")


def _kind(cell: Cell) -> Kind:
    return cell.workload.name, cell.method.name


def _scaled(cost: Cost, measured: Cell, cell: Cell) -> Cost:
    """Scale the cost of a cell of the same kind by the number of steps."""
    share = asked_steps(cell.params) / asked_steps(measured.params)
    return Cost(cost.seconds * share, cost.memory_bytes, cost.source)


def _recorded(tasks: Iterable[Task], store: Store | None, device: Device) -> dict[Kind, Usual]:
    """The usual cost of the kinds of these tasks, from trainings on this kind of device."""
    wanted = {_kind(task.cell) for task in tasks if task.kind == "train"}
    found: dict[Kind, list[Training]] = defaultdict(list)
    if not wanted or store is None or not store.exists():
        return {}
    for key in store.keys():  # noqa: SIM118 - a store is not a dict
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
    """The kind of device of a result, from its provenance: `cpu` or the name of a GPU."""
    return "cpu" if result.provenance.get("device", "cpu") == "cpu" else "cuda"


def asked_steps(params: Mapping[str, Any]) -> float:
    """The `steps` parameter, which scales all phases of a training, such as those of teachers and students.

    1 for a method without it, whose recorded cost is not scaled.
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
