"""Plan a sweep: its cells, attacks and benches as tasks, and which of them are done."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import methods
from harness import attacks
from harness.attacks.base import Attack, Audit, Selection
from harness.leakage.candidates import FAMILY
from harness.plan.benches import plan_entries
from harness.plan.canaries import OTHERS
from harness.plan.cells import has_parameters, resolve_cell, resolve_grids, validate
from harness.plan.sweep_file import Choice, Sweep
from harness.spec import Cell, Notes, Plugin, Task
from harness.store import RERUN_REASONS, Store
from harness.store.checks import purged_files
from harness.store.result import Result
from methods.base import Params
from workloads.errors import SpecError, unknown

ALWAYS = Choice("blind", {})
"""Run on every cell: if members can be distinguished without a model, the split is invalid."""

DECLARED = tuple(Choice(name, {}) for name in (*FAMILY, "strongest"))
"""Run on every cell with a membership attack: the cell's leakage is measured by the strongest."""


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
    problems = list(problems)
    choices = list(_resolved_attacks(sweep, problems))
    cells = resolve_grids(sweep.grids, sweep.seed, problems)
    benches = plan_entries(sweep.benches, sweep.seed, problems)
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    problems += _without_canaries(choices, [cell for cell, _ in cells.values()])
    if problems:
        raise SpecError(problems)
    planned = [task for cell, notes in cells.values() for task in _tasks(cell, notes, sweep, choices)]
    planned += benches
    tasks = tuple({task.key: task for task in planned}.values())
    done, failed = _standing(tasks, store)
    resolved = tuple(cell for cell, _ in cells.values())
    made = Plan(sweep, resolved, tasks, done, failed, warnings=tuple(weak_deltas(resolved)))
    again = purged_trainings(made.todo, store) & done if store else frozenset()
    return replace(made, done=done - again, purged=again)


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
        return isinstance(attacks.family.get(self.attack.name), Audit)


def _resolved_attacks(sweep: Sweep, problems: list[str]) -> Iterator[ResolvedAttack]:
    """Every attack once: those of the sweep, the blind check, and the declared attacks if there is any."""
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
        if not has_parameters(where, choice.params, member.Params, problems):
            continue
        params = validate(where, member.Params, choice.params, problems)
        if choice.shadows is not None and choice.shadows not in methods.family.names():
            problems.append(f"{where}: shadows: {unknown('method', choice.shadows, methods.family.names())}")
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
    """Attacks that always run, if there are enough models."""
    asked = [choice.name for choice in sweep.attacks if choice.name in attacks.family.members]
    attacked = any(
        isinstance(attacks.family.get(name), Attack | Selection) for name in asked if name != ALWAYS.name
    )
    declared = DECLARED if attacked else ()
    unasked = (*declared, ALWAYS)
    return [choice for choice in unasked if attacks.family.get(choice.name).shadows < sweep.models]


def _without_canaries(choices: Sequence[ResolvedAttack], cells: Sequence[Cell]) -> list[str]:
    """A problem for every audit if no cell has canaries; cells without are left to the other attacks."""
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
        shadows, beside = _undefended(cell, choice.shadows) or (None, Notes())
        if shadows is not None:
            yield from (Task("train", shadows, index=index, notes=beside) for index in range(sweep.models))
        beside = replace(notes, attack_defaults=choice.defaults)
        yield Task("attack", cell, 0, sweep.models, choice.attack, choice.params, shadows, beside)


def _undefended(cell: Cell, method: str | None) -> tuple[Cell, Notes] | None:
    """The cell of the shadow models, with the same members; None for the cell itself.

    Shared by all cells of a workload, so that nothing is trained twice.
    """
    if method is None or method == cell.method.name:
        return None
    problems: list[str] = []
    canaries = {"canary": cell.canary, "canaries": cell.canaries} if cell.canary else {}
    point = {"workload": cell.workload.name, "method": method, "n_train": cell.n_train, **canaries}
    found = resolve_cell(point, f"shadows of {cell.label}", cell.seed, problems)
    if found is None:
        raise SpecError(problems)
    return found


def _standing(tasks: tuple[Task, ...], store: Store | None) -> tuple[frozenset[str], dict[str, Result]]:
    """The tasks that are done, and those that failed. An attack that failed as `upstream` is unfinished
    again as soon as none of its trainings is failed."""
    done: set[str] = set()
    failed: dict[str, Result] = {}
    if store is None or not store.exists():
        return frozenset(), {}
    present = store.keys()  # one scan of the folders; a lookup per task would take seconds
    for task in tasks:
        result = store.result(task.key) if task.key in present else None
        if result is None:
            continue
        if result.done:
            done.add(task.key)
        elif result.reason == "upstream":
            if any(training in failed for training in task.needs):
                failed[task.key] = result
        elif result.reason not in RERUN_REASONS:
            failed[task.key] = result
    return frozenset(done), failed
