"""The files of a project: from the name of a module to its source file, with nothing imported."""

import importlib.util
import os
import sys
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import EntryPoint, entry_points

OURS = frozenset({"privbench", "harness", "methods", "workloads", "db"})
"""Our own top-level packages."""
GROUPS = tuple(f"privbench.{kind}s" for kind in ("workload", "method", "attack", "backend"))
"""Entry points of plug-ins."""


def plugin_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, read again when a folder of packages is another or has changed."""
    return _points(group, tuple(map(_state, sys.path)))


def _state(folder: str) -> tuple[str, int]:
    """A folder on the import path, and when an entry of it was last added or removed."""
    folder = folder or os.getcwd()  # noqa: PTH109
    try:
        return folder, os.stat(folder).st_mtime_ns  # noqa: PTH116
    except OSError:
        return folder, 0


@lru_cache(maxsize=len(GROUPS))
def _points(group: str, state: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


@dataclass(frozen=True)
class Found:
    """A module: its file, and its folders if it is a package."""

    file: str | None
    """None for a package without `__init__.py`."""
    label: str
    """The file relative to the folder that holds the top-level package."""
    folders: tuple[str, ...] = ()


@dataclass
class Finder:
    """Finds the files of modules; what it has looked up it keeps, so that one is made for every walk."""

    known: dict[str, Found | None] = field(default_factory=dict)
    names: dict[str, frozenset[str]] = field(default_factory=dict)

    def find(self, module: str) -> Found | None:
        """A module; None if it has no file."""
        if module not in self.known:
            parent, _, name = module.rpartition(".")
            self.known[module] = self._inside(parent, name) if parent else _top(name)
        return self.known[module]

    def _inside(self, parent: str, name: str) -> Found | None:
        package = self.find(parent)
        spaces = []
        for folder in package.folders if package else ():
            if name in self._listed(folder):
                inner = f"{folder}/{name}"
                if "__init__.py" in self._listed(inner):
                    return Found(f"{inner}/__init__.py", _label(parent, f"{name}/__init__.py"), (inner,))
                if self._listed(inner):
                    spaces.append(inner)
            for suffix in (".py", *EXTENSION_SUFFIXES):
                if f"{name}{suffix}" in self._listed(folder):
                    return Found(f"{folder}/{name}{suffix}", _label(parent, f"{name}.{suffix[-2:]}"))
        return Found(None, _label(parent, name), tuple(spaces)) if spaces else None

    def _listed(self, folder: str) -> frozenset[str]:
        if folder not in self.names:
            try:
                self.names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208 - a name, not a path each
            except OSError:
                self.names[folder] = frozenset()
        return self.names[folder]


def _label(parent: str, name: str) -> str:
    return f"{parent.replace('.', '/')}/{name}"


def _top(name: str) -> Found | None:
    """A top-level module or package, by the machinery of imports; None for a built-in module."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or (spec.submodule_search_locations is None and not spec.has_location):
        return None
    if spec.submodule_search_locations is None:
        suffix = (spec.origin or "")[-3:].lstrip(".")
        return Found(spec.origin, f"{name}.{suffix}")
    folders = tuple(map(str, spec.submodule_search_locations))
    file = spec.origin if spec.has_location else None
    return Found(file, f"{name}/__init__.py", folders)


def top_of(module: str) -> str:
    """The top-level package of a module."""
    return module.partition(".")[0]


@dataclass(frozen=True)
class Project:
    """The top-level names that belong together."""

    finder: Finder
    top: str
    home: str | None
    """The folder of its top-level packages, unless it is a site-packages."""
    distributed: frozenset[str]
    """The top-level names of its distribution, if it is in a site-packages."""

    @classmethod
    def of(cls, module: str, finder: Finder) -> "Project":
        """The project of a module."""
        top = top_of(module)
        if top in OURS:
            return cls(finder, top, None, OURS)
        home = _home(finder.find(top))
        if home is None or not is_installed(home):
            return cls(finder, top, home, frozenset())
        return cls(finder, top, None, _distributed(top))

    def has(self, module: str) -> bool:
        """Whether a module belongs to the project."""
        top = top_of(module)
        if top == self.top or top in self.distributed:
            return True
        if self.home is None or top in OURS or top in sys.stdlib_module_names:
            return False
        return _home(self.finder.find(top)) == self.home


def is_installed(folder: str) -> bool:
    """Whether a folder is (in) one of those that installed packages are in."""
    return not {"site-packages", "dist-packages"}.isdisjoint(folder.split("/"))


def _home(found: Found | None) -> str | None:
    """The folder that a top-level module or package is in."""
    if found is None:
        return None
    inside = found.folders[0] if found.folders else found.file
    return os.path.dirname(inside) if inside else None  # noqa: PTH120


@cache
def _distributed(top: str) -> frozenset[str]:
    """The top-level names of the plug-in's distribution that brings `top`."""
    for group in GROUPS:
        for point in entry_points(group=group):
            files = point.dist.files if point.dist is not None else None
            names = {each.parts[0].removesuffix(".py") for each in files or () if each.suffix == ".py"}
            if top in names:
                return frozenset(names)
    return frozenset()
