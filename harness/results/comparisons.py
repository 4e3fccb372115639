"""Paired comparisons of the cells of a workload: the table behind the view `comparison`.

Models of equal index have the same members in every cell of a workload, so differences are paired. The
family of Holm's correction is all pairs of an axis, because the best cell is chosen on the same models.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from safetensors.numpy import load

import db
from harness.leakage import comparison
from harness.leakage.candidates import FAMILY, Candidates
from harness.leakage.comparison import Comparison, Measured
from harness.leakage.declared import Signals, score_strongest
from harness.leakage.influence import Scored
from harness.leakage.intervals import scored_apart
from harness.leakage.matrices import Bools
from harness.results.rows import TABLES, Row, to_arrow
from harness.store.imports import Origin
from workloads.errors import StoreError

log = logging.getLogger(__name__)

MOST_CELLS = 40
"""The largest group that is compared: 780 pairs. The cells of larger ones are settings, not methods."""
ACCURACIES = {"accuracy": "test_accuracy", "validation_accuracy": "nonmember_accuracy"}
"""Axis to the column of a trained model."""
LEAKAGES = {"auc": "auc", "tpr_at_10pct": "0.1", "tpr_at_1pct": "0.01"}
"""Axis to the name of the figure in harness.leakage."""
STRONGEST = "strongest"

CELLS = """
    select distinct
        cell, origin, protocol, workload, workload_version, n_train, seed,
        coalesce(canary, '') as canary, canaries, coalesce(canary_version, '')
    from frontier
    where chosen and coalesce(valid, false)
"""
RUNS = "select cell, index, task, test_accuracy, nonmember_accuracy from model_run order by cell, index"
ATTACKS = f"""
    select cell, attack_task as task, models from frontier where attack = '{STRONGEST}'
