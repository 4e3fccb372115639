"""Progress of sweeps, from results, heartbeats and the report of their backend."""

import contextlib
from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import Any

from harness.backends import DEFAULT, family
from harness.backends.base import Standing
from harness.backends.sent import sent_backend
from harness.spec import Kind
from harness.store import Store, heartbeat
from harness.store.journal import SweepEntry
from harness.store.outcomes import AuditOutcome
from harness.store.result import Result
from workloads.errors import StoreError, UnknownName


@dataclass(frozen=True)
class Ended:
    """Summary of a result: full results of a hundred thousand tasks would fill gigabytes."""

    key: str
    kind: Kind
    done: bool
    reason: str | None
    message: str | None
    warnings: tuple[str, ...]
    alarm: str | None
    """The message of an audit whose bound exceeds the computed epsilon."""
    steps: int
    """Steps of a training, over all phases."""

    @classmethod
    def of(cls, result: Result) -> "Ended":
        """Summarise a result."""
        alarm, steps = None, 0
        with contextlib.suppress(ValueError):  # a failure, or an outcome of another shape
            if result.kind == "train":
                steps = sum(phase.steps for phase in result.training.phases.values())
            elif "audit" in result.figures:  # others are not read: a ROC would take as long as the file
                alarm = _alarm(result)
        warnings = tuple(result.warnings)
        return cls(
            result.key, result.kind, result.done, result.reason, result.message, warnings, alarm, steps
        )


def _alarm(result: Result) -> str | None:
    """What an audit proved above the price."""
    if isinstance(result.outcome, AuditOutcome) and result.outcome.audit.alarm:
        return result.outcome.audit.message
    return None


UNASKED = Standing(queued=None)


@dataclass(frozen=True)
class Running:
    """A task in progress, from its heartbeat."""

    key: str
    label: str
    phase: str
    done: int
    total: int


@dataclass
class Progress:
    """The tasks of a sweep by state; `look` refreshes it."""

    store: Store
    name: str
    tasks: list[SweepEntry]
    backend: str = DEFAULT
    standing: Standing = UNASKED
    """The backend's last report on the sweep."""
    protocol: int | None = None
    """The protocol of its tasks; None if no spec is readable."""
    ended: dict[str, Ended] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)

    @classmethod
    def of(cls, store: Store, name: str) -> "Progress":
        """The progress of an enqueued sweep."""
        content = store.sweep(name)
        progress = cls(store, name, content.tasks, sent_backend(content))
        progress.protocol = _protocol(store, content.tasks)
        progress.look()
        progress.standing = standing(progress.backend, store, name, progress.open)
        if not progress.over:
            progress.look()  # the backend may have written failures of tasks whose process is gone
        return progress

    def look(self) -> list[Ended]:
        """Refresh, and return the results that are new since the last call."""
        new = []
        self.running = []
        for task in self.tasks:
            key = task.key
            if key in self.ended:
                continue
            result = self.store.result(key, verify=False)
            if result is not None:
                self.ended[key] = Ended.of(result)
                new.append(self.ended[key])
            elif (pulse := heartbeat(self.store.folder(key))) is not None:
                label = self.store.task(key).label
                self.running.append(Running(key, label, pulse.phase, pulse.done, pulse.total))
        if new and self.over:
            self.standing = replace(self.standing, queued=False)  # no unfinished task is left
        return new

    @property
    def done(self) -> int:
        """Number of tasks that are done."""
        return sum(each.done for each in self.ended.values())

    @property
    def open(self) -> set[str]:
        """Tasks without a result."""
        return {task.key for task in self.tasks} - self.ended.keys()

    @property
    def failures(self) -> list[Ended]:
        """Tasks that failed."""
        return [each for each in self.ended.values() if not each.done]

    @property
    def warnings(self) -> dict[str, list[str]]:
        """Distinct warnings, each with the keys of its tasks."""
        found: dict[str, list[str]] = {}
        for key, ended in self.ended.items():
            for text in ended.warnings:
                found.setdefault(text, []).append(key)
        return found

    @property
    def alarms(self) -> dict[str, str]:
        """Alarms of audits by workload, cell and audit, so that none hides another."""
        found = {}
        for key, ended in self.ended.items():
            if ended.alarm:
                task = self.store.task(key)
                attack = task.attack.name if task.attack else ""
                found[f"{task.cell.workload.name}, {task.label}, {attack}"] = ended.alarm
        return found

    @property
    def over(self) -> bool:
        """Whether every task has ended."""
        return len(self.ended) == len(self.tasks)

    @property
    def cells(self) -> tuple[int, int]:
        """(cells whose tasks are all done, cells)."""
        every = {task.cell for task in self.tasks if task.cell is not None}
        done = {key for key, ended in self.ended.items() if ended.done}
        open_cells = {task.cell for task in self.tasks if task.key not in done}
        return len(every - open_cells), len(every)

    def summary(self) -> dict[str, Any]:
        """Counts, for display and for JSON."""
        cells_done, cells = self.cells
        return {
            "sweep": self.name,
            "cells": cells,
            "cells_done": cells_done,
            "tasks": len(self.tasks),
            "done": self.done,
            "failed": len(self.failures),
            "running": len(self.running),
            "waiting": len(self.tasks) - len(self.ended) - len(self.running),
            "queued": self.queued,
            "backend": self.backend,
            "protocol": self.protocol,
        }

    @property
    def queued(self) -> bool | None:
        """Whether unfinished tasks are queued or running; None if the scheduler does not respond."""
        return self.standing.queued


def standing(backend: str, store: Store, sweep: str, tasks: Set[str]) -> Standing:
    """Ask a backend about a sweep's unfinished tasks; unknown if the backend is not installed."""
    try:
        member = family.get(backend)
    except UnknownName as error:
        return Standing(None if tasks else False, (f"{sweep}: {error}",))
    return member.status(store, sweep, tasks)


def _protocol(store: Store, tasks: list[SweepEntry]) -> int | None:
    """The protocol of the first task; all tasks have the same."""
    try:
        return store.task(tasks[0].key).protocol if tasks else None
    except StoreError:
        return None


def refuse_unfinished(store: Store) -> None:
    """StoreError if a sweep of the store is running or queued."""
    for name in store.sweep_names():
        progress = Progress.of(store, name)
        # None: a scheduler that does not respond may hold tasks that need these files.
        if progress.running or progress.queued is not False:
            raise StoreError(
                f"sweep '{name}' is running or queued: wait for it, or `privbench cancel {name}`, then purge"
            )
