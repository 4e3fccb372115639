"""What a tune searches: one search for each method, at each combination of levels, on each workload."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import methods
import workloads
from harness.plan.cells import level_names, recipe_values
from harness.plan.given_names import OF_THE_CELL
from harness.plan.inspection.inspection import find_delay
from harness.plan.inspection.readiness import inspection_of
from harness.plan.public_records import find_lack
from harness.plan.sweep_file import Grid, Sweep
from harness.plan.tune_table import TuneTable
from harness.spec import canonical
from methods.base import Assisted, Method
from methods.search import LEVELS, Axis, Range, Space, defaults, space
from workloads.base import Public, Workload
from workloads.errors import BenchError, SpecError
from workloads.recipe import recipe

LEAST_JUDGES, JUDGES_PER_CLASS = 200, 5
"""Non-members that judge a model: at least so many, and so many per class."""
SHARE_OF_JUDGES = 6
"""Where the pool is too small for them, this part of it judges."""


@dataclass(frozen=True)
class Search:
    """The search of one method at one combination of levels."""

    workload: str
    method: str
    levels: Mapping[str, Any]
    """Epsilon and what else trades privacy for accuracy: never searched."""
    given: Mapping[str, Any]
    """Parameters that the user set: the same in all trials."""
    known: Mapping[str, Any]
    """Values by the workload's recipe, and the levels."""
    n_train: int
    tuned_at: int
    """Members of a model in the search; fewer than `n_train` where too few would be left to judge."""
    validation_records: int
    axes: tuple[Axis, ...]

    @property
    def where(self) -> str:
        """Its name in messages."""
        return f"tune ({self.workload}, {self.method})"

    @property
    def identity(self) -> tuple[str, str, str]:
        """By which searches are sorted and told apart."""
        return self.workload, self.method, canonical(self.levels)

    @cached_property
    def space(self) -> Space:
        """The space that is searched."""
        return Space(methods.family.get(self.method), self.axes)

    def point(self, **params: Any) -> dict[str, Any]:
        """The point of a grid with these parameters."""
        head = {"workload": self.workload, "method": self.method, "n_train": self.tuned_at}
        return {**head, **self.levels, **self.given, **params}


@dataclass
class Searches:
    """The searches of a tune, sorted, and methods that are not tunable."""

    found: list[Search] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Methods that declare nothing to search."""


def find_searches(sweep: Sweep, table: TuneTable) -> Searches:
    """The searches of a sweep's grids; SpecError with all problems."""
    found, problems = Searches(), list[str]()
    by_identity: dict[tuple[str, str, str], Search] = {}
    sizes: dict[str, int] = {}
    tunable = {name for name in _named_methods(sweep) if space(methods.family.get(name)).axes}
    found.left_out = sorted(_named_methods(sweep) - tunable)
    if not tunable:
        raise SpecError(
            f"nothing to tune: {', '.join(found.left_out)} declares no parameter to search",
            field="method",
            value=tuple(found.left_out),
        )
    problems += [
        f"[tune.search.{name}]: the sweep does not tune {name}"
        for name in table.search
        if name not in tunable
    ]
    for grid, point in _points(sweep.grids):
        if point["method"] not in tunable:
            continue
        where = f"{grid.where} ({point['workload']}, {point['method']})"
        try:
            search = _search(point, table)
        except BenchError as error:
            told = error.problems if isinstance(error, SpecError) else [str(error)]
            problems += [f"{where}: {each}" for each in told]
            continue
        same = by_identity.setdefault(search.identity, search)
        problems += [f"{where}: {each}" for each in _differences(same, search)]
        if sizes.setdefault(search.workload, search.n_train) != search.n_train:
            problems.append(
                f"{search.workload}: n_train has several values, and a recipe is for one: give one"
            )
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    found.found = [by_identity[identity] for identity in sorted(by_identity)]
    return found


def _named_methods(sweep: Sweep) -> set[str]:
    return {str(point["method"]) for _, point in _points(sweep.grids)}


def _points(grids: Sequence[Grid]) -> Iterator[tuple[Grid, dict[str, Any]]]:
    """The points of all grids; canaries are not people, and never part of a tune."""
    for grid in grids:
        for point in grid.points():
            yield grid, {key: value for key, value in point.items() if key not in ("canary", "canaries")}


