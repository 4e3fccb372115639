"""Families of plug-ins: one file or folder per member; entry points add members of other packages.

A member is a module or a folder of the family's package that binds the family's variable at its top level:

    methods/dp_sgd.py          method = DpSgd()              named after its file: dp-sgd
    methods/pate/              its __init__ binds `method`   named after its folder: pate
    harness/attacks/lira.py    attack = Lira()               named after its file: lira
    workloads/embedded.py        workloads = [Digits(...), ...]   a group; every workload has a `.name`

Modules and folders without the variable are helpers. An installed package adds a member by the entry point
group `privbench.<family>`; the entry point's name is the member's name.
"""

import importlib
import logging
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Generic, TypeVar

from workloads.errors import BenchError, UnknownName

T = TypeVar("T")

log = logging.getLogger(__name__)


class Family(Generic[T]):
    """All members of one kind, found on first use."""

    def __init__(self, kind: str, package: str, variable: str) -> None:
        """Args: the kind's name in messages, the package to walk, the variable a member file binds."""
        self.kind, self.package, self.variable = kind, package, variable

    def names(self) -> list[str]:
        """Every member's name, sorted."""
        return sorted(self.members)

    def get(self, name: str) -> T:
        """The member called `name`; UnknownName with the nearest one if there is none."""
        try:
            return self.members[name]
        except KeyError:
            raise UnknownName(self.kind, name, self.members) from None

    def load(self, name: str) -> T:
        """The same as `get`, importing no other member if the name identifies the file."""
        known = "members" in vars(self)
        found = [] if known else [*self._files(name.replace("-", "_")), *self._entry_points(name)]
        alike = [member for _, each, member in found if each == name]
        return alike[0] if len(alike) == 1 else self.get(name)

    @cached_property
    def own(self) -> frozenset[str]:
        """The names of the members in this package, without plug-ins."""
        return frozenset(name for _, name, _ in self._files())

    @cached_property
    def members(self) -> dict[str, T]:
        """Name to member. Duplicate names are an error: results must be attributable."""
        found: dict[str, T] = {}
        for origin, name, member in [*self._files(), *self._entry_points()]:
            if name in found:
                raise BenchError(f"two {self.kind}s are called '{name}'; the second is in {origin}")
            found[name] = member
        return found

    def _files(self, stem: str | None = None) -> Iterator[tuple[str, str, T]]:
        """The members in the package's files, or in the file called `stem`."""
        package = importlib.import_module(self.package)
        for info in pkgutil.iter_modules(package.__path__):
            if stem in (None, info.name):
                module = importlib.import_module(f"{self.package}.{info.name}")
                yield from self._bound(module, info.name)

    def _bound(self, module: ModuleType, stem: str) -> Iterator[tuple[str, str, T]]:
        member: Any = vars(module).get(self.variable)
        if member is None:
            return
        origin = str(module.__file__)
        if isinstance(member, list):
            yield from ((origin, each.name, each) for each in member)
        else:
            yield origin, stem.replace("_", "-"), member

    def _entry_points(self, name: str | None = None) -> Iterator[tuple[str, str, T]]:
        """The members of other packages, or those called `name`."""
        for point in entry_points(group=f"privbench.{self.kind}s"):
            if name not in (None, point.name):
                continue
            try:
                yield point.value, point.name, point.load()
            except Exception as error:  # noqa: BLE001 - a broken plug-in must not stop the program
                log.warning(
                    "%s plug-in %s (%s) does not load: %s",
                    self.kind,
                    point.name,
                    point.value,
                    error,
                )
