"""Plan a sweep: its cells, attacks and benches as tasks, and which of them are done.

Members load only to resolve a sweep that was not planned before (resolution.py): what needs them is imported
inside functions.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import methods
from harness import attacks
from harness.plan.given_names import find_unknown
from harness.plan.resolution import Resolution, resolution_of
from harness.plan.sweep_file import Choice, Sweep
from harness.plan.tuned_recipe import TunedRecipes
from harness.spec import Cell, Json, Notes, Plugin, Task
from harness.store import RERUN_REASONS, Store
from harness.store.checks import purged_files
from harness.store.forgotten import read_forgotten
from harness.store.journal import Accepted
from harness.store.result import Result
from methods.base import Params
from workloads.errors import SpecError

ALWAYS = Choice("blind", {})
"""Run on every cell: if members can be distinguished without a model, the split is invalid."""


@dataclass(frozen=True)
class Plan:
    """The tasks of a sweep, in dependency order, and their state in the store."""

    sweep: Sweep
    cells: tuple[Cell, ...]
    tasks: tuple[Task, ...]
    done: frozenset[str]
    failed: Mapping[str, Result]
    """Failed tasks, which only `retry` reruns."""
    purged: frozenset[str] = frozenset()
    """Finished trainings to rerun because unfinished attacks need their purged models."""
    warnings: tuple[str, ...] = ()
    """Warnings to show before anything runs."""
    recorded: Mapping[str, Json] = field(default_factory=dict)
    """The provenance of tasks that are done, with the fingerprints of their code and data."""
    accepted: tuple[Accepted, ...] = ()
    """Changes of code or data since tasks were done, which the user accepts."""
    remarks: tuple[str, ...] = ()
    """What the sweep leaves out or decides for the user, if it was derived."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Workloads of unfinished tasks whose data are not on this machine, and how to get them."""

    @property
    def todo(self) -> list[Task]:
        """The unfinished tasks."""
        return [task for task in self.tasks if task.key not in self.done and task.key not in self.failed]

    @property
    def solved(self) -> dict[str, str]:
        """The parameter that was solved for, by cell key."""
        noted = ((task.cell.key, task.notes.declared) for task in self.tasks)
        return {key: declared.solved for key, declared in noted if declared and declared.solved}


def make_plan(sweep: Sweep, problems: list[str], store: Store | None) -> Plan:
    """Plan a sweep; SpecError with all problems, starting with `problems`.

    Reads the store and writes nothing; without a store nothing is done.
    """
    strange = find_unknown(sweep)
    if strange:
        raise SpecError([*problems, *strange])
    resolved = resolution_of(sweep, partial(resolve, sweep)) if not problems else resolve(sweep, problems)
    return plan_resolved(sweep, resolved, store)


def plan_resolved(sweep: Sweep, resolved: Resolution, store: Store | None) -> Plan:
    """The plan of tasks that are resolved: what is done of them, and whether the others can run."""
    cells, tasks = resolved.cells, resolved.tasks
    recorded, failed = standing_of(tasks, store)
    done = frozenset(recorded)
    warnings = (*weak_deltas(cells), *forgotten_cells(cells, store), *untuned_cells(cells, sweep))
    made = Plan(sweep, cells, tasks, done, failed, warnings=warnings, recorded=recorded)
    kept = _ready(made)  # an attack that does not fit needs no model
    again = purged_trainings(kept.todo, store) & done if store else frozenset()
    return _ready(replace(made, done=done - again, purged=again)) if again else kept


def _ready(plan: Plan) -> Plan:
    """The plan without attacks that do not fit, with warnings about its data; SpecError with all problems."""
    todo = plan.todo
    if not todo:
        return plan
    from harness.plan.inspection.readiness import check_readiness  # a finished sweep needs no data

    done = (task for task in plan.tasks if task.key in plan.done)
    found = check_readiness(todo, done, {choice.name for choice in plan.sweep.attacks})
    if found.problems:
        raise SpecError(found.problems)
    kept = [task for task in plan.tasks if task.key not in found.left_out]
    needed = {key for task in kept for key in task.needs} | {cell.key for cell in plan.cells}
    # Shadows by another method are of no use without the attack that they were planned for.
    kept = [task for task in kept if task.kind != "train" or {task.key, task.cell.key} & needed]
    return replace(plan, tasks=tuple(kept), warnings=(*plan.warnings, *found.warnings), absent=found.absent)


