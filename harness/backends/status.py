"""Progress of sweeps, from results, heartbeats and the report of their backend."""

import contextlib
from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import Any

from harness.backends import DEFAULT, family
from harness.backends.base import Standing
from harness.backends.remaining import Costs, Remaining, Spent, remaining, task_seconds
from harness.backends.sent import sent_backend, sent_settings
from harness.spec import Kind, Task, epochs_of
from harness.store import Store, heartbeat
from harness.store.journal import Heartbeat, SweepEntry, SweepRecord
from harness.store.outcomes import AuditOutcome
from harness.store.result import Result
from workloads.errors import BenchError, StoreError, UnknownName


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
    spent: Spent | None = None
    """The run time of a task that is done."""

    @classmethod
    def of(cls, result: Result) -> "Ended":
        """Summarise a result."""
        alarm, steps, inside = None, 0, 0.0
        with contextlib.suppress(ValueError):  # a failure, or an outcome of another shape
            if result.kind == "train":
                steps = sum(phase.steps for phase in result.training.phases.values())
                inside = sum(phase.seconds for phase in result.training.phases.values())
            elif "audit" in result.figures:  # others are not read: a ROC would take as long as the file
                alarm = _alarm(result)
        warnings = tuple(result.warnings)
        head = (result.key, result.kind, result.done, result.reason, result.message)
        spent = Spent(result.wall_seconds, inside) if result.done and result.wall_seconds else None
        return cls(*head, warnings, alarm, steps, spent)


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
    kind: Kind = "train"
    workload: str = ""
    attack: str | None = None
    seconds: float | None = None
    """Since this process began it; None if its heartbeat does not state it."""
    remaining_seconds: float | None = None
    """None if it is unknown."""
    epochs: float | None = None
    """Of all steps of this phase, if it is as long as the training's steps."""

    @property
    def what(self) -> str:
        """The task for display: its attack or index, workload and method."""
        if self.kind == "bench":
            return self.label
        return f"{self.attack or 'training'} of {self.workload}, {self.label}"


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
    width: int | None = None
    """Tasks at a time; None if the backend does not know."""
    _costs: tuple[int, Costs] | None = None
    """The costs of tasks, and the number of ended tasks they were learned from."""

    @classmethod
    def of(cls, store: Store, name: str) -> "Progress":
        """The progress of an enqueued sweep."""
        content = store.sweep(name)
        progress = cls(store, name, content.tasks, sent_backend(content))
        progress.protocol = _protocol(store, content.tasks)
        progress.look()
        progress.width = None if progress.over else _width(content)
        progress.standing = standing(progress.backend, store, name, progress.open)
        if not progress.over:
            progress.look()  # the backend may have written failures of tasks whose process is gone
        return progress

    def look(self) -> list[Ended]:
        """Refresh, and return the results that are new since the last call."""
        new = []
        pulses: list[tuple[SweepEntry, Heartbeat]] = []
        for task in self.tasks:
            key = task.key
            if key in self.ended:
                continue
            result = self.store.result(key, verify=False)
            if result is not None:
                self.ended[key] = Ended.of(result)
                new.append(self.ended[key])
            elif (pulse := heartbeat(self.store.folder(key))) is not None:
                pulses.append((task, pulse))
        self.running = [
            _running(self.store.task(task.key), pulse, self.costs.of(task)) for task, pulse in pulses
        ]
        if new and self.over:
            self.standing = replace(self.standing, queued=False)  # no unfinished task is left
        return new

    @property
    def costs(self) -> Costs:
        """Run times learned from ended tasks; learned again when their number has grown by a tenth."""
        count = len(self.ended)
        if self._costs is None or count > 1.1 * self._costs[0]:
            spent = {key: ended.spent for key, ended in self.ended.items() if ended.spent is not None}
            self._costs = count, Costs(self.store, self.tasks, spent)
        return self._costs[1]

    @property
    def remaining(self) -> Remaining:
        """The time until the sweep has ended."""
        if self.over:
            return Remaining(0.0)
        if not self.running and self.queued is False:
            return Remaining(None, "nothing runs or is queued")
        running = {task.key: task.remaining_seconds for task in self.running}
        waiting = [task for task in self.tasks if task.key not in self.ended and task.key not in running]
        slots = max(len(running), self.width or 0)
        return remaining(running, [self._usual(task) for task in waiting], slots)

    def _usual(self, task: SweepEntry) -> float | None:
        """The run time of a task; before any training has ended, that of the longest running one."""
        known = self.costs.of(task)
        if known is not None or task.kind != "train":
            return known
        whole = [
            each.seconds + each.remaining_seconds
            for each in self.running
            if each.kind == "train" and each.seconds is not None and each.remaining_seconds is not None
        ]
        return max(whole, default=None)

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
            "remaining_seconds": self.remaining.seconds,
            "queued": self.queued,
            "backend": self.backend,
            "protocol": self.protocol,
        }

    @property
    def queued(self) -> bool | None:
        """Whether unfinished tasks are queued or running; None if the scheduler does not respond."""
        return self.standing.queued


def _running(task: Task, pulse: Heartbeat, usual: float | None) -> Running:
    elapsed = None if pulse.started is None else max(0.0, pulse.time - pulse.started)
    return Running(
        task.key,
        task.label,
        pulse.phase,
        pulse.done,
        pulse.total,
        task.kind,
        task.cell.workload.name,
        task.attack.name if task.attack else None,
        elapsed,
        task_seconds(pulse, usual),
        _epochs(task, pulse),
    )


def _epochs(task: Task, pulse: Heartbeat) -> float | None:
    of_training = task.kind == "train" and pulse.total == task.cell.params.get("steps")
    return epochs_of(task.cell.params, task.cell.n_train) if of_training else None


def _width(sweep: SweepRecord) -> int | None:
    """Tasks at a time of a submitted sweep; None if its backend or its settings are unknown here."""
    try:
        return family.get(sent_backend(sweep)).width(sent_settings(sweep))
    except BenchError:
        return None


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
