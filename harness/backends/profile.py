"""Profiles of backends: TOML files whose problems are all reported at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workloads.errors import SpecError, unknown
from workloads.toml import read_toml

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
TABLES = ("environment", "options")


class ProfileFile(BaseModel):
    """The options of a backend; each backend has its own subclass."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    unions: ClassVar[tuple[str, ...]] = ()
    """Fields of a union type: pydantic's message about one branch alone misleads."""

    @classmethod
    def refusals(cls, content: Mapping[str, Any]) -> list[str]:
        """Problems with keys that a profile of this class may not set."""
        return []

    def conflicts(self) -> list[str]:
        """Problems with combinations of values that are valid on their own."""
        return []


Kind = TypeVar("Kind", bound=ProfileFile)


def read_as(kind: type[Kind], file: Path) -> Kind:
    """Read a profile from a TOML file; SpecError with all problems."""
    content = read_toml(file, f"the profile {file}")
    problems = _problems(content, kind)
    if problems:
        raise SpecError([f"{file}: {problem}" for problem in problems])
    return kind(**content)


def mistakes(kind: type[ProfileFile], file: Path) -> list[str]:
    """List all problems of a file as a profile of this class; SpecError if it is not TOML."""
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
    """One line per invalid value, with what is allowed."""
    found: dict[str, str] = {}
    for each in error.errors():
        name = str(each["loc"][0])
        inside = f".{each['loc'][1]}" if name in TABLES and len(each["loc"]) > 1 else ""
        about = kind.model_fields[name].description
        # A regular expression does not help users.
        plain = each["type"] == "string_pattern_mismatch" or name in kind.unions
        wrong = "" if plain else f"{each['msg']}; "
        found[name + inside] = f"{name}{inside} = {each['input']!r}: {wrong}give {about}"
    return list(found.values())
