"""Check the open tasks of a plan before anything is sent: data, models, and whether attacks fit."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import methods
import workloads
from harness import attacks
from harness.attacks.base import AttackedCell
from harness.plan.changes.kept import kept_for
from harness.plan.inspection.inspection import (
    Facts,
    Inspection,
    find_absence,
    find_delay,
    inspect,
    parse_inspection,
)
from harness.plan.inspection.misfits import find_misfit
from harness.spec import Cell, Json, Task
from methods.base import Answering, PerExample
from workloads.base import Sensitive, Workload
from workloads.errors import SpecError

INSPECTION, MIXING_LAYERS = "inspection 1", "mixing layers 1"
"""Questions whose answers are kept; the number is raised when the same workload would get another answer."""


@dataclass
class Readiness:
    """What was found about the open tasks of a plan."""

    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    """Workloads whose data are not on this machine, and how to get them."""
    left_out: set[str] = field(default_factory=set)
    """Keys of attacks that do not fit their cell."""


def check_readiness(todo: Sequence[Task], done: Iterable[Task], asked: Collection[str]) -> Readiness:
    """Check open tasks; `asked` names the attacks of the sweep, which must fit some cell of all tasks."""
    found = Readiness()
    cells = {cell.key: cell for task in todo for cell in cells_of(task)}
    facts: dict[str, Facts | None] = {}
    for name in dict.fromkeys(cell.workload.name for cell in cells.values()):
        facts[name] = _check_workload(workloads.family.get(name), found)
    _check_sizes(cells.values(), facts, found)
    _check_models(cells.values(), found)
    fitting = {task.attack.name for task in done if task.attack}
    _check_attacks([task for task in todo if task.attack], facts, fitting, asked, found)
    return found


def cells_of(task: Task) -> list[Cell]:
    """The cells whose data a task reads: several for a bench."""
    return [task.cell] if task.timing is None else list(task.timing.variants.values())


def _check_workload(workload: Workload, found: Readiness) -> Facts | None:
    """The sizes of the workload's records, None if they are absent or unusable."""
    name = workload.name
    if delay := find_delay(workload):
        if find_absence(workload):
            found.absent[name] = delay
        short = delay.partition(";")[0]
        found.warnings.append(f"workload {name}: its records are not on this machine and unchecked: {short}")
        return None
    inspection = inspection_of(workload)
    found.problems += [f"workload {name}: {each.message}" for each in inspection.problems]
    found.warnings += [f"workload {name}: {each}" for each in inspection.warnings]
    return inspection.facts


class Unusable(Exception):
    """Ends an inspection with problems, which is not kept: they are about to be fixed."""

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection
        super().__init__()


def inspection_of(workload: Workload) -> Inspection:
    """The inspection of a workload, kept on disk if it can be used."""

    def compute() -> Json:
        found = inspect(workload)
        if found.problems:
            raise Unusable(found)
        return found.dump()

    try:
        return parse_inspection(kept_for(workload.name, INSPECTION, compute))
    except Unusable as found:
        return found.inspection


def mixing_layers_of(workload: Workload) -> list[str]:
    """Problems of the workload's model with per-example gradients, kept on disk."""

    def compute() -> list[str]:
        from methods.gradients.layers import refuse_mixing_layers  # loads Opacus

        try:
            refuse_mixing_layers(workload.model(0))
        except SpecError as error:
            return error.problems
        return []

    return kept_for(workload.name, MIXING_LAYERS, compute)


def _check_sizes(cells: Iterable[Cell], facts: Mapping[str, Facts | None], found: Readiness) -> None:
    for cell in cells:
        known = facts[cell.workload.name]
        if known is not None and cell.n_train > known.pool:
            problem = (
                f"workload {cell.workload.name}: n_train = {cell.n_train:,} exceeds the pool of "
                f"{known.pool:,} records: give at most {known.pool:,}, or half of it ({known.pool // 2:,}) "
                "for as many non-members as members"
            )
            found.problems += [problem] if problem not in found.problems else []


def _check_models(cells: Iterable[Cell], found: Readiness) -> None:
    """A problem for every model that mixes examples under a method of per-example gradients."""
    users: dict[str, dict[str, None]] = defaultdict(dict)
    for cell in cells:
        method = methods.family.get(cell.method.name)
        if isinstance(method, PerExample) and method.per_example:
            users[cell.workload.name][cell.method.name] = None
    for name, of in users.items():
        found.problems += [
            f"workload {name} with {', '.join(of)}: {problem}"
            for problem in mixing_layers_of(workloads.family.get(name))
        ]


def _check_attacks(
    tasks: Sequence[Task],
    facts: Mapping[str, Facts | None],
    fitting: set[str],
    asked: Collection[str],
    found: Readiness,
) -> None:
    """Leave out attacks that do not fit their cell; a problem for an asked one that fits none."""
    misfits: dict[str, dict[str, list[Task]]] = defaultdict(lambda: defaultdict(list))
    for task in tasks:
        name, known = task.attack.name if task.attack else "", facts[task.cell.workload.name]
        if known is not None and task.cell.n_train > known.pool:
            fitting.add(name)  # refused already: one problem is enough
        elif why := _misfit(task, name, known):
            misfits[name][why].append(task)
        else:
            fitting.add(name)
    together: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, reasons in misfits.items():
        if name in asked and name not in fitting:
            told = "; ".join(f"{_places(unfit)}: {why}" for why, unfit in reasons.items())
            found.problems.append(f"attack {name} fits no cell of the sweep: {told}")
            continue
        for why, unfit in reasons.items():
            found.left_out |= {task.key for task in unfit}
            together[why, _places(unfit)].append(name)
    for (why, places), names in together.items():
        found.warnings.append(f"{places}: without {', '.join(dict.fromkeys(names))}: {why}")


def _places(tasks: Sequence[Task]) -> str:
    """The cells of these tasks for display: by workload, the labels."""
    labels: dict[str, dict[str, None]] = defaultdict(dict)
    for task in tasks:
        labels[task.cell.workload.name][task.cell.label] = None
    return ", ".join(f"{workload} ({', '.join(each)})" for workload, each in labels.items())


def _misfit(task: Task, name: str, facts: Facts | None) -> str | None:
    cell, workload = task.cell, workloads.family.get(task.cell.workload.name)
    method = methods.family.get(cell.method.name)
    known = AttackedCell(
        workload=workload.name,
        classes=workload.classes,
        members=cell.n_train,
        canaries=cell.canaries,
        pool=facts.pool if facts else None,
        shape=facts.shape if facts else None,
        sensitive=workload.sensitive if isinstance(workload, Sensitive) else None,
        no_model=method.no_model if isinstance(method, Answering) else None,
    )
    return find_misfit(attacks.family.get(name), known, method)