def resolve(sweep: Sweep, problems: Sequence[str] = ()) -> Resolution:
    """Look up the members of a sweep and complete all parameters; SpecError with all problems."""
    from harness.plan.benches import plan_entries
    from harness.plan.cells import resolve_grids

    problems = list(problems)
    choices = list(_resolved_attacks(sweep, problems))
    cells = resolve_grids(sweep.grids, sweep.seed, problems, sweep.tuned)
    benches = plan_entries(sweep.benches, sweep.seed, problems)
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    problems += _without_canaries(choices, [cell for cell, _ in cells.values()])
    if problems:
        raise SpecError(problems)
    planned = [task for cell, notes in cells.values() for task in _tasks(cell, notes, sweep, choices)]
    planned += benches
    tasks = tuple({task.key: task for task in planned}.values())
    return Resolution(tuple(cell for cell, _ in cells.values()), tasks)


def weak_deltas(cells: Iterable[Cell]) -> list[str]:
    """A warning for every delta that is not below 1 / n_train."""
    found = {
        f"{cell.workload.name}, {cell.method.name}: delta = {delta:g} is not below 1 / n_train = 1 / "
        f"{cell.n_train:,} = {1 / cell.n_train:.2g}. Publishing a random record would satisfy this guarantee "
        f"at any epsilon: give a smaller delta, well below {1 / cell.n_train:.1g}"
        for cell in cells
        if (delta := cell.params.get("delta")) is not None
        and cell.params.get("epsilon") != math.inf
        and delta * cell.n_train >= 1
    }
    return sorted(found)


def untuned_cells(cells: Iterable[Cell], sweep: Sweep) -> list[str]:
    """A warning if the sweep's tuned recipe lacks methods of these cells."""
    if sweep.recipe is None or sweep.tuned is None:
        return []
    lacking: dict[str, dict[str, None]] = {}
    for cell in cells:
        if sweep.tuned.find(cell.workload.name, cell.method.name) is None:
            lacking.setdefault(cell.workload.name, {})[cell.method.name] = None
    return [
        f"not tuned on {workload}: {', '.join(names)}: not in {sweep.recipe.name}, so the workload's own "
        "recipe holds"
        for workload, names in lacking.items()
    ]


def forgotten_cells(cells: Iterable[Cell], store: Store | None) -> list[str]:
    """A warning if cells are forgotten: they count as done, and no report shows them."""
    records = read_forgotten(store) if store is not None else {}
    found = [cell for cell in cells if cell.key in records]
    if not found:
        return []
    names = ", ".join(f"{cell.workload.name} {cell.label} ({cell.key[:12]})" for cell in found[:5])
    others = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return [
        f"forgotten: {names}{others}. The results are kept and nothing is retrained, but no report shows "
        f"them: `privbench forget --undo {found[0].key[:12]}` brings them back"
    ]


def purged_trainings(todo: Iterable[Task], store: Store) -> frozenset[str]:
    """Trainings that these tasks need and whose models were purged: they have to be rerun."""
    needed = {key for task in todo for key in task.needs}
    return frozenset(key for key in needed if purged_files(store.folder(key)))


@dataclass(frozen=True)
class ResolvedAttack:
    """An attack with complete parameters, and the method of its shadows if it differs from the target's."""

    attack: Plugin
    params: Mapping[str, Any]
    shadows: str | None
    defaults: bool
    """Whether all parameters are defaults."""

    @property
    def audits(self) -> bool:
        """Whether it needs canaries."""
        from harness.attacks.base import Audit

        return isinstance(attacks.family.get(self.attack.name), Audit)


def _resolved_attacks(sweep: Sweep, problems: list[str]) -> Iterator[ResolvedAttack]:
    """Every attack once: those of the sweep, the blind check, and the declared attacks if there is any."""
    from harness.attacks.base import Attack
    from harness.plan.cells import has_parameters, validate

    seen = []
    for choice in [*sweep.attacks, *_unasked(sweep)]:
        if choice.name not in attacks.family.members:
            problems.append(str(attacks.family.refusal(choice.name)))
            continue
        member = attacks.family.get(choice.name)
        if member.shadows > sweep.models - 1:
            problems.append(
                f"attack {choice.name} needs at least {member.shadows} shadow models beside the target; "
                f"models = {sweep.models} leaves {sweep.models - 1}: "
                f"give models = {member.shadows + 1} or more"
            )
        where = f"attack {choice.name}"
        if not has_parameters(where, choice.params, member.Params, problems):
            continue
        params = validate(where, member.Params, choice.params, problems)
        if choice.shadows is not None and choice.shadows not in methods.family.names():
            problems.append(f"{where}: shadows: {methods.family.refusal(choice.shadows)}")
        elif choice.shadows is not None and not (isinstance(member, Attack) and member.shadows):
            problems.append(
                f"{where}: shadows = {choice.shadows!r}: this attack has no shadows; leave it out"
            )
        elif params is not None and (choice.name, params, choice.shadows) not in seen:
            seen.append((choice.name, params, choice.shadows))
            defaults = choice.shadows is None and params == _defaults(member.Params)
            yield ResolvedAttack(
                Plugin(choice.name, member.version), params.model_dump(), choice.shadows, defaults
            )


