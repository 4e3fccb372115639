"""From a sweep to tasks: look names up, resolve every parameter, solve for noise, leave out what is done."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

import methods
import workloads
from harness import attacks
from harness.attacks.base import Attack, Audit, Selection
from harness.leakage.candidates import FAMILY
from harness.plan.canaries import KINDS, OTHERS, armed_model, refusals
from harness.plan.declarations import declared_by, uncounted
from harness.plan.public_records import find_lack
from harness.plan.solving import overdetermined, solve
from harness.plan.sweep_file import Choice, Sweep
from harness.spec import FIRST_VERSION, Cell, Json, Notes, Plugin, Task, configuration_of
from harness.store import AGAIN, Store
from harness.store.checks import purged_files
from methods.base import Calibrated, Level, Method, Params
from workloads.errors import BenchError, SpecError, unknown
from workloads.recipe import Recipe, Setting, Tuning, recipe, tuning

ALWAYS = Choice("blind", {})
"""Run on every cell: a split that can be told apart without a model makes the cell invalid."""

DECLARED = tuple(Choice(name, {}) for name in (*FAMILY, "strongest"))
"""Run on every cell that any membership attack is asked for: the cell's leakage is that of the strongest."""

OF_THE_CELL = ("n_train", "setting", "canary", "canaries")
"""Keys of a grid that no method has: members per model, the number of a setting in the recipe, canaries."""


@dataclass(frozen=True)
class Plan:
    """The tasks of a sweep in an order that respects their dependencies, and what the store has of them."""

    sweep: Sweep
    cells: tuple[Cell, ...]
    tasks: tuple[Task, ...]
    done: frozenset[str]
    failed: Mapping[str, Json]
    """Tasks whose failure stands: only `retry` runs them again."""
    purged: frozenset[str] = frozenset()
    """Trainings that were done and run again: their models were purged, and attacks to do read them."""
    warnings: tuple[str, ...] = ()
    """What is allowed and should be looked at before anything runs."""

    @property
    def todo(self) -> list[Task]:
        """What is still to be run."""
        return [task for task in self.tasks if task.key not in self.done and task.key not in self.failed]

    @property
    def solved(self) -> dict[str, str]:
        """Cell key to the parameter that was solved for, where one was."""
        noted = ((task.cell.key, task.notes.declared) for task in self.tasks)
        return {key: declared.solved for key, declared in noted if declared and declared.solved}


def make_plan(sweep: Sweep, problems: list[str], store: Store | None) -> Plan:
    """Resolve a sweep; SpecError with all that is wrong, `problems` of its form first.

    Reads the store and writes nothing; with `store` None nothing counts as done.
    """
    problems = list(problems)
    choices = list(_assaults(sweep, problems))
    cells: dict[str, tuple[Cell, Notes]] = {}
    for grid in sweep.grids:
        for point in grid.points():
            found = _cell(point, grid.where, sweep.seed, problems)
            if found is not None:
                cells[found[0].key] = found
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    problems += _unarmed(choices, [cell for cell, _ in cells.values()])
    if problems:
        raise SpecError(problems)
    planned = (task for cell, notes in cells.values() for task in _tasks(cell, notes, sweep, choices))
    tasks = tuple({task.key: task for task in planned}.values())
    done, failed = _standing(tasks, store)
    resolved = tuple(cell for cell, _ in cells.values())
    made = Plan(sweep, resolved, tasks, done, failed, warnings=tuple(weak_deltas(resolved)))
    again = purged_trainings(made.todo, store) & done if store else frozenset()
    return replace(made, done=done - again, purged=again)


def weak_deltas(cells: Iterable[Cell]) -> list[str]:
    """A warning for every delta that is not below one over the number of members."""
    found = {
        f"{cell.workload.name}, {cell.method.name}: delta = {delta:g} is not below 1 / n_train = 1 / "
        f"{cell.n_train:,} = {1 / cell.n_train:.2g}. Publishing a record picked at random would keep such a "
        f"promise at any epsilon: give a smaller delta, well below {1 / cell.n_train:.1g}"
        for cell in cells
        if (delta := cell.params.get("delta")) is not None
        and cell.params.get("epsilon") != math.inf
        and delta * cell.n_train >= 1
    }
    return sorted(found)


def purged_trainings(todo: Iterable[Task], store: Store) -> frozenset[str]:
    """Trainings whose models these tasks read and `privbench purge` deleted: they have to run again."""
    needed = {key for task in todo for key in task.needs}
    return frozenset(key for key in needed if purged_files(store.folder(key)))


@dataclass(frozen=True)
class Assault:
    """An attack with its parameters complete, and the method of its shadows where that is another."""

    attack: Plugin
    params: Json
    shadows: str | None
    defaults: bool
    """Whether nothing of this was given."""

    @property
    def audits(self) -> bool:
        """Whether it needs canaries."""
        return isinstance(attacks.family.get(self.attack.name), Audit)


