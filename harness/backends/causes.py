"""Failures and warnings by cause: many tasks that ended for the same reason are one entry."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.backends.status import Ended
from harness.store import Store
from workloads.errors import StoreError

UPSTREAM = "upstream"
"""The reason of a task whose input failed: it follows from another failure."""
VARYING = re.compile(r"\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
"""Keys and numbers: messages that differ in nothing else have the same cause."""

Names = MutableMapping[str, tuple[str, str]]
"""Workload and label of tasks by key, read once."""


@dataclass(frozen=True)
class Cause:
    """Failed tasks with the same reason and, but for numbers and keys, the same message."""

    reason: str
    message: str
    """The first line of the first task's message."""
    keys: Sequence[str]
    cells: Mapping[tuple[str, str], int]
    """Failed tasks by workload and label."""

    @property
    def kind(self) -> tuple[str, str]:
        """What its tasks have in common."""
        return self.reason, alike_text(self.message)

    @property
    def example(self) -> str:
        """The task to look at first."""
        return self.keys[0]

    def row(self) -> dict[str, Any]:
        """The cause as plain values, for JSON."""
        cells = [
            {"workload": workload, "method": label, "tasks": count}
            for (workload, label), count in self.cells.items()
        ]
        head = {"reason": self.reason, "message": self.message}
        return {**head, "tasks": len(self.keys), "example": self.example, "cells": cells}


def group_failures(store: Store, failures: Iterable[Ended], names: Names | None = None) -> list[Cause]:
    """Failed tasks by cause, the most frequent first and what follows from other failures last."""
    known: Names = {} if names is None else names
    alike: dict[tuple[str, str], list[Ended]] = {}
    for each in failures:
        alike.setdefault((each.reason or "", alike_text(first_line(each.message))), []).append(each)
    found = []
    for (reason, _), group in alike.items():
        cells = Counter(_names(store, each.key, known) for each in group)
        keys = [each.key for each in group]
        found.append(Cause(reason, first_line(group[0].message), keys, cells))
    return sorted(found, key=lambda cause: (cause.reason == UPSTREAM, -len(cause.keys)))


def group_texts(texts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Texts with the keys of their tasks; those that differ in numbers only are one, by the first of them."""
    first: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for text, keys in texts.items():
        found.setdefault(first.setdefault(alike_text(text), text), []).extend(keys)
    return {text: list(dict.fromkeys(keys)) for text, keys in found.items()}


def alike_text(text: str) -> str:
    """The text without what varies from task to task."""
    return VARYING.sub("#", text)


def first_line(message: str | None) -> str:
    """The first line of a message; empty without one."""
    return next((line.strip() for line in (message or "").splitlines() if line.strip()), "")


def _names(store: Store, key: str, known: Names) -> tuple[str, str]:
    if key not in known:
        try:
            task = store.task(key)
            known[key] = (task.cell.workload.name, task.label)
        except StoreError:  # its spec is damaged; its failure is still a row
            known[key] = ("?", "?")
    return known[key]
