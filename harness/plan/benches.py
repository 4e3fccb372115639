"""Plan benches: which variants are interleaved, on which workload, at which batch size.

For every workload and batch size the methods and the plain baseline train interleaved, a step each
(harness/jobs/bench/interleaving.py). The baseline runs twice: the difference of its two copies shows how
noisy the machine is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import methods
import workloads
from harness.plan.cells import resolve_grids
from harness.plan.declarations import named
from harness.plan.measure import Measure, measure_of
from harness.plan.sweep_file import BenchEntry, Grid
from harness.spec import Cell, Task, Timing
from methods.base import Benched, Calibrated, Recomputed
from methods.training.optimizer import PLAIN
from methods.training.sampling import refuse_larger_than
from workloads.errors import SpecError, unknown
from workloads.recipe import recipe

EPSILON = 8.0
"""The default epsilon of a bench; the time of a step does not depend on it."""


def plan_entries(entries: Sequence[BenchEntry], seed: int, problems: list[str]) -> list[Task]:
    """The bench tasks of a sweep, with the same keys every time; problems are added to `problems`."""
    tasks: list[Task] = []
    for entry in entries:
        try:
            tasks += plan_benches(entry.lists, measure_of(entry.measure, seed), where=entry.where)
        except SpecError as error:
            problems += [
                each if each.startswith(entry.where) else f"{entry.where}: {each}" for each in error.problems
            ]
    return tasks


def plan_benches(
    grid: Mapping[str, list[Any]],
    measure: Measure,
    stamp: str | None = None,
    where: str = "bench",
    both_baselines: bool = False,
) -> list[Task]:
    """One task per workload and batch size; SpecError with all problems. Writes nothing.

    `grid` contains the lists `workload`, `method` and parameters, such as `batch_size` and `engine`.
    A parameter applies to the methods that have it; at least one must. With `both_baselines` the baseline
    is also timed in the other ways that it declares to compute its update.
    """
    baseline = named("plain-baseline")
    names = list(dict.fromkeys([baseline, *grid["method"]]))
    settings = {key: values for key, values in grid.items() if key not in ("workload", "method")}
    settings |= _ways(baseline, settings, both_baselines)
    problems = [f"{where}: {each}" for each in _misplaced(settings, names)]
    pairs = [
        (name, size)
        for name in dict.fromkeys(grid["workload"])
        for size in dict.fromkeys(settings.get("batch_size") or [_usual_batch(name, baseline)])
    ]
    good = [pair for pair in pairs if _fits(*pair, where, problems)]
    grids = tuple(
        Grid(where, _lists(workload, method, settings | {"batch_size": [size]}), {}, ())
        for workload, size in good
        for method in names
    )
    cells = [cell for cell, _ in resolve_grids(grids, measure.seed, problems).values()]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return [_task(cells, *pair, measure, stamp) for pair in good]


def _ways(baseline: str, settings: Mapping[str, list[Any]], both: bool) -> dict[str, list[Any]]:
    """The ways to compute the baseline that are asked for, with its usual one first: the yardstick."""
    member, fields = methods.family.get(baseline), _fields(baseline)
    declared = member.other_ways.items() if isinstance(member, Recomputed) else ()
    return {
        name: list(dict.fromkeys([fields[name].default, *settings.get(name, ()), *(others if both else ())]))
        for name, others in declared
        if both or name in settings
    }


def stamp_now() -> str:
    """A unique stamp."""
    return f"{datetime.now(UTC).isoformat()} {uuid4().hex}"


def _misplaced(settings: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """A problem for every parameter that no method has."""
    has = {field for name in names for field in _fields(name)}
    return [unknown("parameter", name, has) for name in settings if name not in has]


def _fields(method: str) -> Mapping[str, Any]:
    known = methods.family.members.get(method)
    return known.Params.model_fields if known else {}


def _usual_batch(workload: str, baseline: str) -> int:
    """The baseline's batch size on this workload; 1 for an unknown name, which is rejected later."""
    if workload not in workloads.family.members:
        return 1
    has = _fields(baseline)
    setting = recipe(workloads.family.get(workload)).settings(baseline, has).get("batch_size")
    return int(setting.at(None)) if setting else int(has["batch_size"].default)


def _fits(workload: str, size: Any, where: str, problems: list[str]) -> bool:
    """Whether batches of this size can be drawn; if not, adds to `problems`."""
    if workload not in workloads.family.members or not isinstance(size, int) or size < 1:
        return True  # rejected when parameters are validated
    try:
        refuse_larger_than(workloads.family.get(workload).n_train, size)
    except SpecError as error:
        problems.append(f"{where} ({workload}): {error}")
        return False
    return True


def _lists(workload: str, method: str, settings: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The grid of one method: the settings that it has, and defaults of what a step needs."""
    fields = _fields(method)
    member = methods.family.members.get(method)
    own: dict[str, list[Any]] = {}
    if isinstance(member, Benched):
        own = {name: [value] for name, value in member.in_benches.items()}
    # One optimiser for all unless given: a ratio compares methods, not optimisers.
    plain = {name: [value] for name, value in PLAIN.items()}
    asked = plain | own | dict(settings)
    lists = {name: values for name, values in asked.items() if name in fields}
    free = member.free if isinstance(member, Calibrated) else "epsilon"
    settled = (
        recipe(workloads.family.get(workload)).settings(method, fields)
        if member is not None and workload in workloads.family.members
        else {}
    )
    if "epsilon" in fields and not {"epsilon", free} & {*lists, *settled}:
        lists["epsilon"] = [EPSILON]
    return {"workload": [workload], "method": [method], **lists}


def _task(cells: Sequence[Cell], workload: str, size: int, measure: Measure, stamp: str | None) -> Task:
    own = [
        cell
        for cell in cells
        if cell.workload.name == workload and cell.params.get("batch_size") in (None, size)
    ]
    variants = dict(zip(_names(own), own, strict=True))
    control = {again(own[0].method.name): own[0]}
    return Task("bench", own[0], timing=Timing(variants | control, size, asdict(measure), stamp))


def again(baseline: str) -> str:
    """The name of the second copy of the baseline."""
    return f"{baseline} again"


def _names(cells: Sequence[Cell]) -> list[str]:
    """Names of variants: the method, its engine, and the parameters in which its variants differ."""
    names = []
    for cell in cells:
        others = [each.params for each in cells if each.method == cell.method]
        differs = [name for name in cell.params if any(each[name] != cell.params[name] for each in others)]
        member = methods.family.get(cell.method.name)
        if isinstance(member, Calibrated) and {"epsilon", member.free} <= {*differs}:
            differs.remove(member.free)
        engine = [cell.params["engine"]] if "engine" in cell.params else []
        values = [_assignment(name, cell.params[name]) for name in differs if name != "engine"]
        names.append(" ".join([cell.method.name, *engine, *values]))
    return names


def _assignment(name: str, value: Any) -> str:
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
