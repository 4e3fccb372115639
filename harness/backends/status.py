"""How far the sweeps of a store are: read from results, heartbeats and the scheduler's word."""

from dataclasses import dataclass, field

from harness.backends.base import sent_backend
from harness.backends.local.backend import submissions, supervised, supervisor_state
from harness.backends.slurm import backend as slurm
from harness.spec import Json
from harness.store import Store, beat
from workloads.errors import StoreError

TOLD = ("key", "kind", "status", "reason", "message", "warnings", "audit", "phases")
"""What is kept of a result: curves and metrics of a hundred thousand would fill gigabytes."""


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
    tasks: list[Json]
    backend: str = "local"
    scheduler: list[Json] | None = None
    """SLURM's words on what is open; None where it was not asked or does not answer."""
    protocol: int | None = None
    """The one its tasks were planned under; None where no spec tells."""
    ended: dict[str, Json] = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)

    @classmethod
    def of(cls, store: Store, name: str) -> "Progress":
        """The progress of a sweep that was enqueued."""
        content = store.sweep(name)
        progress = cls(store, name, content["tasks"], sent_backend(content))
        progress.protocol = _protocol(store, content["tasks"])
        progress.look()
        if progress.backend == "slurm" and not progress.over:
            progress.scheduler = slurm.summary(store, progress.open)
            progress.look()  # it may have told of jobs that are gone
        return progress

    def look(self) -> list[Json]:
        """Read what is new; the results that have come since the last look."""
        new = []
        self.running = []
        for task in self.tasks:
            key = task["key"]
            if key in self.ended:
                continue
            result = self.store.result(key, summed=False)
            if result is not None:
                self.ended[key] = {name: result[name] for name in TOLD if name in result}
                new.append(self.ended[key])
            elif (word := beat(self.store.folder(key))) is not None:
                label = self.store.spec(key)["notes"]["label"]
                running = Running(key, label, word["phase"], word["done"], word["total"])
                self.running.append(running)
        return new

    @property
    def done(self) -> int:
        """Tasks with a good result."""
        return sum(result["status"] == "done" for result in self.ended.values())

    @property
    def open(self) -> set[str]:
        """Tasks without a result."""
        return {task["key"] for task in self.tasks} - self.ended.keys()

    @property
    def failures(self) -> list[Json]:
        """Results of tasks that failed."""
        return [result for result in self.ended.values() if result["status"] == "failed"]

    @property
    def warnings(self) -> dict[str, list[str]]:
        """What tasks warned of: every different text, with the keys of its tasks."""
        found: dict[str, list[str]] = {}
        for key, result in self.ended.items():
            for text in result.get("warnings", ()):
                found.setdefault(text, []).append(key)
        return found

    @property
    def alarms(self) -> dict[str, str]:
        """What audits proved above the price, by workload, cell and audit: no alarm hides another."""
        found = {}
        for key, result in self.ended.items():
            if (result.get("audit") or {}).get("alarm"):
                spec = self.store.spec(key)
                task, label = spec["task"], spec["notes"]["label"]
                name = f"{task['workload']['name']}, {label}, {task['attack']['name']}"
                found[name] = result["audit"]["message"]
        return found

    @property
    def over(self) -> bool:
        """Whether every task has ended."""
        return len(self.ended) == len(self.tasks)

    @property
    def cells(self) -> tuple[int, int]:
        """(cells whose tasks are all done, cells)."""
        open_cells = {
            task["cell"] for task in self.tasks if self.ended.get(task["key"], {}).get("status") != "done"
        }
        every = {task["cell"] for task in self.tasks}
        return len(every - open_cells), len(every)

    def summary(self) -> Json:
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
        if self.backend != "slurm":
            return bool(submissions(self.store, self.name))
        if self.over:
            return False
        return None if self.scheduler is None else bool(self.scheduler)


def _protocol(store: Store, tasks: list[Json]) -> int | None:
    """Of the first task: a plan makes all of its tasks under one protocol."""
    try:
        return int(store.spec(tasks[0]["key"])["task"]["protocol"]) if tasks else None
    except (StoreError, KeyError, TypeError, ValueError, OverflowError):
        return None


def supervisor_summary(store: Store) -> Json:
    """Whether a supervisor lives here, and what it said last."""
    return {"alive": supervised(store), **(supervisor_state(store) or {})}


def refuse_unfinished(store: Store) -> None:
    """StoreError while a sweep of the store is running or queued."""
    for name in store.sweep_names():
        progress = Progress.of(store, name)
        # None: a scheduler that does not answer may have tasks that will want these files.
        if progress.running or progress.queued is not False:
            raise StoreError(
                f"sweep '{name}' is running or queued: wait for it, or `privbench cancel {name}`, then purge"
            )
