"""Profiles of backends: TOML files that users write, every mistake reported at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workloads.errors import SpecError, unknown
from workloads.toml import read_toml

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
TABLES = ("environment", "options")


class ProfileFile(BaseModel):
    """What a backend can be asked for; each backend has its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    unions: ClassVar[tuple[str, ...]] = ()
    """Fields with two ways to be right: pydantic's message about either alone misleads."""

    @classmethod
    def refusals(cls, content: Mapping[str, Any]) -> list[str]:
        """What no profile of this kind may hold, whatever the values."""
        return []

    def conflicts(self) -> list[str]:
        """Values that are right each and wrong together."""
        return []


Kind = TypeVar("Kind", bound=ProfileFile)


def read_as(kind: type[Kind], file: Path) -> Kind:
    """A profile of some kind from a TOML file; SpecError with all that is wrong with it."""
    content = read_toml(file, f"the profile {file}")
    problems = _problems(content, kind)
    if problems:
        raise SpecError([f"{file}: {problem}" for problem in problems])
    return kind(**content)


def mistakes(kind: type[ProfileFile], file: Path) -> list[str]:
    """All that is wrong with a file as a profile of some kind; SpecError where it is no TOML at all."""
    return _problems(read_toml(file, f"the profile {file}"), kind)


def _problems(content: dict[str, Any], kind: type[ProfileFile]) -> list[str]:
    known = kind.model_fields
    problems = [unknown("key of a profile", key, known) for key in content if key not in known]
    problems += kind.refusals(content)
    try:
        profile = kind(**{key: value for key, value in content.items() if key in known})
    except ValidationError as error:
        return problems + _mistakes(error, kind)
    return problems + profile.conflicts()


def _mistakes(error: ValidationError, kind: type[ProfileFile]) -> list[str]:
    """A line per value that is wrong, with what it should be."""
    found: dict[str, str] = {}
    for each in error.errors():
        name = str(each["loc"][0])
        inside = f".{each['loc'][1]}" if name in TABLES and len(each["loc"]) > 1 else ""
        about = kind.model_fields[name].description
        # A pattern says nothing to people.
        plain = each["type"] == "string_pattern_mismatch" or name in kind.unions
        wrong = "" if plain else f"{each['msg']}; "
        found[name + inside] = f"{name}{inside} = {each['input']!r}: {wrong}give {about}"
    return list(found.values())
