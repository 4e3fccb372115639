"""What a plan will cost: from recorded trainings of the same kind, or from a short probe."""

import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.plan import Plan
from harness.spec import Cell, Json, Task
from harness.store import Store
from workloads.errors import BenchError

ATTACK_SECONDS = 1.0
"""Taken for an attack: array work on stored signals."""
ATTACK_BYTES = 2**30
PROBE_STEPS, PROBE_SECONDS = 20, 3.0


@dataclass(frozen=True)
class Cost:
    """Of one training: seconds, peak memory, and where the figure comes from."""

    seconds: float
    memory_bytes: int
    source: str


class Training(NamedTuple):
    """What one recorded training took."""

    asked: int | None
    """Its parameter `steps`; phases may have taken more, or other ones."""
    step_seconds: float
    """Inside its steps, of all phases together."""
    other_seconds: float
    peak_memory_bytes: int


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
        return {
            task.key: ATTACK_SECONDS if task.kind == "attack" else self.costs[task.cell.key].seconds
            for task in plan.todo
        }


def estimate(plan: Plan, store: Store | None, probing: bool = True) -> Estimate | None:
    """The cost of what is to do; None where nothing was recorded and there is no probe."""
    recorded = _recorded(store)
    probed: dict[tuple[str, str], tuple[Cost, Cell]] = {}
    costs: dict[str, Cost] = {}
    seconds, memory = 0.0, 0
    for task in plan.todo:
        if task.kind == "attack":
            seconds += ATTACK_SECONDS
            continue
        cell = task.cell
        kind = (cell.workload.name, cell.method.name)
        if kind in recorded:
            costs[cell.key] = costs.get(cell.key) or _recall(recorded[kind], cell)
        elif not probing:
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


def expected(tasks: Sequence[Task], store: Store) -> dict[str, Cost]:
    """The cost of every task whose kind was recorded before, by its key."""
    recorded = _recorded(store)
    costs: dict[str, Cost] = {}
    found: dict[str, Cost] = {}
    for task in tasks:
        kind = (task.cell.workload.name, task.cell.method.name)
        if task.kind == "attack":
            found[task.key] = Cost(ATTACK_SECONDS, ATTACK_BYTES, "taken for an attack")
        elif kind in recorded:
            cell = task.cell
            if cell.key not in costs:
                costs[cell.key] = _recall(recorded[kind], cell)
            found[task.key] = costs[cell.key]
    return found


def _scaled(cost: Cost, measured: Cell, cell: Cell) -> Cost:
    """The cost of a cell from that of another of its kind, by their steps."""
    share = (cell.params.get("steps") or 1) / (measured.params.get("steps") or 1)
    return Cost(cost.seconds * share, cost.memory_bytes, cost.source)


def _recorded(store: Store | None) -> dict[tuple[str, str], list[Training]]:
    """Every recorded training by workload and method."""
    found: dict[tuple[str, str], list[Training]] = defaultdict(list)
    for spec, result in store.results() if store and store.exists() else ():
        task = spec["task"]
        if task["kind"] != "train" or result["status"] != "done":
            continue
        # A result of another shape is no reason not to plan: it tells no times.
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            training = _training(task["params"], result)
            found[task["workload"]["name"], task["method"]["name"]].append(training)
    return found


def _training(params: Json, result: Json) -> Training:
    phases = result["phases"].values()
    inside = sum(phase["total_seconds"] for phase in phases)
    peak = max((phase["peak_memory_bytes"] for phase in phases), default=0)
    return Training(params.get("steps"), inside, max(0.0, result["wall_seconds"] - inside), peak)


def _recall(rows: Sequence[Training], cell: Cell) -> Cost:
    # Teachers, generators and students are taken to grow with the steps that were asked for; a method that
    # does not call its steps `steps` is taken to do as many as it did.
    steps = cell.params.get("steps")
    shares = [steps / row.asked if steps and row.asked else 1.0 for row in rows]
    inside = statistics.median(row.step_seconds * share for row, share in zip(rows, shares, strict=True))
    besides = statistics.median(row.other_seconds for row in rows)
    peak = max(row.peak_memory_bytes for row in rows)
    return Cost(inside + besides, peak, f"recorded, {len(rows)} trainings")


def probe(task: Task) -> Cost:
    """Train for a moment in this process and throw the model away."""
    # Imported here: planning what was recorded needs no torch of its own.
    import torch

    from harness.public import public_records
    from harness.run import Interrupted, Run
    from harness.training import best_device, members_of, membership, per_example_loss, warm_up
    from methods.base import Problem
    from workloads.base import Prepared

    workload, method = members_of(task)
    if isinstance(workload, Prepared) and (reason := workload.unprepared()):
        raise BenchError(reason)  # nobody who plans wants to wait for features
    pool = workload.pool()
    members = pool.take(membership(task, len(pool)).nonzero().squeeze(1)).to(best_device())
    began = time.monotonic()
    run = Run(task.key, best_device(), stop=lambda: _enough(run, began))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        public = public_records(workload, method)
        examples = None if public is None else public.x.to(best_device())
        problem = Problem(workload.classes, workload.model, per_example_loss, examples)
        method.train(members, problem, method.Params(**task.cell.params), run)
    except Interrupted:
        pass
    finally:
        torch.set_num_threads(threads)
    phase = list(run.phases.values())[-1]
    steps = run.position[2]
    seconds = statistics.median(phase.wall[warm_up(len(phase.wall)) :]) * steps
    return Cost(seconds, phase.peak_memory_bytes, f"probe of {len(phase.wall)} steps")


def _enough(run: object, began: float) -> bool:
    done = run.position[1] + 1  # type: ignore[attr-defined]  # a Run, which this module loads late
    return bool(done >= PROBE_STEPS or time.monotonic() - began > PROBE_SECONDS)
