"""Search spaces: which parameters of a method a tuning tries, in which ranges, and at which points.

All methods are tried at the same points of one unit cube. Its first axes have roles (the length of a step,
the sampling rate, epochs, the clip), so that a shared parameter takes the same values in every method; four
more are the method's own. Loads no torch.
"""

from __future__ import annotations

import hashlib
import math
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, Union, get_args, get_origin, runtime_checkable

from methods.base import Calibrated, Level, Method, Technical
from workloads.errors import SpecError, UnknownName

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from pydantic.fields import FieldInfo

AXES = 8
"""Dimension of the cube."""
OWN = range(4, AXES)
"""The axes of a method's own parameters."""
BITS = 30
"""Binary digits of a coordinate."""
DIGITS = 3
"""Significant digits of a parameter in a trial."""
FIXED = frozenset(
    (
        "optimizer",
        "weight_decay",
        "schedule",
        "clipping",
        "augmentations",
        "augmentation_shift",
        "augmentation_flip",
    )
)
"""Shared parameters that no method searches: a recipe or the default sets them."""
LEVELS = frozenset(("epsilon", "delta"))
"""Parameters that are levels in every method."""
ADAM = (1e-4, 3e-2)
"""Learning rates of Adam, whose step does not depend on the gradient's length."""
MANY, VERY_MANY = 5_000, 20_000
"""Members from which the sampling rates of private methods fall, and from which epochs are fewer."""

Unit = Literal["value", "rate", "epochs", "step", "per_member", "public"]
Values = Mapping[str, Any]
Range = Sequence[Any]
Solve = Callable[["Callable[[float], DpEvent]", float, float], float]
"""The noise at which an event costs (epsilon, delta)."""


