"""Resolve the points of a grid to cells: look up names, apply recipes, complete parameters."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

import methods
import workloads
from harness.plan.canaries import KINDS, canary_model, refusals
from harness.plan.declarations import declared_by, uncounted
from harness.plan.given_names import OF_THE_CELL
from harness.plan.public_records import find_lack
from harness.plan.solving import overdetermined, solve
from harness.plan.sweep_file import Grid
from harness.spec import FIRST_VERSION, Cell, Notes, Plugin, configuration_of, steps_of
from methods.base import Calibrated, Level, Method, Params
from workloads.errors import BenchError, unknown
from workloads.recipe import Recipe, Setting, Tuning, recipe, tuning


def resolve_grids(grids: Iterable[Grid], seed: int, problems: list[str]) -> dict[str, tuple[Cell, Notes]]:
    """Every cell of these grids with its notes, by key; problems are added to `problems`."""
    cells: dict[str, tuple[Cell, Notes]] = {}
    for grid in grids:
        for point in grid.points():
            found = resolve_cell(point, grid.where, seed, problems)
            if found is not None:
                cells[found[0].key] = found
    return cells


def resolve_cell(
    point: Mapping[str, Any], where: str, seed: int, problems: list[str]
) -> tuple[Cell, Notes] | None:
    """Resolve one cell and its notes; None, and an entry in `problems`, if something is wrong."""
    names = {}
    for kind, family in (("workload", workloads.family), ("method", methods.family)):
        if point[kind] not in family.names():
            problems.append(f"{where}: {family.refusal(str(point[kind]))}")
        else:
            names[kind] = str(point[kind])
    if len(names) < 2:
        return None
    workload, method = workloads.family.get(names["workload"]), methods.family.get(names["method"])
    where = f"{where} ({names['workload']}, {names['method']})"
    given = {key: value for key, value in point.items() if key not in (*names, *OF_THE_CELL)}
    if not has_parameters(where, given, method.Params, problems):
        return None
    if refusal := overdetermined(method, given.keys()):
        problems.append(f"{where}: {refusal}")
        return None
    n_train = _n_train(where, point.get("n_train", workload.n_train), problems)
    canary, count = point.get("canary"), point.get("canaries")
    book = recipe(workload)
    try:
        settings, values = _from_recipe(book, names["method"], method, point)
        given |= _in_steps(where, point, method.Params, values | given, n_train, problems)
        values |= given
        params = validate(where, method.Params, values, problems)
        wrong = refusals(workload, method, params, canary, count)
        strange = [*wrong, *filter(None, [find_lack(workload, method)])]
        problems += [f"{where}: {each}" for each in strange]
        if params is None or n_train is None or strange:
            return None
        model = canary_model(workload, canary, count or 0)
        params = solve(method, params, n_train, model, given)
    except BenchError as error:
        problems.append(f"{where}: {error}")
        return None
    cell = Cell(
        workload=Plugin(workload.name, workload.version),
        n_train=n_train,
        method=Plugin(names["method"], method.version),
        params=params.model_dump(),
        seed=seed,
        canary=canary,
        canaries=count or 0,
        canary_version=KINDS[canary].version if canary else FIRST_VERSION,
    )
    used = tuning(setting for name, setting in settings.items() if name not in given)
    declared = declared_by(names["method"], cell.params, given)
    return cell, replace(_notes(method, params, used), declared=declared)


def _notes(method: Method, params: Params, used: Tuning) -> Notes:
    """The notes of a cell's tasks: configuration, levels and tuning."""
    values, fields = params.model_dump(), type(params).model_fields.items()
    levels = {name: values[name] for name, info in fields if Level() in info.metadata}
    if isinstance(method, Calibrated) and values.get("epsilon") is None:  # the noise is the level
        levels[method.free] = values[method.free]
    configuration = configuration_of(values, uncounted(method))
    return Notes(used.tried, used.by, used.on, configuration, levels)


def _n_train(where: str, given: Any, problems: list[str]) -> int | None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        problems.append(f"{where}: n_train = {given!r}: give a whole number of members, 1 or more")
        return None
    return given


def _in_steps(
    where: str,
    point: Mapping[str, Any],
    kind: type[Params],
    values: Mapping[str, Any],
    n_train: int | None,
    problems: list[str],
) -> dict[str, int]:
    """The steps of a number of epochs, if the point has one."""
    epochs = point.get("epochs")
    if epochs is None or n_train is None:
        return {}
    if isinstance(epochs, bool) or not isinstance(epochs, int | float) or not 0 < epochs < math.inf:
        problems.append(f"{where}: epochs = {epochs!r}: give a number above 0")
    elif "steps" in point:
        problems.append(f"{where}: epochs and steps are given: give one of the two")
    elif not {"steps", "batch_size"} <= kind.model_fields.keys():
        problems.append(f"{where}: epochs = {epochs!r}: the method has no steps of batches; leave it out")
    else:
        batch = values.get("batch_size", kind.model_fields["batch_size"].default)
        if isinstance(batch, int) and batch > 0:  # anything else is refused as a parameter
            return {"steps": steps_of(epochs, batch, n_train)}
    return {}


def _from_recipe(
    book: Recipe, name: str, method: Method, point: Mapping[str, Any]
) -> tuple[dict[str, Setting], dict[str, Any]]:
    """The recipe's settings for a method, with the numbered one if given, and their values at epsilon."""
    number = point.get("setting")
    settings = book.settings(name, method.Params.model_fields, None if number is None else str(number))
    epsilon = point.get("epsilon", settings["epsilon"].at(None) if "epsilon" in settings else None)
    known = float(epsilon) if isinstance(epsilon, int | float) else None
    return settings, {parameter: setting.at(known) for parameter, setting in settings.items()}


def has_parameters(where: str, given: Mapping[str, Any], kind: type[Params], problems: list[str]) -> bool:
    """Whether all names are parameters; adds a problem for each that is not."""
    strange = [name for name in given if name not in kind.model_fields]
    problems += [f"{where}: {unknown('parameter', name, kind.model_fields)}" for name in strange]
    return not strange


def validate(where: str, kind: type[Params], values: Mapping[str, Any], problems: list[str]) -> Params | None:
    """Build the parameters; None, and a problem per invalid value, if there are any."""
    try:
        return kind(**values)
    except ValidationError as error:
        for each in error.errors():
            name = ".".join(map(str, each["loc"]))
            if each["type"] == "missing":  # its input is the whole mapping
                problems.append(f"{where}: {name} is missing: it has no default, give a value")
                continue
            given = f"{name} = {each['input']!r}: " if name else ""
            problems.append(f"{where}: {given}{each['msg'].removeprefix('Value error, ')}")
        return None
