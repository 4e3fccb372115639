"""A sweep whose search is part of the training, and so of the epsilon that is asked for."""

from collections.abc import Sequence
from typing import Any

import methods
from harness.plan.solving import solve_noise
from harness.tuning.searches import Search
from harness.tuning.toml_text import inline, pairs
from methods.base import Calibrated, Selecting
from methods.search import LEVELS, points
from workloads.errors import BenchError


def find_selecting() -> tuple[str, Selecting]:
    """The method of this package that searches by itself."""
    found = [(name, methods.family.get(name)) for name in sorted(methods.family.own)]
    selecting = [(name, each) for name, each in found if isinstance(each, Selecting)]
    if len(selecting) != 1:
        raise BenchError(f"{len(selecting)} methods search by themselves: exactly one must")
    return selecting[0]


def priced_sweep(name: str, seed: int, searches: Sequence[Search], trials: int, first_seed: int) -> str:
    """The sweep file of a priced search over the first study's points for each of these searches."""
    lines = [
        "# Made by `privbench tune --budget-epsilon`: epsilon is that of the whole search.",
        "",
        *pairs({"name": name, "seed": seed}),
    ]
    drawn = points(trials, first_seed, 0)
    for search in searches:
        lines += ["", "[[grid]]", *_grid(search, drawn)]
    return "\n".join(lines) + "\n"


def _grid(search: Search, drawn: Sequence[Sequence[float]]) -> list[str]:
    member, selecting = find_selecting()
    proposal = selecting.over(search.method, search.n_train)
    candidates = [_candidate(search, point, proposal.members) for point in drawn]
    head = {"workload": search.workload, "n_train": search.n_train, "method": member}
    lines = pairs({**head, **search.levels, **proposal.params})
    # A list of one list: the values of a grid's key are its alternatives.
    return [*lines, f"{proposal.holds} = [[", *(f"    {inline(each)}," for each in candidates), "]]"]


def _candidate(search: Search, point: Sequence[float], members: int) -> dict[str, Any]:
    """The parameters of a candidate: the recipe's, those given, and those drawn."""
    method = methods.family.get(search.method)
    drawn = search.space.trial(point, members, search.known, solve_noise, search.given)
    decided = {*LEVELS, method.free} if isinstance(method, Calibrated) else set(LEVELS)
    values = {**search.known, **search.given, **drawn}
    return {name: value for name, value in sorted(values.items()) if name not in decided}
