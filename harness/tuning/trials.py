"""From points to cells: the parameters of every trial, resolved as a grid's are.

Noise that was not solved for before is solved in parallel processes, and kept.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.accounting import calibrate
from harness.accounting.solver import Unsolved, calibrated
from harness.plan.cells import resolve_cell
from harness.plan.solving import Solver, solve_noise
from harness.spec import Cell, Notes, Task
from harness.tuning.searches import Search
from methods.search import points
from workloads.errors import BenchError, SpecError
from workloads.threads import bound_threads

FEW = 8
"""Unsolved problems that are solved here: to start processes would take longer."""

Tell = Callable[[int, int], None]
"""Told how many problems are solved, of how many."""
Points = Sequence[Sequence[Sequence[float]]]
"""Study, trial, axis."""


@dataclass(frozen=True)
class Place:
    """A trial before it is resolved."""

    search: Search
    seed: int
    """Of its study."""
    study: int
    number: int
    point: tuple[float, ...]


@dataclass(frozen=True)
class Trial:
    """One configuration of a study."""

    place: Place
    params: dict[str, Any]
    """What was searched, fixed or derived."""
    cell: Cell | None
    notes: Notes
    error: str | None = None
    """Why it has no cell."""

    def tasks(self, models: range) -> Iterator[Task]:
        """Its trainings: without the blind check, which says nothing about a configuration."""
        if self.cell is not None:
            yield from (Task("train", self.cell, index=index, notes=self.notes) for index in models)


def draw_points(trials: int, studies: int, seed: int) -> list[list[tuple[float, ...]]]:
    """The points of every study, which all methods share."""
    return [points(trials, seed, study) for study in range(studies)]


def resolve_trials(
    searches: Sequence[Search], drawn: Points, seed: int, tell: Tell = lambda done, total: None
) -> list[Trial]:
    """Every trial of every search, in the order of searches, studies and numbers.

    One whose noise cannot be solved for is a trial without a cell.
    """
    places = [
        Place(search, seed + study, study, number, tuple(point))
        for search in searches
        for study, rows in enumerate(drawn)
        for number, point in enumerate(rows)
    ]
    found: dict[int, Trial] = {}
    unsolved: dict[str, list[int]] = {}
    for index, place in enumerate(places):
        try:
            found[index] = resolve(place, calibrated)
        except Unsolved as missing:
            unsolved.setdefault(missing.question, []).append(index)
    _solve([places[indices[0]] for indices in unsolved.values()], tell)
    return [found[index] if index in found else resolve(place) for index, place in enumerate(places)]


def resolve(place: Place, solver: Solver = calibrate) -> Trial:
    """The parameters and the cell of a trial."""
    search, problems = place.search, list[str]()
    params: dict[str, Any] = {}
    try:
        noise = partial(solve_noise, solver=solver)
        params = search.space.trial(place.point, search.tuned_at, search.known, noise, search.given)
        point = search.point(**params)
        found = resolve_cell(point, search.where, place.seed, problems, solver=solver)
    except BenchError as error:
        found, problems = None, [str(error)]
    if found is None:
        return Trial(place, params, None, Notes(), "; ".join(problems))
    return Trial(place, params, *found)


def resolve_recipe(search: Search, seed: int) -> Trial | None:
    """The cell of the workload's own recipe; None if it is not complete for the method."""
    problems: list[str] = []
    found = resolve_cell(search.point(), search.where, seed, problems)
    place = Place(search, seed, 0, 0, ())
    return None if found is None else Trial(place, {}, *found)


def _solve(places: Sequence[Place], tell: Tell) -> None:
    """Solve for noise, which is kept; several at a time if there are many."""
    workers = min(len(places), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    if len(places) <= FEW or workers < 2:
        for done, place in enumerate(places, 1):
            resolve(place)
            tell(done, len(places))
        return
    bound_threads()  # the processes inherit it
    # A forked copy of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        waiting = [pool.submit(_solve_aside, place) for place in places]
        for done, _ in enumerate(as_completed(waiting), 1):
            tell(done, len(places))


def _solve_aside(place: Place) -> None:
    """Solve in a process of its own, for the cache; what fails here is told by the one that asks."""
    resolve(place)


def refuse_all_failed(trials: Sequence[Trial]) -> None:
    """SpecError if a search has no trial that can be trained."""
    reasons: dict[str, str] = {}
    able = {each.place.search.identity for each in trials if each.cell is not None}
    for each in trials:
        if each.place.search.identity not in able:
            reasons.setdefault(each.place.search.where, str(each.error))
    if reasons:
        raise SpecError([why if where in why else f"{where}: {why}" for where, why in reasons.items()])
