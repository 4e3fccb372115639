"""Estimate the cost of a plan: from recorded tasks of the same kind, else from a probe or an assumption.

A training costs its steps and the rest (loading, evaluation, pricing, files); an attack by its records and
models (harness/plan/attack_cost.py); a bench by its settings. Nothing here loads torch.
"""

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from harness.plan.attack_cost import Cost, PastAttack, attack_cost, attack_pairs
from harness.spec import Cell, Task
from harness.store import Store
from harness.store.result import Result
from workloads.errors import BenchError, StoreError

if TYPE_CHECKING:
    from harness.plan.plan import Plan

BENCH_OVERHEAD = 2.0
"""Ratio of a bench's run time to the time it measures: set-up, warm-up, a minimum of fifty steps, and memory
measurement are added."""
BENCH_SECONDS = 20.0
"""Of a bench whose settings do not state its seconds."""
BENCH_BYTES = 2**31
START_SECONDS = 10.0
"""Upper bound on the start-up of a worker (importing torch), once per slot."""
ENOUGH = 40
"""Recorded tasks of a kind beyond which no more are read."""

SHAPELESS = (StoreError, OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Errors of a damaged file or one of another shape: it is ignored."""
Kind = tuple[str, str]
"""The names of a workload and a method, or of an attack and nothing."""
Device = Literal["cpu", "cuda"]
"""A kind of device; costs on one do not apply to the other."""


class Usual(NamedTuple):
    """The cost of trainings of a workload and a method; steps scale with `asked_steps`."""

    seconds_per_step: float
    """Time inside the steps of all phases, divided by `asked_steps`."""
    other_seconds: float
    """Loading, set-up, evaluation, pricing and files."""
    peak_memory_bytes: int
    source: str

    def cost(self, cell: Cell) -> Cost:
        """Cost of one training of a cell."""
        seconds = self.seconds_per_step * asked_steps(cell.params) + self.other_seconds
        return Cost(seconds, self.peak_memory_bytes, self.source)


class PastTraining(NamedTuple):
    """The cost of one recorded training."""

    cell: Cell
    seconds_per_step: float
    other_seconds: float
    peak_memory_bytes: int


@dataclass
class Recorded:
    """Costs of recorded tasks, by kind."""

    trainings: dict[Kind, list[PastTraining]] = field(default_factory=lambda: defaultdict(list))
    attacks: dict[str, list[PastAttack]] = field(default_factory=lambda: defaultdict(list))

    def usual(self, cell: Cell) -> Usual | None:
        """The usual cost of trainings most like those of a cell; None if its kind was never recorded.

        Preferred are trainings of the same cell, then of the same batch size and number of members.
        """
        rows = self.trainings.get(_kind(cell))
        if not rows:
            return None
        same = [row for row in rows if row.cell.key == cell.key]
        alike = [row for row in rows if _step_size(row.cell) == _step_size(cell)]
        return _usual(same or alike or rows)

    def cost(self, task: Task) -> Cost | None:
        """The cost of a task; None for a training of which no kind was recorded."""
        if task.timing is not None:
            seconds = BENCH_OVERHEAD * float(task.timing.settings.get("seconds", BENCH_SECONDS))
            return Cost(seconds, BENCH_BYTES, "from its settings")
        if task.attack is not None:
            return attack_cost(task, self.attacks.get(task.attack.name, ()))
        usual = self.usual(task.cell)
        return usual.cost(task.cell) if usual else None


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of the unfinished tasks of a plan; of some the cost may be unknown."""

    by_task: Mapping[str, Cost]
    """Costs by task key."""
    costs: Mapping[str, Cost]
    """Cost of one training, by cell key."""
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Trainings of unknown cost, by the reason."""

    @property
    def seconds(self) -> float:
        """Run time of the tasks of known cost on one slot, without its start-up."""
        return sum(cost.seconds for cost in self.by_task.values())

    @property
    def memory_bytes(self) -> int:
        """The highest known peak of one training."""
        return max((cost.memory_bytes for cost in self.costs.values()), default=0)

    @property
    def complete(self) -> bool:
        """Whether the cost of every task is known."""
        return not self.unknown

    def tasks(self) -> dict[str, float]:
        """Run time of every unfinished task of known cost, by key."""
        return {key: cost.seconds for key, cost in self.by_task.items()}


def estimate(
    plan: "Plan",
    store: Store | None,
    probe: Callable[[Task], Usual] | None = None,
    device: Device = "cpu",
    unprobed: str = "none was probed",
) -> Estimate:
    """Estimate the cost of the unfinished tasks.

    Args:
        plan: The plan.
        store: The store with recorded tasks.
        probe: Times a training of a kind that was never recorded (harness/jobs/probe.py).
        device: The device of trainings; only those recorded on its kind count.
        unprobed: Why there is no probe, for the reason of an unknown cost.
    """
    recorded = read_recorded(plan.todo, store, device)
    probed: dict[Kind, Usual | str] = {}
    by_task: dict[str, Cost] = {}
    costs: dict[str, Cost] = {}
    unknown: dict[str, list[str]] = defaultdict(list)
    for task in plan.todo:
        cost = costs.get(task.cell.key) if task.kind == "train" else recorded.cost(task)
        if task.kind == "train" and cost is None:
            found = recorded.usual(task.cell) or _probed(task, probe, unprobed, probed)
            if isinstance(found, str):
                unknown[f"no similar training was recorded on {device}, and {found}"].append(task.key)
                continue
            cost = costs[task.cell.key] = found.cost(task.cell)
        if cost is not None:
            by_task[task.key] = cost
    return Estimate(by_task, costs, {reason: tuple(keys) for reason, keys in unknown.items()})


def _probed(
    task: Task, probe: Callable[[Task], Usual] | None, unprobed: str, known: dict[Kind, Usual | str]
) -> Usual | str:
    """The probe of a kind of training, or why there is none."""
    kind = _kind(task.cell)
    if kind not in known:
        try:
            known[kind] = probe(task) if probe else unprobed
        except BenchError as error:  # its data is missing, which planning does not need
            known[kind] = f"none can be probed: {_short(error)}"
        except Exception as error:  # noqa: BLE001 - a method that fails must not hide the plan
            known[kind] = f"the probe failed: {type(error).__name__}: {error}"
    return known[kind]


def _short(error: BenchError) -> str:
    """Why a probe is impossible; of missing data what to do instead of every place that was searched."""
    if error.field == "data set":
        return f"data set '{error.value}' is missing, run `privbench data fetch {error.value}`"
    return str(error)


def expected(tasks: Sequence[Task], store: Store, device: Device = "cpu") -> dict[str, Cost]:
    """The cost of every task whose kind was recorded on this device or can be assumed, by key."""
    recorded = read_recorded(tasks, store, device)
    costs = {task.key: recorded.cost(task) for task in tasks}
    return {key: cost for key, cost in costs.items() if cost is not None}


def _kind(cell: Cell) -> Kind:
    return cell.workload.name, cell.method.name


def _step_size(cell: Cell) -> tuple[int, Any]:
    """What decides the time of a step besides workload and method."""
    return cell.n_train, cell.params.get("batch_size")


def read_recorded(tasks: Iterable[Task], store: Store | None, device: Device) -> Recorded:
    """The recorded costs of the kinds of these tasks, from trainings on this kind of device."""
    recorded = Recorded()
    kinds = {_kind(task.cell) for task in tasks if task.kind == "train"}
    names = {task.attack.name for task in tasks if task.attack is not None}
    if not (kinds or names) or store is None or not store.exists():
        return recorded
    for key in sorted(store.keys()):
        with contextlib.suppress(*SHAPELESS):
            task = store.task(key)
            if task.attack is not None and task.attack.name in names:
                if len(recorded.attacks[task.attack.name]) < ENOUGH:
                    recorded.attacks[task.attack.name].append(_past_attack(task, _done(store, key)))
            elif task.kind == "train" and (kind := _kind(task.cell)) in kinds:
                same = sum(row.cell.key == task.cell.key for row in recorded.trainings[kind])
                if same < ENOUGH and device_of(result := _done(store, key)) == device:
                    recorded.trainings[kind].append(_past_training(task, result))
    return recorded


def _done(store: Store, key: str) -> Result:
    """The result of a task; LookupError if it is not done."""
    result = store.result(key, verify=False)
    if result is None or not result.done or result.wall_seconds is None:
        raise LookupError(key)
    return result


def device_of(result: Result) -> Device:
    """The kind of device of a result, from its provenance: `cpu` or the name of a GPU."""
    return "cpu" if result.provenance.get("device", "cpu") == "cpu" else "cuda"


def asked_steps(params: Mapping[str, Any]) -> float:
    """The `steps` parameter, which scales all phases of a training, such as those of teachers and students.

    1 for a method without it, whose recorded cost is not scaled.
    """
    return float(params.get("steps") or 1)


def _past_attack(task: Task, result: Result) -> PastAttack:
    return PastAttack(
        task.cell.workload.name, dict(task.attack_params), attack_pairs(task), float(result.wall_seconds or 0)
    )


def _past_training(task: Task, result: Result) -> PastTraining:
    phases = result.training.phases.values()
    inside = sum(phase.seconds for phase in phases)
    peak = max((phase.peak_memory_bytes for phase in phases), default=0)
    other = max(0.0, (result.wall_seconds or 0.0) - inside)
    return PastTraining(task.cell, inside / asked_steps(task.cell.params), other, peak)


def _usual(rows: Sequence[PastTraining]) -> Usual:
    """Medians, which leave out the first task of a worker, and the highest peak."""
    return Usual(
        statistics.median(row.seconds_per_step for row in rows),
        statistics.median(row.other_seconds for row in rows),
        max(row.peak_memory_bytes for row in rows),
        f"recorded, {len(rows)} trainings",
    )
