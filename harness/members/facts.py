"""Facts of members: what a method, a workload or an attack says about itself, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from harness.members.own_sources import ROOT
from harness.spec import Json

if TYPE_CHECKING:
    from harness.attacks.base import Attacker
    from methods.base import Method, Params
    from workloads.base import Workload

Kind = Literal["method", "workload", "attack"]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method or an attack."""

    name: str
    about: str
    default: Any = None
    required: bool = False
    allowed: tuple[Any, ...] = ()
    """The possible values, where there are few."""
    search: str | None = None
    """What a tuning does with it: the range that is searched, level, or fixed."""


@dataclass(frozen=True)
class Facts:
    """What every member declares."""

    version: str
    about: str
    source: str

    def file(self) -> Json:
        """As JSON; see `read_facts`."""
        return asdict(self)


@dataclass(frozen=True)
class Declaring(Facts):
    """What a member with parameters declares."""

    caveats: tuple[str, ...]
    parameters: tuple[Parameter, ...]

    @property
    def names(self) -> list[str]:
        """The names of its parameters, in its order."""
        return [each.name for each in self.parameters]


@dataclass(frozen=True)
class MethodFacts(Declaring):
    """What a method declares."""

    kind: ClassVar[Kind] = "method"
    guarantee: str


@dataclass(frozen=True)
class AttackFacts(Declaring):
    """What an attack declares."""

    kind: ClassVar[Kind] = "attack"
    shadows: int


@dataclass(frozen=True)
class WorkloadFacts(Facts):
    """What a workload declares."""

    kind: ClassVar[Kind] = "workload"
    classes: int
    n_train: int
    recipes: str
    """The folder of its recipe; that of ours relative to the folder of the packages."""
    dataset: str | None = None
    """The published data set that its records are read from."""

    @property
    def recipe_folder(self) -> Path:
        """The folder of its recipe."""
        return ROOT / self.recipes


AnyFacts = MethodFacts | AttackFacts | WorkloadFacts


def facts_of(kind: Kind, member: Any) -> AnyFacts:
    """The facts of a member; everything that it declares is read, and nothing is trained."""
    if kind == "method":
        return _method(member)
    return _attack(member) if kind == "attack" else _workload(member)


def read_facts(kind: Kind, given: Mapping[str, Any]) -> AnyFacts:
    """Facts from JSON."""
    found = dict(given)
    if kind == "workload":
        return WorkloadFacts(**found)
    parameters = tuple(
        Parameter(**{**each, "allowed": tuple(each["allowed"])}) for each in found.pop("parameters")
    )
    declared = {**found, "caveats": tuple(found["caveats"]), "parameters": parameters}
    return MethodFacts(**declared) if kind == "method" else AttackFacts(**declared)


def _head(member: Any) -> dict[str, str]:
    return {name: str(getattr(member, name)) for name in ("version", "about", "source")}


def _method(member: Method) -> MethodFacts:
    return MethodFacts(
        **_head(member),
        caveats=tuple(member.caveats),
        parameters=parameters_of(member.Params),
        guarantee=member.guarantee,
    )


def _attack(member: Attacker) -> AttackFacts:
    return AttackFacts(
        **_head(member),
        caveats=tuple(member.caveats),
        parameters=parameters_of(member.Params),
        shadows=member.shadows,
    )


def _workload(member: Workload) -> WorkloadFacts:
    from workloads.published import OnPublishedData
    from workloads.recipe import recipe_folder

    folder = recipe_folder(member)
    return WorkloadFacts(
        **_head(member),
        classes=int(member.classes),
        n_train=int(member.n_train),
        recipes=str(folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder),
        dataset=member.dataset if isinstance(member, OnPublishedData) else None,
    )


def parameters_of(kind: type[Params]) -> tuple[Parameter, ...]:
    """The parameters of a method or an attack, in their order."""
    from methods.search import describe_search

    schema = kind.model_json_schema()["properties"]
    found = []
    for name, info in kind.model_fields.items():
        allowed = schema[name].get("enum") or [
            value for each in schema[name].get("anyOf", []) for value in each.get("enum", [])
        ]
        required = info.is_required()
        default = None if required else info.get_default(call_default_factory=True)
        default = list(default) if isinstance(default, tuple) else default  # as JSON has it
        about, search = info.description or "", describe_search(name, info)
        found.append(Parameter(name, about, default, required, tuple(allowed), search))
    return tuple(found)
