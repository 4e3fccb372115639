"""Resolve the points of a grid to cells: look up names, apply recipes, complete parameters."""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

import methods
import workloads
from harness.accounting import calibrate
from harness.plan.canaries import KINDS, canary_model, refusals
from harness.plan.declarations import declared_by, uncounted
from harness.plan.given_names import OF_THE_CELL
from harness.plan.public_records import find_lack
from harness.plan.solving import Solver, overdetermined, solve
from harness.plan.sweep_file import Grid
from harness.plan.tuned_recipe import TunedRecipe, TunedRecipes
from harness.spec import FIRST_VERSION, Cell, Declared, Notes, Plugin, configuration_of, steps_of
from methods.base import Calibrated, Level, Method, Params
from methods.search import defaults, space
from workloads.errors import BenchError, SpecError, unknown
from workloads.recipe import Recipe, Setting, recipe, tuning


@dataclass(frozen=True)
class Used:
    """What the recipes say about a cell."""

    settings: dict[str, Setting]
    """Those of the workload's recipe."""
    values: dict[str, Any]
    """At the cell's levels, a tuned recipe's over those of the workload's."""
    tuned: TunedRecipe | None = None
    by_tune: frozenset[str] = frozenset()
    """Parameters with the value of a tuned recipe."""
    study: int | None = None
    """The study that chose all of these."""


def resolve_grids(
    grids: Iterable[Grid], seed: int, problems: list[str], tuned: TunedRecipes | None = None
) -> dict[str, tuple[Cell, Notes]]:
    """Every cell of these grids with its notes, by key; problems are added to `problems`."""
    cells: dict[str, tuple[Cell, Notes]] = {}
    for grid in grids:
        for point in grid.points():
            found = resolve_cell(point, grid.where, seed, problems, tuned)
            if found is not None:
                cells[found[0].key] = found
    return cells


def resolve_cell(
    point: Mapping[str, Any],
    where: str,
    seed: int,
    problems: list[str],
    tuned: TunedRecipes | None = None,
    solver: Solver = calibrate,
) -> tuple[Cell, Notes] | None:
    """Resolve one cell and its notes; None, and an entry in `problems`, if something is wrong.

    Args:
        point: Workload, method and the values of the grid.
        where: Its place in messages.
        seed: Of the cell.
        problems: Added to.
        tuned: Values that are laid over those of the workload's recipe.
        solver: Solves for the free parameter of a calibrated method.
    """
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
        chosen = tuned.find(workload.name, names["method"]) if tuned is not None else None
        if chosen is not None and n_train is not None:
            refused = chosen.refusals(workload.version, method.version, n_train, seed)
            if refused:
                problems += [f"{where}: {each}" for each in refused]
                return None
        used = _from_recipes(book, chosen, names["method"], method, point)
        given |= _in_steps(where, point, method, used.values | given, n_train, problems)
        values = used.values | given
        params = validate(where, method.Params, values, problems)
        wrong = refusals(workload, method, params, canary, count)
        strange = [*wrong, *filter(None, [find_lack(workload, method)])]
        problems += [f"{where}: {each}" for each in strange]
        if params is None or n_train is None or strange:
            return None
        model = canary_model(workload, canary, count or 0)
        params = solve(method, params, n_train, model, given, solver)
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
    declared = declared_by(names["method"], cell.params, given)
    notes = _notes(method, params, used, given, declared)
    return cell, replace(notes, tuned_at=_tuned_elsewhere(used, given, cell, workload.n_train))


def _notes(method: Method, params: Params, used: Used, given: Mapping[str, Any], declared: Declared) -> Notes:
    """The notes of a cell's tasks: configuration, levels and tuning."""
    values = params.model_dump()
    levels = {name: values[name] for name in level_names(method)}
    if isinstance(method, Calibrated) and values.get("epsilon") is None:  # the noise is the level
        levels[method.free] = values[method.free]
    configuration = configuration_of(values, uncounted(method))
    own = (setting for name, setting in used.settings.items() if name not in used.by_tune | given.keys())
    before = tuning(own)
    notes = Notes(
        before.tried,
        before.by,
        before.on,
        configuration=configuration,
        levels=levels,
        declared=declared,
    )
    if used.tuned is None or not used.by_tune:
        return notes
    head = used.tuned.head
    return replace(
        notes,
        tried=max(head.tried, before.tried or 0),
        tuned_by=f"tune:{head.name}",
        tuned_on="validation",
        trials=head.trials,
        studies=head.studies,
        tune=head.tune,
        study=used.study,
    )


