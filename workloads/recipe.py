"""Recipes: a workload's training settings, by default and per method, each value with its source.

[default]
batch_size = { value = 64, source = "ours", note = "about a tenth of the members" }
[method.dp-sgd]
learning_rate = { value = 2.0, source = "tuned", tried = 12 }
clip = { from_epsilon = { "1" = 0.1, "4" = 0.5 }, source = "ours" }
[setting.dp-sgd.1]
batch_size = { value = 256, source = "paper" }
[refused.dp-sgd]
2 = "the paper does not print its batch size"
[search]
epochs = [40, 100]
[search.dp-gan]
generator_every = [1, 2]

A value `from_epsilon` holds from that target epsilon up, with `exact = true` at that epsilon only. A numbered
setting is laid over the method's own settings if a sweep asks for it by `setting = 1`; a refused one states
why it is not available. `[search]` narrows the axes of every method's search space that has them,
`[search.<method>]` those of one method.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from workloads.errors import SpecError, UnknownName, unknown
from workloads.toml import parse_toml

if TYPE_CHECKING:  # reading a recipe must not load torch
    from workloads.base import Workload

Value = StrictBool | StrictInt | StrictFloat | StrictStr
Axes = dict[str, list[Value]]
"""The range, or the choices, of an axis of a search space by its name."""


class AtLevels(BaseModel):
    """A value that holds at one combination of levels only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    levels: dict[str, Value]
    value: Value


class Setting(BaseModel):
    """One value and its source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: Value | None = None
    from_epsilon: dict[str, Value] | None = None
    """Target epsilon, as text, to the value from there up."""
    at_levels: list[AtLevels] | None = Field(default=None, min_length=1)
    """Values at levels other than epsilon alone, in recipes that a tune wrote."""
    exact: bool = False
    """Whether `from_epsilon` holds at its steps only: a tuned value says nothing about other levels."""
    source: Literal["paper", "ours", "tuned"]
    note: str | None = None
    tried: int | None = Field(default=None, ge=1)
    """Configurations tried in the search that found this value."""
    tuned_on: Literal["test"] | None = None
    """Set if a paper chose the value by its test accuracy; our own searches evaluate on non-members."""

    def at(self, epsilon: float | None, levels: Mapping[str, Any] | None = None) -> Value:
        """The value at a target epsilon: that of the largest step at or below it, else of the smallest step.

        Without an epsilon the smallest step, the one with the most noise, is taken. A value that is exact, or
        holds at certain `levels`, is a SpecError elsewhere.
        """
        if self.at_levels is not None:
            return self._at_levels(levels or {})
        if self.exact and self.from_epsilon is not None:
            exactly = {float(step): value for step, value in self.from_epsilon.items()}
            if epsilon not in exactly:
                raise _untuned(
                    "epsilon", "none" if epsilon is None else f"{epsilon:g}", [f"{e:g}" for e in exactly]
                )
            return exactly[epsilon]
        if self.from_epsilon is None:
            if self.value is None:
                raise ValueError("a setting without a value passed validation")
            return self.value
        steps = sorted(self.from_epsilon, key=float)
        reached = [step for step in steps if epsilon is not None and float(step) <= epsilon]
        return self.from_epsilon[reached[-1] if reached else steps[0]]

    def _at_levels(self, levels: Mapping[str, Any]) -> Value:
        for each in self.at_levels or ():
            if all(levels.get(name) == value for name, value in each.levels.items()):
                return each.value
        known = [_spell_levels(each.levels) for each in self.at_levels or ()]
        mine = {name: levels.get(name) for each in self.at_levels or () for name in each.levels}
        raise _untuned("levels", _spell_levels(mine), known)

    @property
    def shown(self) -> Value:
        """The value for display: all of its steps if it depends on epsilon."""
        if self.at_levels is not None:
            return ", ".join(f"{each.value} at {_spell_levels(each.levels)}" for each in self.at_levels)
        if self.from_epsilon is None:
            return self.at(None)
        return ", ".join(f"{value} from epsilon {step}" for step, value in self.from_epsilon.items())

    @field_validator("from_epsilon")
    @classmethod
    def _steps_are_numbers(cls, steps: dict[str, Value] | None) -> dict[str, Value] | None:
        strange = [step for step in steps or {} if not _is_positive(step)]
        if strange or steps == {}:
            raise ValueError('give at least one step by its epsilon, as { "1" = 0.1, "4" = 0.5 }')
        return steps

    @model_validator(mode="after")
    def _one_value(self) -> Setting:
        given = [each for each in (self.value, self.from_epsilon, self.at_levels) if each is not None]
        if len(given) != 1:
            raise ValueError("give one of `value`, `from_epsilon` and `at_levels`")
        return self

    @model_validator(mode="after")
    def _count_tuning(self) -> Setting:
        if (self.source == "tuned") != (self.tried is not None):
            raise ValueError('`tried` (configurations tried) goes with source = "tuned", and only with it')
        if self.tuned_on is not None and self.source != "paper":
            raise ValueError('`tuned_on` is what a paper tuned on: give it with source = "paper" only')
        return self


@dataclass(frozen=True)
class Tuning:
    """The search behind the values of a cell."""

    tried: int | None = None
    """Configurations, by the recipe; None if nothing was tuned."""
    by: Literal["recipe", "paper"] | None = None
    on: Literal["validation", "test"] | None = None
    """What the search was evaluated on. A paper's test accuracy takes precedence over our validation."""


