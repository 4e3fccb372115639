"""What the lines of published tables would cost on one slot of this machine: results/costs.json."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from harness.jobs.probe import probe
from harness.members.manifest import workload_facts
from harness.papers.published_lines import find_obstacle, has_data
from harness.papers.published_tables import Published, published
from harness.plan.estimate import Usual, estimate
from harness.plan.plan import make_plan
from harness.plan.published_sweep import RUNS, PublishedSweep, derive
from harness.plan.sweep_file import read_sweep
from harness.spec import Task
from harness.store import Store
from workloads.errors import BenchError

LIMIT = 20 * 60.0
"""Seconds of a line that is still run, on one slot."""


class Cost(BaseModel):
    """The estimated cost of a line; null seconds with the reason if there is no estimate."""

    model_config = ConfigDict(frozen=True)

    models: int
    seconds: float | None = None
    reason: str | None = None


Costs = TypeAdapter(dict[str, Cost])
"""By the key of a line."""


def runnable() -> Iterable[Published]:
    """Every published line that can be a cell of ours."""
    return (line for line in published() if find_obstacle(line) is None)


def read_costs(file: Path) -> dict[str, Cost]:
    """The costs that were estimated before; none without the file."""
    return Costs.validate_json(file.read_bytes()) if file.exists() else {}


def write_costs(file: Path, costs: dict[str, Cost]) -> None:
    """Store costs, by line."""
    file.write_bytes(Costs.dump_json(dict(sorted(costs.items())), indent=1, exclude_none=True) + b"\n")


def once() -> Callable[[Task], Usual]:
    """A probe that times every kind of training, and every size of its steps, once."""
    known: dict[tuple[object, ...], Usual] = {}

    def find(task: Task) -> Usual:
        cell = task.cell
        kind = (cell.workload.name, cell.method.name, cell.n_train, cell.params.get("batch_size"))
        if kind not in known:
            known[kind] = probe(task)
        return known[kind]

    return find


def cost_of(line: Published, store: Store, find: Callable[[Task], Usual]) -> Cost:
    """The cost of all tasks of a line, by times that the store has recorded, or probed."""
    content = derive(PublishedSweep(line.table.name, str(line.number))).content
    models = int(content["models"])
    if not has_data(line):
        dataset = workload_facts(str(line.cell.workload)).dataset
        return Cost(models=models, reason=f"data set `{dataset}` could not be had")
    try:
        made = make_plan(*read_sweep(content, line.table.name), None)
    except BenchError as error:
        return Cost(models=models, reason=str(error))
    found = estimate(made, store, find)
    if found.unknown:
        # Not the folder of this machine, where features could be put.
        return Cost(models=models, reason=next(iter(found.unknown)).partition("; or put")[0])
    return Cost(models=models, seconds=round(found.seconds, 1))


@dataclass(frozen=True)
class Chosen:
    """A line that is run."""

    line: Published
    seconds: float
    models: int | None
    """Instead of the paper's number of runs, where that is beyond the limit."""


def choose(line: Published, cost: Cost) -> Chosen | None:
    """The line as it is run: with the paper's runs, or with three, within the limit; None beyond it."""
    if cost.seconds is None:
        return None
    if cost.seconds <= LIMIT:
        return Chosen(line, cost.seconds, None)
    few = fewest(line, cost)
    return Chosen(line, few, RUNS) if few <= LIMIT else None


def fewest(line: Published, cost: Cost) -> float:
    """Seconds with three models; a line with attacks has as many as it says, since it needs its shadows."""
    attacked = any(metric.attacks for metric in line.block.metrics)
    return (cost.seconds or 0.0) * (1 if attacked else min(1, RUNS / cost.models))
