"""Whose results a store holds: its own, and those imported from others, which live apart.

imports/<name>/        a store of its own: store.json, tasks/, manifest.json
"""

from dataclasses import dataclass
from pathlib import Path

from harness.store import Store
from workloads.errors import UnknownName

IMPORTS = "imports"
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Origin:
    """The tasks of one origin. The store's own have no name."""

    name: str
    store: Store
    """Holds these tasks."""
    root: Path
    """The store that they are collected with."""

    def key(self, key: str) -> str:
        """A task's or cell's key in the database, where nobody's may meet ours."""
        return f"{self.name}:{key}" if self.name else key


def origins(store: Store) -> list[Origin]:
    """The store itself, then what was imported, by name."""
    found = sorted(each.parent for each in (store.path / IMPORTS).glob("*/store.json"))
    imported = [Origin(folder.name, Store(folder), store.path) for folder in found]
    return [Origin("", store, store.path), *imported]


def find_task(store: Store, task: str) -> tuple[Origin, str]:
    """Whose a task is and its key in that store, from `KEY` or `ORIGIN:KEY`, or the beginning of one."""
    name, _, prefix = task.rpartition(":")
    known = {origin.name: origin for origin in origins(store)}
    if name not in known:
        raise UnknownName("origin", name, filter(None, known))
    return known[name], known[name].store.find(prefix)