def _tuned_elsewhere(used: Used, given: Mapping[str, Any], cell: Cell, n_train: int) -> str | None:
    """At which epsilon and number of members a recipe's values were tuned, if the cell has others.

    A recipe is made at the workload's own number of members.
    """
    own = [each for name, each in used.settings.items() if name not in used.by_tune | given.keys()]
    tuned = [each for each in own if each.source == "tuned"]
    steps = {float(step) for each in tuned for step in each.from_epsilon or ()}
    asked, found = cell.params.get("epsilon"), []
    if steps and asked is not None and asked not in steps:
        found.append(f"epsilon {', '.join(f'{step:g}' for step in sorted(steps))}")
    if tuned and cell.n_train != n_train:
        found.append(f"n_train {n_train}")
    return " and ".join(found) or None


def level_names(method: Method) -> list[str]:
    """The parameters, besides epsilon and delta, that trade privacy for accuracy."""
    return [name for name, info in method.Params.model_fields.items() if Level() in info.metadata]


def _n_train(where: str, given: Any, problems: list[str]) -> int | None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        problems.append(f"{where}: n_train = {given!r}: give a whole number of members, 1 or more")
        return None
    return given


def _in_steps(
    where: str,
    point: Mapping[str, Any],
    method: Method,
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
    elif not _steps_through_members(method):
        problems.append(
            f"{where}: epochs = {epochs!r}: the method has no steps of batches of members; leave it out"
        )
    else:
        batch = values.get("batch_size", method.Params.model_fields["batch_size"].default)
        if isinstance(batch, int) and batch > 0:  # anything else is refused as a parameter
            return {"steps": steps_of(epochs, batch, n_train)}
    return {}


def _steps_through_members(method: Method) -> bool:
    """Whether `steps` are of batches of members: those of a student are of public records."""
    axis = space(method).names.get("epochs")
    return {"steps", "batch_size"} <= method.Params.model_fields.keys() and (
        axis is None or axis.field == "steps"
    )


def recipe_values(
    book: Recipe, name: str, method: Method, point: Mapping[str, Any], number: str | None = None
) -> tuple[dict[str, Setting], dict[str, Any]]:
    """The settings of a workload's recipe for a method, with a numbered one if given, and their values."""
    settings = book.settings(name, method.Params.model_fields, number)
    epsilon = point.get("epsilon", settings["epsilon"].at(None) if "epsilon" in settings else None)
    known = float(epsilon) if isinstance(epsilon, int | float) else None
    return settings, {parameter: setting.at(known) for parameter, setting in settings.items()}


def _from_recipes(
    book: Recipe, tuned: TunedRecipe | None, name: str, method: Method, point: Mapping[str, Any]
) -> Used:
    """The values for a cell by the recipe of its workload, and by a tuned one over it."""
    number = None if point.get("setting") is None else str(point["setting"])
    if tuned is None:
        return Used(*recipe_values(book, name, method, point, number))
    settings, values = recipe_values(book, name, method, point)
    chosen = tuned.find(method.Params.model_fields, number)
    levels = defaults(method) | values | dict(point)
    epsilon = levels.get("epsilon")
    known = float(epsilon) if isinstance(epsilon, int | float) else None
    found = _values_at(chosen, known, levels)
    own = {key: value for key, value in found.items() if key not in point}
    study = _study_of(tuned, found, known, levels, number) if own == found else None
    return Used(settings, values | own, tuned, frozenset(own), study)


def _values_at(
    settings: Mapping[str, Setting], epsilon: float | None, levels: Mapping[str, Any]
) -> dict[str, Any]:
    return {name: each.at(epsilon, levels) for name, each in settings.items()}


def _study_of(
    tuned: TunedRecipe,
    values: Mapping[str, Any],
    epsilon: float | None,
    levels: Mapping[str, Any],
    number: str | None,
) -> int | None:
    """The study that chose these values: the one that was asked for, else the first with the same."""
    if number is not None:
        return int(number)
    for each, settings in tuned.numbered.items():
        with suppress(SpecError):  # a study without a choice at these levels
            if _values_at(settings, epsilon, levels) == values:
                return int(each)
    return None


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
