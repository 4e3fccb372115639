"""How far the sweeps of a store are: read from results, heartbeats and what their backend reports."""

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
    """What is kept of a result: curves and metrics of a hundred thousand would fill gigabytes."""

    key: str
    kind: Kind
    done: bool
    reason: str | None
    message: str | None
    warnings: tuple[str, ...]
    alarm: str | None
    """What an audit proved above the price."""
    steps: int
    """Of a training, over its phases."""

    @classmethod
    def of(cls, result: Result) -> "Ended":
        """The rest of a result is let go."""
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
    """A task in progress, as its heartbeat tells."""

    key: str
    label: str
    phase: str
    done: int
    total: int


@dataclass
class Progress:
    """One sweep's tasks by state. Call `look` to see what has changed since."""

    store: Store
    name: str
    tasks: list[SweepEntry]
    backend: str = DEFAULT
    standing: Standing = UNASKED
    """What the backend reported when the sweep was last asked for."""
    protocol: int | None = None
    """The one its tasks were planned under; None where no spec tells."""
    ended: dict[str, Ended] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)

    @classmethod
    def of(cls, store: Store, name: str) -> "Progress":
        """The progress of a sweep that was enqueued."""
        content = store.sweep(name)
        progress = cls(store, name, content.tasks, sent_backend(content))
        progress.protocol = _protocol(store, content.tasks)
        progress.look()
        progress.standing = standing(progress.backend, store, name, progress.open)
        if not progress.over:
            progress.look()  # the backend may have given rows to tasks whose process is gone
        return progress

    def look(self) -> list[Ended]:
        """Read what is new; the results that have come since the last look."""
        new = []
        self.running = []
        for task in self.tasks:
            key = task.key
            if key in self.ended:
                continue
            result = self.store.result(key, summed=False)
            if result is not None:
                self.ended[key] = Ended.of(result)
                new.append(self.ended[key])
            elif (beat := heartbeat(self.store.folder(key))) is not None:
                label = self.store.task(key).label
                self.running.append(Running(key, label, beat.phase, beat.done, beat.total))
        if new and self.over:
            self.standing = replace(self.standing, queued=False)  # nothing is left to be in hand
        return new

    @property
    def done(self) -> int:
        """Tasks with a good result."""
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
        """What tasks warned of: every different text, with the keys of its tasks."""
        found: dict[str, list[str]] = {}
        for key, ended in self.ended.items():
            for text in ended.warnings:
                found.setdefault(text, []).append(key)
        return found

    @property
    def alarms(self) -> dict[str, str]:
        """What audits proved above the price, by workload, cell and audit: no alarm hides another."""
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
        """Counts for people and programs."""
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
        """Whether somebody has open tasks in hand; None where the one to ask does not answer."""
        return self.standing.queued


def standing(backend: str, store: Store, sweep: str, tasks: Set[str]) -> Standing:
    """What a backend reports of a sweep's open tasks; no answer where it is not installed here."""
    try:
        member = family.get(backend)
    except UnknownName as error:
        return Standing(None if tasks else False, (f"{sweep}: {error}",))
    return member.status(store, sweep, tasks)


def _protocol(store: Store, tasks: list[SweepEntry]) -> int | None:
    """Of the first task: a plan makes all of its tasks under one protocol."""
    try:
        return store.task(tasks[0].key).protocol if tasks else None
    except StoreError:
        return None


def refuse_unfinished(store: Store) -> None:
    """StoreError while a sweep of the store is running or queued."""
    for name in store.sweep_names():
        progress = Progress.of(store, name)
        # None: a scheduler that does not answer may have tasks that will want these files.
        if progress.running or progress.queued is not False:
            raise StoreError(
                f"sweep '{name}' is running or queued: wait for it, or `privbench cancel {name}`, then purge"
            )
