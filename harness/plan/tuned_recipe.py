"""Tuned recipes: the files that `privbench tune` writes, laid over the recipes of workloads.

[tuning]                     how the values were found, and for what
[method.METHOD]              the values of the study with the median score
[setting.METHOD.1]           those of study 1, asked for by `setting = 1`
[tuned.METHOD]               the version of the method, and scores

A file of several workloads has a `[[tuning]]` for each, and values in `[workload.NAME.method.METHOD]`. A run
uses a file only if it names it. Values that were found for another version, number of members or level are
refused, never rounded.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from workloads.errors import SpecError
from workloads.recipe import Setting, refuse_foreign
from workloads.toml import parse_toml

SHIPPED = "shipped"
"""The name, instead of a path, of the tuned recipes that come with privbench."""
Settings = dict[str, Setting]


class Strict(BaseModel):
    """A part of the file; other keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Head(Strict):
    """How the values of a workload were found."""

    name: str
    """Of the tune."""
    workload: str
    workload_version: str
    n_train: int
    """Members of a model in the runs that the values are for."""
    tuned_at: int
    """Members of a model in the search."""
    trials: int
    studies: int
    models: int
    confirm: int
    seed: int
    """Of the first study."""
    objective: Literal["nonmember_accuracy"]
    max_gap: float | None = None
    validation_records: int
    priced: Literal[False]
    tune: str
    """The checksum of the tune's record."""

    @property
    def tried(self) -> int:
        """Configurations of a method at one level."""
        return self.trials * self.studies


class TunedMethod(Strict):
    """What the search of a method found, at each of its levels."""

    method_version: str
    warnings: list[str] = []
    searches: list[dict[str, Any]] = Field(default=[])
    """Levels, the score of every study, and the study that was taken: for readers."""


class Part(Strict):
    """The values for one workload."""

    method: dict[str, Settings] = {}
    setting: dict[str, dict[str, Settings]] = {}
    """Method to the number of a study to its values."""
    tuned: dict[str, TunedMethod] = {}

    @model_validator(mode="after")
    def _is_complete(self) -> "Part":
        for name in {*self.method, *self.setting}:
            if name not in self.tuned:
                raise ValueError(f"[tuned.{name}] is missing: it says for which version the values are")
        return self


class Content(Part):
    """A whole file."""

    tuning: Head | list[Head]
    workload: dict[str, Part] = {}

    @model_validator(mode="after")
    def _has_a_head_for_every_workload(self) -> "Content":
        several = isinstance(self.tuning, list)
        if several == bool(self.method or self.setting or self.tuned):
            raise ValueError(
                "give [tuning] with [method.METHOD], or [[tuning]] with [workload.NAME.method.METHOD]"
            )
        named = [head.workload for head in self.tuning] if isinstance(self.tuning, list) else []
        if sorted(named) != sorted(self.workload):
            raise ValueError(
                f"[[tuning]] names {named}, [workload] names {list(self.workload)}: give the same"
            )
        return self


@dataclass(frozen=True)
class RecipeFile:
    """A tuned recipe as it was given."""

    name: str
    """Its path, for messages, or `shipped`."""
    texts: tuple[str, ...]
    """One, or those of all workloads that are shipped tuned."""


@dataclass(frozen=True)
class TunedRecipe:
    """The values for one method on one workload."""

    head: Head
    method: str
    version: str
    settings: Settings
    numbered: Mapping[str, Settings]

    def find(self, has: Collection[str], number: str | None) -> Settings:
        """The settings, or those of a study; SpecError for an unknown study or parameter."""
        if number is not None and number not in self.numbered:
            raise SpecError(
                f"setting {number} of {self.method} is no study of the tuned recipe; "
                f"it has {', '.join(self.numbered)}",
                field="setting",
                value=number,
                allowed=tuple(self.numbered),
            )
        found = self.settings if number is None else self.numbered[number]
        refuse_foreign(f"the tuned recipe of {self.method}", found, has)
        return found

    def refusals(self, workload_version: str, method_version: str, n_train: int, seed: int) -> list[str]:
        """Why the values are not for this cell, if so."""
        head, again = self.head, "run `privbench tune` again"
        studies = range(head.seed, head.seed + head.studies)
        compared = (
            (f"version {head.workload_version} of the workload", head.workload_version, workload_version),
            (f"version {self.version} of the method", self.version, method_version),
            (f"n_train = {head.n_train}", head.n_train, n_train),
        )
        found = [f"tuned for {what}, not {now}: {again}" for what, then, now in compared if then != now]
        if seed in studies:
            found.append(
                f"seed = {seed} is that of a study of the tune ({studies[0]} to {studies[-1]}): a model must "
                "not be reported on the members it was chosen by, give another seed"
            )
        return found


@dataclass(frozen=True)
class TunedRecipes:
    """The values of a file by workload."""

    parts: Mapping[str, tuple[Head, Part]]

    def find(self, workload: str, method: str) -> TunedRecipe | None:
        """The values for a method on a workload; None if the file has none."""
        head, part = self.parts.get(workload, (None, Part()))
        if head is None or method not in part.method:
            return None
        version, numbered = part.tuned[method].method_version, part.setting.get(method, {})
        return TunedRecipe(head, method, version, part.method[method], numbered)


def read_recipe_file(path: Path | str) -> RecipeFile:
    """Read a tuned recipe, or the shipped ones, and check its form; SpecError with all problems."""
    try:
        files = shipped_files() if str(path) == SHIPPED else [Path(path)]
        file = RecipeFile(str(path), tuple(each.read_text(encoding="utf-8") for each in files))
    except (OSError, ValueError) as error:
        raise SpecError(
            f"the recipe {path} cannot be read: {error}", field="recipe", value=str(path)
        ) from error
    parse_tuned(file)
    return file


def shipped_files() -> list[Path]:
    """The tuned recipes of our workloads: `workloads/recipes/tuned/<name>.toml`."""
    return sorted(Path(str(resources.files("workloads") / "recipes" / "tuned")).glob("*.toml"))


@lru_cache(maxsize=16)
def parse_tuned(file: RecipeFile) -> TunedRecipes:
    """Parse a tuned recipe; SpecError with all problems."""
    parts: dict[str, tuple[Head, Part]] = {}
    for text in file.texts:
        parts |= _parts(file.name, text)
    return TunedRecipes(parts)


def _parts(name: str, text: str) -> dict[str, tuple[Head, Part]]:
    """The values of one file by workload."""
    data = parse_toml(text.encode(), f"recipe {name}")
    if "tuning" not in data:
        raise SpecError(
            f"recipe {name} has no [tuning]: give a file that `privbench tune` wrote",
            field="recipe",
            value=name,
        )
    try:
        content = Content.model_validate(data)
    except ValidationError as error:
        told = ((".".join(map(str, each["loc"])), each["msg"]) for each in error.errors())
        problems = [f"recipe {name}: {where}: {why.removeprefix('Value error, ')}" for where, why in told]
        raise SpecError(problems, field="recipe", value=name) from error
    if isinstance(content.tuning, Head):
        return {content.tuning.workload: (content.tuning, content)}
    return {head.workload: (head, content.workload[head.workload]) for head in content.tuning}
