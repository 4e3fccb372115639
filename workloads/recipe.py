"""Recipes: a workload's training settings, by default and per method, each value with its source.

[default]
batch_size = { value = 64, source = "ours", note = "about a tenth of the members" }
[method.dp-sgd]
learning_rate = { value = 2.0, source = "tuned", tried = 12 }
"""

import inspect
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from workloads.base import Workload
from workloads.errors import SpecError, unknown

Value = StrictBool | StrictInt | StrictFloat | StrictStr


class Setting(BaseModel):
    """One value and where it comes from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: Value
    source: Literal["paper", "ours", "tuned"]
    note: str | None = None
    tried: int | None = Field(default=None, ge=1)
    """Configurations tried in the search that found this value."""

    @model_validator(mode="after")
    def _count_tuning(self) -> "Setting":
        if (self.source == "tuned") != (self.tried is not None):
            raise ValueError('`tried` (configurations tried) goes with source = "tuned", and only with it')
        return self


class Recipe(BaseModel):
    """The training settings of one workload."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    default: dict[str, Setting] = {}
    method: dict[str, dict[str, Setting]] = {}

    def settings(self, method: str, has: Collection[str]) -> dict[str, Setting]:
        """The settings for a method with the parameters `has`: defaults it has, then its own.

        A default the method lacks is passed over; a setting of its own that it lacks is a SpecError.
        """
        own = self.method.get(method, {})
        strangers = [name for name in own if name not in has]
        if strangers:
            raise SpecError(
                [f"[method.{method}] of a recipe: {unknown('parameter', name, has)}" for name in strangers]
            )
        shared = {name: setting for name, setting in self.default.items() if name in has}
        return shared | own

    def tuned(self, method: str) -> int | None:
        """How many configurations were tried for this method; None where nothing was tuned.

        Settings found by one search repeat its count, so this is the largest `tried` of the
        method's own settings and of the defaults they do not replace, not the sum.
        """
        settings = (self.default | self.method.get(method, {})).values()
        return max((s.tried for s in settings if s.tried is not None), default=None)


def recipe(workload: Workload) -> Recipe:
    """The recipe of a workload: `recipes/<name>.toml` beside the module that defines its class.

    A workload without a file has an empty recipe. A file with mistakes is a SpecError that lists
    them all.
    """
    path = Path(inspect.getfile(type(workload))).parent / "recipes" / f"{workload.name}.toml"
    if not path.is_file():
        return Recipe()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"recipe {path.name} is not TOML: {error}") from error
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise SpecError([f"recipe {path.name}: {_say(each)}" for each in error.errors()]) from error


def _say(error: Mapping[str, Any]) -> str:
    """One pydantic error in one line: where, what, and what was given."""
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg']}, got {error['input']!r}"
