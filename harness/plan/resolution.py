"""Resolutions of sweeps, kept in the user's cache: planning a sweep again loads no member and solves nothing.

A resolution depends on the sweep with its tuned recipe, on our code and recipes, on the packages that
compute, and on the plug-ins that the sweep names with the files they read. If any of these changed, the sweep
is resolved again. What the store holds is never part of it.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.members.facts import Kind, WorkloadFacts
from harness.members.manifest import PACKAGES, find_facts, is_loaded, is_plugin
from harness.members.own_sources import RESOLVING, own_state
from harness.plan.changes.kept import code_of
from harness.plan.changes.reads import stamp, watching
from harness.plan.sweep_file import Sweep
from harness.spec import PROTOCOL, Cell, Json, Notes, Plugin, Task, Timing, read_notes
from workloads.disk_cache import default_folder, read_cached, write_cached

FOLDER = "plans"
"""The name of the cache."""
FORMAT = 1
COMPUTING = ("dp-accounting", "numpy", "pydantic", "scipy", "torch")
"""Packages that decide parameters: they validate them, and solve for noise."""


@dataclass(frozen=True)
class Resolution:
    """The cells and tasks of a sweep, in dependency order."""

    cells: tuple[Cell, ...]
    tasks: tuple[Task, ...]


def resolution_of(sweep: Sweep, resolve: Callable[[], Resolution]) -> Resolution:
    """The kept resolution of a sweep, or that of `resolve`, which is kept."""
    question, tops = _question(sweep)
    if question is None:
        return resolve()
    known: Json | None = read_cached(default_folder(FOLDER), question)
    if known is not None and _stands(known):
        return _read(known)
    with ExitStack() as stack:
        seen = [stack.enter_context(watching(top)) for top in sorted(tops)]
        made = resolve()
    if all(each.complete for each in seen):
        files = {file: state for each in seen for file, state in each.present().items()}
        folder = str(Path.cwd()) if any(each.relative for each in seen) else None
        write_cached(default_folder(FOLDER), question, {**_file(made), "files": files, "folder": folder})
    return made


def _stands(known: Json) -> bool:
    """Whether the files that a resolution was made from are the same."""
    here = known["folder"] in (None, str(Path.cwd()))
    return here and all(stamp(file) == tuple(each) for file, each in known["files"].items())


def _question(sweep: Sweep) -> tuple[Json | None, set[str]]:
    """Everything that a resolution depends on, and the packages whose files it may depend on.

    None if it cannot be told: nothing is kept then.
    """
    if any(is_loaded(kind) for kind in PACKAGES):  # a program may have changed its members
        return None, set()
    plugins = [(kind, name) for kind, name in sorted({*_named(sweep)}) if is_plugin(kind, name)]
    codes = [(kind, name, code_of(name, kind)) for kind, name in plugins]
    try:
        # In the order of the file, which is that of the tasks; 1 and 1.0 are different here.
        asked = json.dumps(asdict(sweep))
    except TypeError:  # a date, say: refused later
        return None, set()
    if any(code is None or not code.observable for _, _, code in codes):
        return None, set()
    question = {
        "format": FORMAT,
        "sweep": hashlib.sha256(asked.encode()).hexdigest(),
        "protocol": PROTOCOL,
        "ours": own_state(*RESOLVING),
        "packages": {name: _version(name) for name in COMPUTING},
        "plugins": [[kind, name, code.digest, code.environment] for kind, name, code in codes if code],
        "recipes": [_recipe(name) for kind, name in plugins if kind == "workload"],
    }
    return question, {code.top for _, _, code in codes if code}


def _named(sweep: Sweep) -> Iterator[tuple[Kind, str]]:
    """The members that a sweep names."""
    for lists in (
        *({**grid.lists, **grid.zipped} for grid in sweep.grids),
        *(entry.lists for entry in sweep.benches),
    ):
        yield from (("workload", str(name)) for name in lists["workload"])
        yield from (("method", str(name)) for name in lists["method"])
    for choice in sweep.attacks:
        yield "attack", choice.name
        if choice.shadows is not None:
            yield "method", choice.shadows


def _recipe(workload: str) -> str | None:
    """The digest of a plug-in's recipe; ours are part of our own state."""
    facts = find_facts("workload", workload)
    if not isinstance(facts, WorkloadFacts):
        return None
    file = facts.recipe_folder / f"{workload}.toml"
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# -- as JSON ---------------------------------------------------------------------------------------


class _Numbered:
    """Numbers of different objects, in the order in which they were first met."""

    def __init__(self) -> None:
        self.content: list[Json] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, content: Json) -> int:
        text = json.dumps(content)
        if text not in self._numbers:
            self._numbers[text] = len(self.content)
            self.content.append(content)
        return self._numbers[text]


def _file(made: Resolution) -> Json:
    """Cells and notes once, and tasks that refer to them: a cell has tens of tasks."""
    cells, notes = _Numbered(), _Numbered()
    tasks = [_task_file(task, cells, notes) for task in made.tasks]
    own = [cells(_cell_file(cell)) for cell in made.cells]
    return {"cells": cells.content, "notes": notes.content, "own": own, "tasks": tasks}


def _cell_file(cell: Cell) -> Json:
    return {**asdict(cell), "params": dict(cell.params)}


def _task_file(task: Task, cells: _Numbered, notes: _Numbered) -> Json:
    if task.timing is not None:
        variants = {name: cells(_cell_file(cell)) for name, cell in task.timing.variants.items()}
        timing: Json = {"batch_size": task.timing.batch_size, "stamp": task.timing.stamp}
        timing |= {"variants": variants, "settings": dict(task.timing.settings)}
        return {"kind": task.kind, "cell": cells(_cell_file(task.cell)), "timing": timing}
    return {
        "kind": task.kind,
        "cell": cells(_cell_file(task.cell)),
        "index": task.index,
        "models": task.models,
        "attack": task.attack.spec() if task.attack else None,
        "attack_params": dict(task.attack_params),
        "shadows": cells(_cell_file(task.shadows)) if task.shadows else None,
        "notes": notes(asdict(task.notes)),
    }


def _read(file: Json) -> Resolution:
    cells, notes = [_read_cell(each) for each in file["cells"]], [read_notes(each) for each in file["notes"]]
    tasks = tuple(_read_task(each, cells, notes) for each in file["tasks"])
    return Resolution(tuple(cells[number] for number in file["own"]), tasks)


def _read_cell(given: Json) -> Cell:
    return Cell(**{**given, "workload": Plugin(**given["workload"]), "method": Plugin(**given["method"])})


def _read_task(given: Json, cells: list[Cell], notes: list[Notes]) -> Task:
    cell = cells[given["cell"]]
    if "timing" in given:
        timing = given["timing"]
        variants = {name: cells[number] for name, number in timing["variants"].items()}
        return Task(given["kind"], cell, timing=Timing(**{**timing, "variants": variants}))
    return Task(
        given["kind"],
        cell,
        given["index"],
        given["models"],
        Plugin(**given["attack"]) if given["attack"] else None,
        given["attack_params"],
        None if given["shadows"] is None else cells[given["shadows"]],
        notes[given["notes"]],
    )