def _assaults(sweep: Sweep, problems: list[str]) -> Iterator[Assault]:
    """Every attack once; the blind check always among them, the declared attacks where any is asked for."""
    seen = []
    for choice in [*sweep.attacks, *_unasked(sweep)]:
        if choice.name not in attacks.family.members:
            problems.append(unknown("attack", choice.name, attacks.family.names()))
            continue
        member = attacks.family.get(choice.name)
        if member.shadows > sweep.models - 1:
            problems.append(
                f"attack {choice.name} needs at least {member.shadows} shadow models beside the target; "
                f"models = {sweep.models} leaves {sweep.models - 1}: "
                f"give models = {member.shadows + 1} or more"
            )
        where = f"attack {choice.name}"
        if not _has(where, choice.params, member.Params, problems):
            continue
        params = _validated(where, member.Params, choice.params, problems)
        if choice.shadows is not None and choice.shadows not in methods.family.names():
            problems.append(f"{where}: shadows: {unknown('method', choice.shadows, methods.family.names())}")
        elif choice.shadows is not None and not (isinstance(member, Attack) and member.shadows):
            problems.append(
                f"{where}: shadows = {choice.shadows!r}: this attack has no shadows; leave it out"
            )
        elif params is not None and (choice.name, params, choice.shadows) not in seen:
            seen.append((choice.name, params, choice.shadows))
            defaults = choice.shadows is None and params == _defaults(member.Params)
            yield Assault(Plugin(choice.name, member.version), params.model_dump(), choice.shadows, defaults)


def _defaults(kind: type[Params]) -> Params | None:
    """The parameters that nobody had to give; None where one has no default."""
    needed = any(info.is_required() for info in kind.model_fields.values())
    return None if needed else kind()


def _unasked(sweep: Sweep) -> list[Choice]:
    """The attacks that run whether asked for or not, as far as there are models enough for them."""
    asked = [choice.name for choice in sweep.attacks if choice.name in attacks.family.members]
    attacked = any(
        isinstance(attacks.family.get(name), Attack | Selection) for name in asked if name != ALWAYS.name
    )
    declared = DECLARED if attacked else ()
    unasked = (*declared, ALWAYS)
    return [choice for choice in unasked if attacks.family.get(choice.name).shadows < sweep.models]


def _cell(point: Mapping[str, Any], where: str, seed: int, problems: list[str]) -> tuple[Cell, Notes] | None:
    """One resolved cell and what is recorded beside it; None where something is wrong."""
    names = {}
    for kind, family in (("workload", workloads.family), ("method", methods.family)):
        if point[kind] not in family.names():
            problems.append(f"{where}: {unknown(kind, point[kind], family.names())}")
        else:
            names[kind] = str(point[kind])
    if len(names) < 2:
        return None
    workload, method = workloads.family.get(names["workload"]), methods.family.get(names["method"])
    where = f"{where} ({names['workload']}, {names['method']})"
    given = {key: value for key, value in point.items() if key not in (*names, *OF_THE_CELL)}
    if not _has(where, given, method.Params, problems):
        return None
    if refusal := overdetermined(method, given.keys()):
        problems.append(f"{where}: {refusal}")
        return None
    n_train = _n_train(where, point.get("n_train", workload.n_train), problems)
    canary, count = point.get("canary"), point.get("canaries")
    book = recipe(workload)
    try:
        settings, values = _from_recipe(book, names["method"], method, point)
        values |= given
        params = _validated(where, method.Params, values, problems)
        wrong = refusals(workload, method, params, canary, count)
        strange = [*wrong, *filter(None, [find_lack(workload, method)])]
        problems += [f"{where}: {each}" for each in strange]
        if params is None or n_train is None or strange:
            return None
        model = armed_model(workload, canary, count or 0)
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
    """What is recorded beside the tasks of a cell: its configuration, its levels, and how it was tuned."""
    values, fields = params.model_dump(), type(params).model_fields.items()
    levels = {name: values[name] for name, info in fields if Level() in info.metadata}
    if isinstance(method, Calibrated) and values.get("epsilon") is None:  # then the noise itself is the level
        levels[method.free] = values[method.free]
    configuration = configuration_of(values, uncounted(method))
    return Notes(used.tried, used.by, used.on, configuration, levels)


def _unarmed(choices: Sequence[Assault], cells: Sequence[Cell]) -> list[str]:
    """Audits that have no cell with canaries to run on; cells without are left to the other attacks."""
    if any(cell.canary for cell in cells):
        return []
    return [
        f'attack {choice.attack.name} needs canaries: give canary = "gradient" (or {", ".join(OTHERS)}) '
        "and their number, as canaries = 100, in a grid"
        for choice in choices
        if choice.audits
    ]