"""


class Group(NamedTuple):
    """Cells whose models of equal index have the same members."""

    origin: str
    protocol: int
    workload: str
    workload_version: str
    n_train: int
    seed: int
    canary: str
    canaries: int
    canary_version: str


def write_comparisons(connection: sa.Connection, origins: Iterable[Origin]) -> None:
    """Rebuild the table `comparison_result` from the cells in the database."""
    groups: dict[Group, list[str]] = defaultdict(list)
    for cell, *names in connection.exec_driver_sql(CELLS):
        groups[Group(*names)].append(cell)
    accuracies, trainings = _accuracies(connection)
    attacks = {cell: (task, models) for cell, task, models in connection.exec_driver_sql(ATTACKS)}
    stores = {origin.name: origin for origin in origins}
    rows: list[Row] = []
    for group, cells in sorted(groups.items()):
        if 2 <= len(cells) <= MOST_CELLS:
            scores = Scores(stores[group.origin], attacks, trainings, group.canaries)
            rows += _compared(sorted(cells), accuracies, scores)
    connection.execute(sa.delete(TABLES["comparison_result"]))
    if rows:
        db.insert_arrow(connection, TABLES["comparison_result"], to_arrow("comparison_result", rows))


Accuracies = dict[tuple[str, str], dict[int, float]]
Trainings = dict[str, dict[int, str]]


def _accuracies(connection: sa.Connection) -> tuple[Accuracies, Trainings]:
    """(axis, cell) to the accuracies of its models by index, and cell to their tasks."""
    found: Accuracies = defaultdict(dict)
    trainings: Trainings = defaultdict(dict)
    for cell, index, task, *values in connection.exec_driver_sql(RUNS):
        trainings[cell][index] = task
        for axis, value in zip(ACCURACIES, values, strict=True):
            if value is not None:
                found[axis, cell][index] = value
    return found, trainings


def _compared(
    cells: list[str], accuracies: Mapping[tuple[str, str], Mapping[int, float]], scores: "Scores"
) -> Iterator[Row]:
    pairs = list(combinations(cells, 2))
    for axis in ACCURACIES:
        found = [
            _accuracy(accuracies.get((axis, one), {}), accuracies.get((axis, two), {})) for one, two in pairs
        ]
        errors = [scores.test_se(one, two) if axis == "accuracy" else None for one, two in pairs]
        yield from _rows(axis, None, pairs, found, errors)
    for axis, figure in LEAKAGES.items():
        found = [_leakage(one, two, figure, scores) for one, two in pairs]
        yield from _rows(axis, STRONGEST, pairs, found, [None] * len(pairs))


def _accuracy(first: Mapping[int, float], second: Mapping[int, float]) -> Comparison:
    common = sorted(first.keys() & second.keys())
    return comparison.paired_accuracy(
        np.array([first[index] for index in common]), np.array([second[index] for index in common])
    )


def _leakage(one: str, two: str, figure: str, scores: "Scores") -> Comparison:
    """Over the models that both cells were attacked with; a cell with more is rescored with those."""
    common = min(scores.models(one), scores.models(two))
    first, second = scores.measure(one, common, figure), scores.measure(two, common, figure)
    if isinstance(first, str) or isinstance(second, str):
        return Comparison(0, reason=first if isinstance(first, str) else str(second))
    return comparison.paired_strongest(first, second)


def _rows(
    axis: str,
    attack: str | None,
    pairs: list[tuple[str, str]],
    found: list[Comparison],
    test_errors: list[float | None],
) -> Iterator[Row]:
    adjusted = comparison.holm([each.p for each in found])
    for (cell, other), each, p_holm, test_se in zip(pairs, found, adjusted, test_errors, strict=True):
        yield {
            "axis": axis,
            "cell": cell,
            "other": other,
            "attack": attack,
            "pairs": len(pairs),
            "p_holm": p_holm,
            "accuracy_test_se": test_se,
            **vars(each),
        }


class Scores:
    """The scores of attack `strongest` and the signals of a group in a store, a cell at a time."""

    def __init__(
        self, origin: Origin, attacks: Mapping[str, tuple[str, int]], trainings: Trainings, canaries: int
    ) -> None:
        self.origin, self.attacks, self.trainings, self.canaries = origin, attacks, trainings, canaries
        self._figures: dict[tuple[str, int], dict[str, Measured] | str] = {}
        self._correct: dict[str, Bools] = {}

    def models(self, cell: str) -> int:
        """The number of attacked models of the cell."""
        return self.attacks[cell][1] if cell in self.attacks else 0

    def measure(self, cell: str, models: int, figure: str) -> Measured | str:
        """A figure of a cell over its first models; the reason as text if there is none."""
        if (cell, models) not in self._figures:
            self._figures[cell, models] = self._measure(cell, models)
        found = self._figures[cell, models]
        return found if isinstance(found, str) else found[figure]

    def test_se(self, one: str, two: str) -> float | None:
        """The standard error over test records of a difference of accuracies; None if they are missing."""
        for cell in (one, two):
            self.measure(cell, self.models(cell), "auc")
        first, second = self._correct.get(one), self._correct.get(two)
        if first is None or second is None or first.shape[1] != second.shape[1]:
            return None
        common = min(len(first), len(second))
        return comparison.accuracy_test_se(first[:common], second[:common])

    def _measure(self, cell: str, models: int) -> dict[str, Measured] | str:
        """All figures at once, so that the scores of one cell are in memory at a time."""
        if cell not in self.attacks:
            return f"the cell has no result of attack {STRONGEST}: rerun its sweep"
        task, attacked = self.attacks[cell]
        try:
            stored = self._read(task) if models == attacked else self._rescored(cell, task, models)
        except (StoreError, KeyError, ValueError) as error:
            return f"its scores are missing: {error}"
        if "correct" in stored:
            self._correct[cell] = stored["correct"]
        if any(f"scores/{name}" not in stored for name in FAMILY):
            return "too few models for the declared attacks"
        own = slice(stored["members"].shape[1] - self.canaries)
        members, aside = stored["members"][:, own], stored.get("set_aside")
        evaluated = None if aside is None else ~aside[:, own]
        candidates = Candidates.of(
            {name: stored[f"scores/{name}"][:, own] for name in FAMILY}, members, evaluated
        )
        apart = {}
        for name, dependence in FAMILY.items():
            half = stored.get(f"half/{name}")
            scored: Scored = candidates.scored[name]
            found = scored_apart(None if half is None else half[:, own], scored, dependence)
            if found is not None:
                apart[name] = found
        return {
            figure: comparison.measure_strongest(figure, candidates, apart) for figure in LEAKAGES.values()
        }

    def _read(self, task: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = load(self._artefact(task, "scores"))
        return found

    def _rescored(self, cell: str, task: str, models: int) -> Mapping[str, Any]:
        """The declared attacks on the first models only, shadows too, from their stored signals."""
        if self.origin.store.task(_key(task)).shadows:
            raise StoreError("its shadows are of another cell: attack both with equally many models")
        tasks = [self.trainings[cell][index] for index in range(models)]
        read = [load(self._artefact(each, "signals")) for each in tasks]
        signals = {name: np.stack([each[name] for each in read]) for name in read[0]}
        return score_strongest(Signals.of(signals))

    def _artefact(self, task: str, name: str) -> bytes:
        result = self.origin.store.result(_key(task))
        if result is None:
            raise StoreError(f"task {_key(task)} has no result")
        return self.origin.store.read_artefact(result, name)


def _key(task: str) -> str:
    """The key of a task in its own store, without the name it was imported under."""
    return task.rpartition(":")[2]