@dataclass(frozen=True)
class Search:
    """Marks a parameter that is searched: `Annotated[Rate, Search(0.1, 16, unit="step", axis=0)]`.

    Args:
        low: The smallest value on the axis.
        high: The largest.
        scale: How values are spread between them.
        unit: What the axis measures. value: the parameter. rate: batch size / members. epochs: a number of
            steps in passes over the members. step: the longest move by the mean gradient of a batch,
            learning_rate * clip / (1 - momentum). per_member: members per unit of the parameter. public: the
            parameter, at most the number of public records.
        axis: 0 step, 1 rate, 2 epochs, 3 clip; None for the next free one of the method's own.
        choices: The values to choose from, instead of a range.
        name: The axis's name, if it is not that of the unit or of the parameter.
        batch: For epochs: the parameter that holds the examples per step.
        when: A parameter and the value of it with which this one has an effect; it is not set otherwise.
    """

    low: float = 0.0
    high: float = 1.0
    scale: Literal["log", "linear"] = "log"
    unit: Unit = "value"
    axis: int | None = None
    choices: tuple[Any, ...] = ()
    name: str | None = None
    batch: str = "batch_size"
    when: tuple[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.choices and not (self.low < self.high and (self.scale == "linear" or self.low > 0)):
            raise ValueError(f"give low < high, and low > 0 on a log scale; got {self.low} and {self.high}")

    def at(self, coordinate: float) -> Any:
        """The value at a coordinate from 0 to 1."""
        if self.choices:
            return self.choices[min(int(coordinate * len(self.choices)), len(self.choices) - 1)]
        if self.scale == "linear":
            return self.low + (self.high - self.low) * coordinate
        return float(self.low * (self.high / self.low) ** coordinate)

    def __str__(self) -> str:
        if self.choices:
            return f"one of {', '.join(f'{each:g}' for each in self.choices)}"
        return f"{self.low:g} to {self.high:g}, {self.scale}"


@dataclass(frozen=True)
class Fixed:
    """Marks a parameter that is not searched.

    `Annotated[Fraction, Fixed(0.0)]` has this value in every trial; `Annotated[Count, Fixed()]` is left to
    the recipe and the default.
    """

    value: Any = None


@runtime_checkable
class Derived(Protocol):
    """A method with parameters that follow from the searched ones. Optional."""

    def derive(self, values: dict[str, Any], n_train: int) -> dict[str, Any]:
        """Parameters to set or replace in a trial.

        `values` are those of the trial over recipe and defaults. An axis with a name of its own is in them
        under its parameter, as it was drawn.
        """
        ...


@runtime_checkable
class Spending(Protocol):
    """A method that spends a budget of epsilon as it goes, with noise that a trial must determine. Optional.

    The noise is solved for, so that all steps of the trial cost the budget.
    """

    spending: str
    """The parameter that holds the noise."""

    def spent(self, values: dict[str, Any], n_train: int) -> DpEvent:
        """The event of all steps with these values."""
        ...


@dataclass(frozen=True)
class Axis:
    """A searched parameter and its place in the cube."""

    field: str
    search: Search
    place: int
    whole: bool = False
    """Whether the parameter is an integer."""

    @property
    def name(self) -> str:
        """Its name in `[search]` of a recipe and `[tune.search.<method>]` of a sweep."""
        unit = self.search.unit
        return self.search.name or (unit if unit in ("rate", "epochs", "step") else self.field)

    def narrowed(self, given: Range) -> Axis:
        """The axis within a range, or with these choices only; SpecError if nothing is left."""
        search = self.search
        if search.choices:
            left = tuple(each for each in search.choices if each in given)
            if left:
                return replace(self, search=replace(search, choices=left))
            raise self._empty(given, search.choices)
        low, high = _bounds(self.name, given)
        if max(low, search.low) >= min(high, search.high):
            raise self._empty(given, (search.low, search.high))
        return replace(self, search=replace(search, low=max(low, search.low), high=min(high, search.high)))

    def replaced(self, given: Range) -> Axis:
        """The axis with another range, which may reach further; SpecError if the two do not meet."""
        inside = self.narrowed(given)
        if inside.search.choices:
            return inside
        low, high = _bounds(self.name, given)
        if low <= 0 and self.search.scale == "log":
            raise SpecError(
                f"{self.name} = [{low:g}, {high:g}] is searched on a log scale: give bounds above 0",
                field=self.name,
                value=(low, high),
                allowed="> 0",
            )
        return replace(self, search=replace(self.search, low=low, high=high))

    def _empty(self, given: Range, declared: tuple[Any, ...]) -> SpecError:
        return SpecError(
            f"{self.name} = {list(given)} leaves nothing of {list(declared)} to search",
            field=self.name,
            value=tuple(given),
            allowed=declared,
        )


@dataclass(frozen=True)
class Space:
    """The search space of a method."""

    method: Method
    axes: tuple[Axis, ...]

    @cached_property
    def names(self) -> dict[str, Axis]:
        """The axes by name."""
        return {axis.name: axis for axis in self.axes}

    @cached_property
    def pinned(self) -> dict[str, Any]:
        """Parameters with the same value in every trial."""
        marks = _marks(self.method, Fixed)
        return {name: mark.value for name, mark in marks.items() if mark.value is not None}

    @cached_property
    def undeclared(self) -> tuple[str, ...]:
        """Parameters that are neither searched, nor levels, nor fixed, nor solved for."""
        searched = {axis.field for axis in self.axes}
        free = {self.method.free} if isinstance(self.method, Calibrated) else set[str]()
        free |= {self.method.spending} if isinstance(self.method, Spending) else set()
        marked = {*_marks(self.method, Fixed), *_marks(self.method, Level), *_marks(self.method, Technical)}
        known = searched | free | marked | LEVELS | FIXED
        return tuple(name for name in self.method.Params.model_fields if name not in known)

    def at(self, n_train: int, public: int | None = None) -> Space:
        """The space for this many members and public records.

        With many members the rates of private methods are those of batches from 32 to 8,192, and with very
        many no method makes more than 64 epochs.
        """
        private = "epsilon" in self.method.Params.model_fields
        found = []
        for axis in self.axes:
            search = axis.search
            if search.unit == "rate" and private and n_train >= MANY:
                low, high = max(1 / 256, 32 / n_train), min(1.0, 8192 / n_train)
                found.append(replace(axis, search=replace(search, low=low, high=high)))
            elif search.unit == "epochs" and n_train >= VERY_MANY:
                found.append(axis.narrowed((0, 64)))
            elif search.unit == "public" and public is not None:
                found.append(axis.narrowed((0, public)))
            else:
                found.append(axis)
        return replace(self, axes=tuple(found))

    def narrow(self, given: Mapping[str, Range]) -> Space:
        """The part of the space within the ranges of a workload's recipe, by axis name."""
        return self._changed(given, Axis.narrowed)

    def choose(self, given: Mapping[str, Range]) -> Space:
        """The space with the ranges of a sweep, which may reach beyond the declared ones."""
        return self._changed(given, Axis.replaced)

    def _changed(self, given: Mapping[str, Range], change: Callable[[Axis, Range], Axis]) -> Space:
        for name in given:
            if name not in self.names:
                raise UnknownName("axis", name, self.names)
        axes = (change(axis, given[axis.name]) if axis.name in given else axis for axis in self.axes)
        return replace(self, axes=tuple(axes))

    def trial(
        self, point: Sequence[float], n_train: int, known: Values, solve: Solve, given: Values | None = None
    ) -> dict[str, Any]:
        """The parameters of a trial at a point of the cube.

        Args:
            point: Coordinates from 0 to 1.
            n_train: Members of a model.
            known: Values of levels and from the recipe; the method's defaults apply otherwise.
            solve: Solves for the noise of a method that spends a budget.
            given: Values set by the user, which are not searched.

        Returns:
            The searched, fixed and derived parameters, without the given ones.
        """
        given = dict(given or {})
        values = defaults(self.method) | dict(known) | self.pinned | given
        own = set(self.pinned)
        for axis in sorted(self.axes, key=_order):
            active = axis.search.when is None or values.get(axis.search.when[0]) == axis.search.when[1]
            if axis.field in given or not active:
                continue
            values[axis.field] = _value(axis, point[axis.place], values, n_train)
            own.add(axis.field)
        own |= self._derive(values, n_train, solve, given)
        return {name: _rounded(values[name]) for name in sorted(own - given.keys())}

    def _derive(self, values: dict[str, Any], n_train: int, solve: Solve, given: Values) -> set[str]:
        """Add derived values; their names."""
        method, drawn = self.method, dict(values)
        changes: dict[str, Any] = {}
        if isinstance(method, Spending) and method.spending not in given:
            name = method.spending

            def event(noise: float) -> DpEvent:
                return method.spent(drawn | {name: noise}, n_train)

            # Rounded up: all steps must fit the budget.
            drawn[name] = changes[name] = round_up(solve(event, values["epsilon"], values["delta"]))
        if isinstance(method, Derived):
            changes |= method.derive(drawn, n_train)
        values |= {name: value for name, value in changes.items() if name not in given}
        return set(changes)


def space(method: Method) -> Space:
    """The search space that a method declares on its parameters."""
    marks = _marks(method, Search)
    taken = {search.axis for search in marks.values()}
    free = (place for place in OWN if place not in taken)
    axes: list[Axis] = []
    for field, search in marks.items():
        place = search.axis if search.axis is not None else next(free, None)
        if place is None or not 0 <= place < AXES or place in {axis.place for axis in axes}:
            raise SpecError(
                f"{field} has no axis: besides step, rate, epochs and clip a method has {len(OWN)}",
                field=field,
                value=search.axis,
                allowed=(0, AXES - 1),
            )
        axes.append(Axis(field, search, place, _is_whole(method.Params.model_fields[field])))
    return Space(method, tuple(axes))


def describe_search(name: str, info: FieldInfo) -> str | None:
    """What a tuning does with a parameter, in words; None if nothing is declared on it."""
    for mark in reversed(info.metadata):
        if isinstance(mark, Search):
            return str(mark) if mark.unit == "value" and not mark.name else f"{mark.name or mark.unit} {mark}"
        if isinstance(mark, Level):
            return "level"
        if isinstance(mark, Fixed):
            return "fixed" if mark.value is None else f"fixed at {mark.value:g}"
    return "level" if name in LEVELS else None


def points(trials: int, seed: int, study: int) -> list[tuple[float, ...]]:
    """The first points of a study: Sobol's sequence (Joe and Kuo 2008) under a digital shift.

    The shift keeps the balance: of 2^k points each 2^-k of every axis has one. It comes from a hash, not
    from a generator, and the first points are the same whatever number is asked for.
    """
    from scipy.stats import qmc  # slow to load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a number that is no power of two is allowed
        drawn = qmc.Sobol(d=AXES, scramble=False, bits=BITS).random(trials)
    shifts = [_shift(seed, study, axis) for axis in range(AXES)]
    rows = (drawn * 2**BITS).round().astype(int).tolist()
    return [tuple(((k ^ s) + 0.5) / 2**BITS for k, s in zip(row, shifts, strict=True)) for row in rows]


def round_up(value: float) -> float:
    """The least number of three significant digits that is not below a value: for noise."""
    rounded = float(f"{value:.{DIGITS}g}")
    if rounded >= value:
        return rounded
    return float(f"{rounded + 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1):.{DIGITS}g}")


def _shift(seed: int, study: int, axis: int) -> int:
    digest = hashlib.sha256(f"tune/{seed}/{study}/{axis}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> (32 - BITS)


def _order(axis: Axis) -> int:
    """The order of translation: plain values and rates, then epochs, which need the batch, then steps."""
    return {"epochs": 1, "step": 2}.get(axis.search.unit, 0)


def _value(axis: Axis, coordinate: float, values: Values, n_train: int) -> Any:
    """The parameter at a coordinate."""
    search = axis.search
    if search.unit == "step" and values.get("optimizer") == "adam":
        return replace(search, low=ADAM[0], high=ADAM[1]).at(coordinate)
    drawn = search.at(coordinate)
    if search.unit == "rate":
        return min(max(round(drawn * n_train), 1), n_train)
    if search.unit == "epochs":
        return max(1, round(drawn * n_train / values[search.batch]))
    if search.unit == "step":
        return drawn * (1 - values.get("momentum", 0.0)) / values.get("clip", 1.0)
    if search.unit == "per_member":
        return min(max(round(n_train / drawn), 1), n_train)
    if not axis.whole or search.name:
        return drawn
    value = max(1, round(drawn))
    return min(value, n_train) if axis.field == "batch_size" else value


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) and math.isfinite(value) else value


def _bounds(name: str, given: Range) -> tuple[float, float]:
    numbers = [each for each in given if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(given) != 2 or len(numbers) != 2 or not numbers[0] < numbers[1] < math.inf:
        raise SpecError(
            f"{name} = {list(given)}: give two numbers, the smaller first",
            field=name,
            value=tuple(given),
            allowed="[low, high]",
        )
    return float(numbers[0]), float(numbers[1])


def _marks(method: Method, kind: type[Any]) -> dict[str, Any]:
    """Parameters marked by objects of a kind; of several search marks on one parameter the last holds."""
    found = {}
    for name, info in method.Params.model_fields.items():
        marks = [mark for mark in info.metadata if isinstance(mark, kind)]
        if marks:
            found[name] = marks[-1]
    return found


def defaults(method: Method) -> dict[str, Any]:
    """The default of every parameter that has one."""
    fields = method.Params.model_fields.items()
    return {n: info.get_default(call_default_factory=True) for n, info in fields if not info.is_required()}


def _is_whole(info: FieldInfo) -> bool:
    kind = info.annotation
    if get_origin(kind) in (Union, types.UnionType):
        return int in get_args(kind) or any(int in get_args(each) for each in get_args(kind))
    return kind is int