def _n_train(where: str, given: Any, problems: list[str]) -> int | None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        problems.append(f"{where}: n_train = {given!r}: give a whole number of members, 1 or more")
        return None
    return given


def _from_recipe(
    book: Recipe, name: str, method: Method, point: Mapping[str, Any]
) -> tuple[dict[str, Setting], dict[str, Any]]:
    """The recipe's settings for a method and their values at the point's epsilon, with the numbered setting
    it asks for."""
    number = point.get("setting")
    settings = book.settings(name, method.Params.model_fields, None if number is None else str(number))
    epsilon = point.get("epsilon", settings["epsilon"].at(None) if "epsilon" in settings else None)
    known = float(epsilon) if isinstance(epsilon, int | float) else None
    return settings, {parameter: setting.at(known) for parameter, setting in settings.items()}


def by_method(content: Mapping[str, Any]) -> dict[str, Any]:
    """A sweep made of options, with a grid per method that holds only what the method has.

    So an epsilon compares a private method with one that has none. What none of the methods has stays, and
    is refused with the other mistakes.
    """
    grids = []
    for grid in content["grid"]:
        has = {name: _accepts(name, grid["workload"]) for name in grid["method"]}
        anywhere = set().union(*has.values())
        for name in grid["method"]:
            lacks = anywhere - has[name]
            grids.append({key: value for key, value in grid.items() if key not in lacks} | {"method": [name]})
    return {**content, "grid": grids}


def _accepts(method: str, names: Sequence[str]) -> set[str]:
    """The options that say something to a method on one of these workloads."""
    if method not in methods.family.names():
        return set()
    books = [recipe(workloads.family.get(name)) for name in names if name in workloads.family.names()]
    numbered = {"setting"} if any(book.numbers(method) for book in books) else set()
    return {*methods.family.get(method).Params.model_fields, *numbered}


def _has(where: str, given: Mapping[str, Any], kind: type[Params], problems: list[str]) -> bool:
    strange = [name for name in given if name not in kind.model_fields]
    problems += [f"{where}: {unknown('parameter', name, kind.model_fields)}" for name in strange]
    return not strange


def _validated(
    where: str, kind: type[Params], values: Mapping[str, Any], problems: list[str]
) -> Params | None:
    try:
        return kind(**values)
    except ValidationError as error:
        for each in error.errors():
            name = ".".join(map(str, each["loc"]))
            if each["type"] == "missing":  # its input is all that was given
                problems.append(f"{where}: {name} is missing: it has no default, give a value")
                continue
            given = f"{name} = {each['input']!r}: " if name else ""
            problems.append(f"{where}: {given}{each['msg'].removeprefix('Value error, ')}")
        return None


def _tasks(cell: Cell, notes: Notes, sweep: Sweep, choices: Sequence[Assault]) -> Iterator[Task]:
    for index in range(sweep.models):
        yield Task("train", cell, index=index, notes=notes)
    for choice in choices:
        if choice.audits and cell.canary is None:
            continue
        shadows, beside = _undefended(cell, choice.shadows) or (None, Notes())
        if shadows is not None:
            yield from (Task("train", shadows, index=index, notes=beside) for index in range(sweep.models))
        beside = replace(notes, attack_defaults=choice.defaults)
        yield Task("attack", cell, 0, sweep.models, choice.attack, choice.params, shadows, beside)


def _undefended(cell: Cell, method: str | None) -> tuple[Cell, Notes] | None:
    """The cell of the same members whose models are the shadows; None where they are the cell's own.

    All cells of a workload share it: nothing is trained twice.
    """
    if method is None or method == cell.method.name:
        return None
    problems: list[str] = []
    armed = {"canary": cell.canary, "canaries": cell.canaries} if cell.canary else {}
    point = {"workload": cell.workload.name, "method": method, "n_train": cell.n_train, **armed}
    found = _cell(point, f"shadows of {cell.label}", cell.seed, problems)
    if found is None:
        raise SpecError(problems)
    return found


def _standing(tasks: tuple[Task, ...], store: Store | None) -> tuple[frozenset[str], dict[str, Json]]:
    """What is done and what stands as failed. An attack that failed for want of its models is open
    again as soon as none of them stands as failed."""
    done: set[str] = set()
    failed: dict[str, Json] = {}
    if store is None or not store.exists():
        return frozenset(), {}
    present = store.keys()  # one look at the folders, where a look at every task would take seconds
    for task in tasks:
        result = store.result(task.key) if task.key in present else None
        if result is None:
            continue
        if result["status"] == "done":
            done.add(task.key)
        elif result["reason"] == "upstream":
            if any(training in failed for training in task.needs):
                failed[task.key] = result
        elif result["reason"] not in AGAIN:
            failed[task.key] = result
    return frozenset(done), failed
