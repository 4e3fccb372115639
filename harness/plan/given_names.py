"""Names that a user gives: workloads, methods, attacks and parameters, looked up in the manifest.

A misspelt name is refused before anything is loaded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.members.facts import Declaring, Kind
from harness.members.manifest import find_facts, refusal, workload_facts
from harness.plan.sweep_file import Choice, Grid, Sweep
from workloads.errors import unknown
from workloads.recipe import recipe_in

OF_THE_CELL = ("n_train", "epochs", "setting", "canary", "canaries")
"""Keys of a grid that are not parameters: members per model, length in epochs, number of a recipe's setting,
canaries."""
MEMBERS: tuple[Kind, ...] = ("workload", "method")
"""Keys of a grid or a bench that name members."""


def find_unknown(sweep: Sweep) -> list[str]:
    """A problem for every name in a sweep that no member, or no parameter of the member, has."""
    problems = [problem for choice in sweep.attacks for problem in _of_attack(choice)]
    for grid in sweep.grids:
        problems += _of_grid(grid)
    for entry in sweep.benches:
        problems += _strangers(entry.where, {kind: entry.lists[kind] for kind in MEMBERS})
    return list(dict.fromkeys(problems))


def _of_attack(choice: Choice) -> Iterator[str]:
    where, facts = f"attack {choice.name}", find_facts("attack", choice.name)
    if not isinstance(facts, Declaring):
        yield str(refusal("attack", choice.name))
        return
    yield from _not_among(where, choice.params, facts)
    if choice.shadows is not None and find_facts("method", choice.shadows) is None:
        yield f"{where}: shadows: {refusal('method', choice.shadows)}"


def _of_grid(grid: Grid) -> Iterator[str]:
    points = {tuple(str(point[kind]) for kind in MEMBERS): point for point in grid.points()}
    given: dict[Kind, list[Any]] = {kind: [point[kind] for point in points.values()] for kind in MEMBERS}
    yield from _strangers(grid.where, given)
    for (workload, method), point in points.items():
        facts = find_facts("method", point["method"])
        if isinstance(facts, Declaring) and find_facts("workload", point["workload"]) is not None:
            asked = [key for key in point if key not in (*MEMBERS, *OF_THE_CELL)]
            yield from _not_among(f"{grid.where} ({workload}, {method})", asked, facts)


def _strangers(where: str, given: Mapping[Kind, Iterable[Any]]) -> Iterator[str]:
    for kind, values in given.items():
        for value in values:
            if find_facts(kind, value) is None:
                yield f"{where}: {refusal(kind, value)}"


def _not_among(where: str, asked: Iterable[str], facts: Declaring) -> Iterator[str]:
    known = facts.names
    yield from (f"{where}: {unknown('parameter', name, known)}" for name in asked if name not in known)


def by_method(content: Mapping[str, Any]) -> dict[str, Any]:
    """Split the grid of a sweep given by options into one per method with only the method's parameters.

    So that --epsilon can compare a private method with one without. A parameter that no method has stays and
    is rejected later.
    """
    grids = []
    for grid in content["grid"]:
        has = {name: _accepts(name, grid["workload"]) for name in grid["method"]}
        anywhere = set().union(*has.values())
        for name in grid["method"]:
            lacks = anywhere - has[name]
            grids.append({key: value for key, value in grid.items() if key not in lacks} | {"method": [name]})
    return {**content, "grid": grids}


def _accepts(method: str, given: Sequence[str]) -> set[str]:
    """The options that apply to a method on these workloads."""
    facts = find_facts("method", method)
    if not isinstance(facts, Declaring):
        return set()
    known = [name for name in given if find_facts("workload", name) is not None]
    books = [recipe_in(workload_facts(name).recipe_folder, name) for name in known]
    numbered = {"setting"} if any(book.numbers(method) for book in books) else set()
    return {*facts.names, *numbered}
