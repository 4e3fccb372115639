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
import importlib.util
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from workloads.errors import BenchError, BrokenPlugin, UnknownName

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")


class Family(Generic[T]):
    """All members of one kind, found on first use."""

    def __init__(self, kind: str, package: str, variable: str, named_by: str | None = None) -> None:
        """Args: the kind's name in messages, the package to walk, the variable a member file binds.

        Where one file binds several members, `named_by` is a pattern of the package's files that bear their
        names.
        """
        self.kind, self.package, self.variable, self.named_by = kind, package, variable, named_by
        self.broken: dict[str, BrokenPlugin] = {}
        """Plug-ins that do not load, by name; known once all members, or this one, were asked for."""
        self._loaded: dict[str, T] = {}
        """Members that were asked for one by one: a worker asks for each task."""

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

    def plugins(self) -> "list[EntryPoint]":
        """The entry points of other packages, with nothing loaded."""
        return list(entry_points(group=f"privbench.{self.kind}s"))

    def load_plugin(self, name: str) -> T | None:
        """The member of another package called `name`; None if it does not load (`refusal`)."""
        return next((member for _, _, member in self._entry_points(name)), None)

    def get(self, name: str) -> T:
        """The member called `name`; UnknownName with the nearest one if there is none.

        BrokenPlugin if it is a plug-in that does not load.
        """
        try:
            return self.members[name]
        except KeyError:
            raise self.refusal(name) from None

    def refusal(self, name: str) -> UnknownName:
        """Why there is no member called `name`: nobody has the name, or its plug-in does not load."""
        return self.broken.get(name) or UnknownName(self.kind, name, self.members)

    def load(self, name: str) -> T:
        """The same as `get`, importing no other member if the name identifies the file."""
        if "members" in vars(self):
            return self.get(name)
        if name not in self._loaded:
            found = [*self._files(name.replace("-", "_")), *self._entry_points(name)]
            alike = [member for _, each, member in found if each == name]
            if len(alike) != 1:
                return self.get(name)
            self._loaded[name] = alike[0]
        return self._loaded[name]

    def own_members(self) -> list[tuple[str, str, T]]:
        """Origin, name and member of those in this package, without plug-ins."""
        return list(self._files())

    @cached_property
    def own(self) -> frozenset[str]:
        """The names of the members in this package, without plug-ins."""
        return frozenset(name for _, name, _ in self.own_members())

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
            except Exception as error:  # noqa: BLE001 - reported where the plug-in is used, and by `doctor`
                reason = f"{type(error).__name__}: {error}"
                self.broken[point.name] = BrokenPlugin(self.kind, point.name, point.value, reason)


def entry_points(group: str) -> "EntryPoints":
    """The entry points of installed packages."""
    from importlib import metadata  # takes a tenth of `privbench --help`

    return metadata.entry_points(group=group)


def bindings(source: str) -> set[str]:
    """The names that a module's source assigns or imports at its top level."""
    import ast

    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom):
            found.update(each.asname or each.name for each in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(each.id for each in targets if isinstance(each, ast.Name))
    return found
