"""Families of plug-ins: one file or folder per member; entry points add members of other packages.

A member is a module or a folder of the family's package that binds the family's variable at its top level:

    methods/dp_sgd.py          method = DpSgd()              named after its file: dp-sgd
    methods/pate/              its __init__ binds `method`   named after its folder: pate
    harness/attacks/lira.py    attack = Lira()               named after its file: lira
    workloads/embedded.py        workloads = [Digits(...), ...]   a group; every workload has a `.name`

Modules and folders without the variable are helpers. An installed package adds a member by the entry point
group `privbench.<family>`; the entry point's name is the member's name.
"""

import ast
import importlib
import importlib.util
import logging
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from workloads.errors import BenchError, UnknownName

T = TypeVar("T")

log = logging.getLogger(__name__)


class Family(Generic[T]):
    """All members of one kind, found on first use."""

    def __init__(self, kind: str, package: str, variable: str, named_by: str | None = None) -> None:
        """Args: the kind's name in messages, the package to walk, the variable a member file binds.

        Where one file binds several members, `named_by` is a pattern of the package's files that bear their
        names.
        """
        self.kind, self.package, self.variable, self.named_by = kind, package, variable, named_by

    def names(self) -> list[str]:
        """Every member's name, sorted."""
        return sorted(self.members)

    def listed_names(self) -> list[str]:
        """Every member's name, sorted, with no member imported: from files and entry points."""
        folders = importlib.import_module(self.package).__path__
        if self.named_by:
            own = [file.stem for each in folders for file in Path(each).glob(self.named_by)]
        else:
            stems = [info.name for info in pkgutil.iter_modules(folders)]
            own = [stem.replace("_", "-") for stem in stems if self._is_member(stem)]
        points = entry_points(group=f"privbench.{self.kind}s")
        return sorted({*own, *(point.name for point in points)})

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
                raise BenchError(
                    f"two {self.kind}s are called '{name}'; the second is in {origin}; rename or remove one",
                    field=self.kind,
                    value=name,
                )
            found[name] = member
        return found

    def _files(self, stem: str | None = None) -> Iterator[tuple[str, str, T]]:
        """The members in the package's files, or in the file called `stem`."""
        package = importlib.import_module(self.package)
        for info in pkgutil.iter_modules(package.__path__):
            if stem in (None, info.name):
                module = importlib.import_module(f"{self.package}.{info.name}")
                yield from self._bound(module, info.name)

    def _is_member(self, stem: str) -> bool:
        """Whether the source of a module or folder of the package binds the variable."""
        spec = importlib.util.find_spec(f"{self.package}.{stem}")
        if spec is None or spec.origin is None:
            return False
        return self.variable in bindings(Path(spec.origin).read_text(encoding="utf-8"))

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


def bindings(source: str) -> set[str]:
    """The names that a module's source assigns or imports at its top level."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom):
            found.update(each.asname or each.name for each in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(each.id for each in targets if isinstance(each, ast.Name))
    return found