def _search(point: Mapping[str, Any], table: TuneTable) -> Search:
    workload, name = workloads.family.get(point["workload"]), str(point["method"])
    method = methods.family.get(name)
    if (lack := find_lack(workload, method)) is not None:
        raise SpecError(lack)
    if "setting" in point:
        raise SpecError("a numbered setting of a paper is not tuned: leave `setting` out", field="setting")
    if "epochs" in point:
        raise SpecError(
            "the number of epochs is searched: leave `epochs` out, or give its range as "
            "[tune.search.<method>] epochs = [low, high]",
            field="epochs",
            value=point["epochs"],
        )
    book = recipe(workload)
    _, values = recipe_values(book, name, method, point)
    levels = _levels(method, point, values)
    given = {
        key: value
        for key, value in point.items()
        if key not in ("workload", "method", *OF_THE_CELL) and key not in levels
    }
    if lists := [key for key, value in given.items() if isinstance(value, list | dict)]:
        raise SpecError(f"{', '.join(lists)}: give a number or a text, which all trials then have")
    n_train = _count(point.get("n_train", workload.n_train))
    tuned_at, judges = find_sizes(workload, n_train)
    whole = space(method).at(tuned_at, _public(workload, method))
    narrowed = whole.narrow(book.ranges(name, whole.names))
    chosen = narrowed.choose(_ranges(table, name, method))
    return Search(
        workload=workload.name,
        method=name,
        levels=levels,
        given=given,
        known=values | levels,
        n_train=n_train,
        tuned_at=tuned_at,
        validation_records=judges,
        axes=tuple(axis for axis in chosen.axes if axis.field not in given),
    )


def _levels(method: Method, point: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Epsilon, delta if it is given, and the fields that are levels; SpecError if one is missing."""
    has = method.Params.model_fields
    known = defaults(method) | dict(values) | dict(point)
    names = ["epsilon"] * ("epsilon" in has) + ["delta"] * ("delta" in point and "delta" in has)
    names += [name for name in level_names(method) if name not in names]
    missing = [name for name in names if known.get(name) is None]
    if missing:
        raise SpecError(
            f"{', '.join(missing)} is a level, which accuracy alone would always choose without privacy: "
            "give one or more",
            field=missing[0],
        )
    return {name: known[name] for name in names}


def _ranges(table: TuneTable, name: str, method: Method) -> Mapping[str, Range]:
    """The ranges of the table for a method; SpecError for one of a level."""
    ranges = table.search.get(name, {})
    levels = {*LEVELS, *level_names(method)} & method.Params.model_fields.keys()
    for each in ranges:
        if each in levels:
            raise SpecError(
                f"[tune.search.{name}] {each}: a level is never searched, since accuracy alone would always "
                f"choose the least privacy: give it in a grid, where every value gets a search of its own",
                field=each,
                value=ranges[each],
                allowed=tuple(axis.name for axis in space(method).axes),
            )
    return ranges


def _count(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise SpecError(f"n_train = {given!r}: give a whole number of members, 1 or more", field="n_train")
    return given


def _public(workload: Workload, method: Method) -> int | None:
    if isinstance(method, Assisted) and isinstance(workload, Public):
        return len(workload.public())
    return None


def find_sizes(workload: Workload, n_train: int) -> tuple[int, int]:
    """Members of a model in a search, and non-members that judge it; SpecError if the pool is too small."""
    if delay := find_delay(workload):
        raise SpecError(f"workload {workload.name}: {delay}", field="workload", value=workload.name)
    found = inspection_of(workload)
    if found.facts is None:
        raise SpecError([f"workload {workload.name}: {each.message}" for each in found.problems])
    pool, needed = found.facts.pool, max(LEAST_JUDGES, JUDGES_PER_CLASS * workload.classes)
    if n_train > pool:
        raise SpecError(
            f"n_train = {n_train:,} exceeds the pool of {pool:,} records",
            field="n_train",
            value=n_train,
            allowed=(1, pool),
        )
    if pool - n_train >= needed:
        return n_train, pool - n_train
    fewer = pool - max(needed, pool // SHARE_OF_JUDGES)
    if fewer < n_train / 2:
        raise SpecError(
            f"{pool - n_train:,} non-members are too few to judge models of {n_train:,} members: {needed:,} "
            "are needed; give a workload with a larger pool, or a smaller n_train",
            field="n_train",
            value=n_train,
            allowed=(1, max(1, pool - needed)),
        )
    return fewer, pool - fewer


def _differences(first: Search, other: Search) -> list[str]:
    """Why two searches at the same levels cannot be one."""
    return [
        f"{name} has several values: give one, which all trials have, or none, and it is searched if the "
        "method says so"
        for name in sorted({*first.given, *other.given})
        if first.given.get(name) != other.given.get(name)
    ]
