"""Origins of results: the store's own, and imported ones, which are kept apart.

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
    """The source of tasks: an import, or the store itself, whose name is empty."""

    name: str
    store: Store
    """The store that holds these tasks."""
    root: Path
    """The store they are collected into."""

    def key(self, key: str) -> str:
        """The key of a task or cell in the database; imported ones have a prefix against collisions."""
        return f"{self.name}:{key}" if self.name else key


def origins(store: Store) -> list[Origin]:
    """List the store itself, then its imports by name."""
    found = sorted(each.parent for each in (store.path / IMPORTS).glob("*/store.json"))
    imported = [Origin(folder.name, Store(folder), store.path) for folder in found]
    return [Origin("", store, store.path), *imported]


def find_task(store: Store, task: str) -> tuple[Origin, str]:
    """Resolve `KEY` or `ORIGIN:KEY`, or a prefix of one, to an origin and the full key in its store."""
    name, _, prefix = task.rpartition(":")
    known = {origin.name: origin for origin in origins(store)}
    if name not in known:
        raise UnknownName("origin", name, filter(None, known))
    return known[name], known[name].store.find(prefix)
