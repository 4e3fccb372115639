"""How long the unfinished tasks of a sweep will take, from its ended and running ones. Loads no torch."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.plan.estimate import PastTraining, Recorded, asked_steps
from harness.spec import Cell
from harness.store import Store
from harness.store.journal import Heartbeat, SweepEntry
from workloads.errors import StoreError

MOST_CELLS = 200
"""Cells whose specs are read to compare trainings; the others take the median of all."""


class Spent(NamedTuple):
    """The run time of an ended task."""

    seconds: float
    steps_seconds: float
    """Inside the steps of a training."""


@dataclass(frozen=True)
class Remaining:
    """The time until a sweep has ended."""

    seconds: float | None
    """None if it is unknown."""
    reason: str | None = None
    """Why it is unknown."""


def phase_seconds(pulse: Heartbeat) -> float | None:
    """Time left in the current phase of a running task, at the pace since this process began the phase."""
    if pulse.phase_started is None or pulse.done <= pulse.phase_done:
        return None
    each = max(0.0, pulse.time - pulse.phase_started) / (pulse.done - pulse.phase_done)
    return each * max(0, pulse.total - pulse.done)


def task_seconds(pulse: Heartbeat, usual: float | None) -> float | None:
    """Time left of a running task: that of its phase, or of its usual run time if that is longer."""
    elapsed = 0.0 if pulse.started is None else max(0.0, pulse.time - pulse.started)
    rest = None if usual is None or pulse.started is None else max(0.0, usual - elapsed)
    known = [each for each in (phase_seconds(pulse), rest) if each is not None]
    return max(known, default=None)


class Costs:
    """Run times of a sweep's tasks, learned from those that have ended.

    Args:
        store: The store, for specs of cells and of attacks that never ended.
        tasks: Of the sweep; those of a cell come in the same order in every cell.
        spent: Run times of tasks that are done, by key.
    """

    def __init__(self, store: Store, tasks: Sequence[SweepEntry], spent: Mapping[str, Spent]) -> None:
        self.store, self.spent = store, spent
        self.place = _places(tasks)
        """(kind, position among the attacks of its cell) by key; a training has position 0."""
        self.trainings: dict[str, list[Spent]] = defaultdict(list)
        self.attacks: dict[tuple[str, int], list[float]] = defaultdict(list)
        self._representative: dict[str, str] = {}
        self._assumed: dict[tuple[str, int], float | None] = {}
        self._cells: dict[str, float | None] = {}
        for task in tasks:
            if task.kind == "train" and task.cell is not None:
                self._representative.setdefault(task.cell, task.key)
                if task.key in spent:
                    self.trainings[task.cell].append(spent[task.key])
            elif task.key in spent:
                self.attacks[self.place[task.key]].append(spent[task.key].seconds)
        self._recorded = self._read()

    def of(self, task: SweepEntry) -> float | None:
        """The usual run time of a task; None if no similar one has ended."""
        if task.kind == "train" and task.cell is not None:
            if task.cell not in self._cells:
                self._cells[task.cell] = self._training(task.cell)
            return self._cells[task.cell]
        where = self.place[task.key]
        if where in self.attacks:
            return statistics.median(self.attacks[where])
        if where not in self._assumed:
            self._assumed[where] = self._from_spec(task.key)
        return self._assumed[where]

    def _training(self, cell: str) -> float | None:
        if cell in self.trainings:
            return statistics.median(each.seconds for each in self.trainings[cell])
        if not self.trainings:
            return None
        asked = self._cell(cell) if len(self._cells) < MOST_CELLS else None
        usual = self._recorded.usual(asked) if asked else None
        if asked and usual:
            return usual.cost(asked).seconds
        return statistics.median(each.seconds for rows in self.trainings.values() for each in rows)

    def _read(self) -> Recorded:
        """The ended trainings, as estimates of plans take them."""
        recorded = Recorded()
        for key in list(self.trainings)[:MOST_CELLS]:
            if (cell := self._cell(key)) is not None:
                rows = recorded.trainings[cell.workload.name, cell.method.name]
                for each in self.trainings[key]:
                    inside, other = each.steps_seconds, max(0.0, each.seconds - each.steps_seconds)
                    rows.append(PastTraining(cell, inside / asked_steps(cell.params), other, 0))
        return recorded

    def _cell(self, key: str) -> Cell | None:
        try:
            return self.store.task(self._representative[key]).cell
        except (StoreError, KeyError):
            return None

    def _from_spec(self, key: str) -> float | None:
        try:
            cost = Recorded().cost(self.store.task(key))
        except StoreError:
            return None
        return cost.seconds if cost else None


def _places(tasks: Iterable[SweepEntry]) -> dict[str, tuple[str, int]]:
    counts: dict[str | None, int] = defaultdict(int)
    places: dict[str, tuple[str, int]] = {}
    for task in tasks:
        if task.kind != "train":
            counts[task.cell] += 1
        places[task.key] = (task.kind, 0 if task.kind == "train" else counts[task.cell])
    return places


def remaining(running: Mapping[str, float | None], waiting: Iterable[float | None], slots: int) -> Remaining:
    """The time until running and waiting tasks have ended on so many slots.

    Args:
        running: Time left of every running task, by key.
        waiting: Run times of the others.
        slots: Tasks at a time.
    """
    left = [*running.values(), *waiting]
    known = [each for each in left if each is not None]
    if len(known) < len(left):
        return Remaining(None, "unknown until a similar task has ended")
    longest = max((each for each in running.values() if each is not None), default=0.0)
    return Remaining(max(longest, sum(known) / max(1, slots)))