def _defaults(kind: type[Params]) -> Params | None:
    """The default parameters; None if one has no default."""
    needed = any(info.is_required() for info in kind.model_fields.values())
    return None if needed else kind()


def _unasked(sweep: Sweep) -> list[Choice]:
    """Attacks that always run, if there are enough models.

    On a cell with a membership attack all declared ones do: the strongest is the cell's leakage.
    """
    from harness.attacks.base import Attack, Selection
    from harness.leakage.candidates import FAMILY

    asked = [choice.name for choice in sweep.attacks if choice.name in attacks.family.members]
    attacked = any(
        isinstance(attacks.family.get(name), Attack | Selection) for name in asked if name != ALWAYS.name
    )
    declared = (*FAMILY, "strongest") if attacked else ()
    unasked = (*(Choice(name, {}) for name in declared), ALWAYS)
    return [choice for choice in unasked if attacks.family.get(choice.name).shadows < sweep.models]


def _without_canaries(choices: Sequence[ResolvedAttack], cells: Sequence[Cell]) -> list[str]:
    """A problem for every audit if no cell has canaries; cells without are left to the other attacks."""
    from harness.plan.canaries import OTHERS

    if any(cell.canary for cell in cells):
        return []
    return [
        f'attack {choice.attack.name} needs canaries: give canary = "gradient" (or {", ".join(OTHERS)}) '
        "and their number, such as canaries = 100, in a grid"
        for choice in choices
        if choice.audits
    ]


def _tasks(cell: Cell, notes: Notes, sweep: Sweep, choices: Sequence[ResolvedAttack]) -> Iterator[Task]:
    for index in range(sweep.models):
        yield Task("train", cell, index=index, notes=notes)
    for choice in choices:
        if choice.audits and cell.canary is None:
            continue
        shadows, beside = _undefended(cell, choice.shadows, sweep.tuned) or (None, Notes())
        if shadows is not None:
            yield from (Task("train", shadows, index=index, notes=beside) for index in range(sweep.models))
        beside = replace(notes, attack_defaults=choice.defaults)
        yield Task("attack", cell, 0, sweep.models, choice.attack, choice.params, shadows, beside)


def _undefended(cell: Cell, method: str | None, tuned: TunedRecipes | None) -> tuple[Cell, Notes] | None:
    """The cell of the shadow models, with the same members; None for the cell itself.

    Shared by all cells of a workload, so that nothing is trained twice.
    """
    if method is None or method == cell.method.name:
        return None
    from harness.plan.cells import resolve_cell

    problems: list[str] = []
    canaries = {"canary": cell.canary, "canaries": cell.canaries} if cell.canary else {}
    point = {"workload": cell.workload.name, "method": method, "n_train": cell.n_train, **canaries}
    found = resolve_cell(point, f"shadows of {cell.label}", cell.seed, problems, tuned)
    if found is None:
        raise SpecError(problems)
    return found


def standing_of(tasks: tuple[Task, ...], store: Store | None) -> tuple[dict[str, Json], dict[str, Result]]:
    """The tasks that are done, with their provenance, and those that failed.

    An attack that failed as `upstream` is unfinished again as soon as none of its trainings is failed.
    """
    done: dict[str, Json] = {}
    failed: dict[str, Result] = {}
    if store is None or not store.exists():
        return {}, {}
    present = store.keys()  # one scan of the folders; a lookup per task would take seconds
    for task in tasks:
        result = store.result(task.key) if task.key in present else None
        if result is None:
            continue
        if result.done:
            done[task.key] = result.provenance
        elif result.reason == "upstream":
            if any(training in failed for training in task.needs):
                failed[task.key] = result
        elif result.reason not in RERUN_REASONS:
            failed[task.key] = result
    return done, failed