def tuning(used: Iterable[Setting]) -> Tuning:
    """The tuning behind the recipe's values that a cell uses.

    Settings found by one search repeat its count, so the largest `tried` is taken, not the sum.
    """
    settings = list(used)
    tried = max((each.tried for each in settings if each.tried is not None), default=None)
    if any(each.tuned_on == "test" for each in settings):
        return Tuning(tried, "paper", "test")
    return Tuning(tried, "recipe", "validation") if tried is not None else Tuning()


class Recipe(BaseModel):
    """The training settings of one workload."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    default: dict[str, Setting] = {}
    method: dict[str, dict[str, Setting]] = {}
    setting: dict[str, dict[str, dict[str, Setting]]] = {}
    """Method to the number of a setting to its values."""
    refused: dict[str, dict[str, str]] = {}
    """Method to the number of a setting to why it is not available."""
    search: dict[str, list[Value] | Axes] = {}
    """The axis of every method to its range, and a method to ranges of its own."""

    def ranges(self, method: str, axes: Collection[str]) -> Axes:
        """The ranges for a method with these axes: those of every method that it has, and its own.

        A range of its own for an axis that it lacks is a SpecError.
        """
        own = self.search.get(method, {})
        own = own if isinstance(own, dict) else {}
        for name in own:
            if name not in axes:
                raise UnknownName(f"axis in [search.{method}] of a recipe", name, axes)
        shared = {name: each for name, each in self.search.items() if isinstance(each, list) and name in axes}
        return shared | own

    def settings(self, method: str, has: Collection[str], number: str | None = None) -> dict[str, Setting]:
        """The settings for a method with the parameters `has`: defaults, its own, those of a number.

        Defaults that the method lacks are skipped; a setting of its own that it lacks is a SpecError, as is
        an unknown number.
        """
        own = self.method.get(method, {}) | ({} if number is None else self._numbered(method, number))
        refuse_foreign(f"[method.{method}] of a recipe", own, has)
        shared = {name: setting for name, setting in self.default.items() if name in has}
        return shared | own

    def numbers(self, method: str) -> list[str]:
        """The numbered settings of a method, including refused ones."""
        return sorted({*self.setting.get(method, {}), *self.refused.get(method, {})})

    def _numbered(self, method: str, number: str) -> dict[str, Setting]:
        reason = self.refused.get(method, {}).get(number)
        if reason is not None:
            raise SpecError(
                f"setting {number} of {method} is not available: {reason}", field="setting", value=number
            )
        found = self.setting.get(method, {})
        if number not in found:
            known = f"known: {', '.join(found)}" if found else "it has no numbered settings"
            message = f"setting {number} of {method} is not in the recipe; {known}"
            raise SpecError(message, field="setting", value=number, allowed=tuple(found))
        return found[number]


def refuse_foreign(where: str, settings: Iterable[str], has: Collection[str]) -> None:
    """SpecError for settings of parameters that a method lacks."""
    foreign = [name for name in settings if name not in has]
    if foreign:
        raise SpecError(
            [f"{where}: {unknown('parameter', name, has)}" for name in foreign],
            field="parameter",
            value=tuple(foreign),
            allowed=tuple(sorted(has)),
        )


def recipe(workload: Workload) -> Recipe:
    """The recipe of a workload: `recipes/<name>.toml` beside the module that defines its class.

    A workload without a file has an empty recipe. A file with mistakes is a SpecError that lists
    them all.
    """
    return recipe_in(recipe_folder(workload), workload.name)


def recipe_folder(workload: Workload) -> Path:
    """The folder that holds the recipe of a workload, if it has one."""
    return Path(inspect.getfile(type(workload))).resolve().parent / "recipes"


def recipe_in(folder: Path, name: str) -> Recipe:
    """The recipe of the workload called `name` in a folder; see `recipe`."""
    path = folder / f"{name}.toml"
    return _parsed(path.name, path.read_bytes()) if path.is_file() else Recipe()


@lru_cache(maxsize=512)
def _parsed(name: str, content: bytes) -> Recipe:
    """The recipe from a file's content; cached, because a sweep needs it once per cell."""
    data = parse_toml(content, f"recipe {name}")
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        raise SpecError([f"recipe {name}: {_describe(each)}" for each in error.errors()]) from error


def _spell_levels(levels: Mapping[str, Any]) -> str:
    """Levels in one line."""
    return " ".join(f"{name}={value}" for name, value in levels.items())


def _untuned(field: str, value: str, known: list[str]) -> SpecError:
    """The refusal of a tuned value at another level."""
    return SpecError(
        f"tuned at {field} {', '.join(known)}, not at {value}: run `privbench tune` for it",
        field=field,
        value=value,
        allowed=tuple(known),
    )


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False


def _describe(error: Mapping[str, Any]) -> str:
    """One pydantic error in one line: location, problem and value."""
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg']}, got {error['input']!r}"
