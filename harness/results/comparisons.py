"""Paired comparisons of the cells of a workload: the table behind the view `comparison`.

Models of equal number have the same members in every cell of a workload, so differences are paired. The
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
from harness.leakage.influence import Scored
from harness.leakage.intervals import scored_apart
from harness.results.rows import TABLES, to_arrow
from harness.spec import Json
from harness.store.imports import Origin
from workloads.errors import StoreError

log = logging.getLogger(__name__)

MOST_CELLS = 40
"""Of a group that is compared: 780 pairs. The cells of larger ones are settings, not methods."""
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
RUNS = "select cell, index, test_accuracy, nonmember_accuracy from model_run order by cell, index"
ATTACKS = f"""
    select cell, attack_task as task, models from frontier where attack = '{STRONGEST}'
"""


class Group(NamedTuple):
    """Cells whose models of equal number have the same members."""

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
    """Make the table `comparison_result` from the cells that the database holds now."""
    groups: dict[Group, list[str]] = defaultdict(list)
    for cell, *names in connection.exec_driver_sql(CELLS):
        groups[Group(*names)].append(cell)
    accuracies = _accuracies(connection)
    attacks = {cell: (task, models) for cell, task, models in connection.exec_driver_sql(ATTACKS)}
    stores = {origin.name: origin for origin in origins}
    rows: list[Json] = []
    for group, cells in sorted(groups.items()):
        if 2 <= len(cells) <= MOST_CELLS:
            scores = Scores(stores[group.origin], attacks, group.canaries)
            rows += _compared(sorted(cells), accuracies, scores)
    connection.execute(sa.delete(TABLES["comparison_result"]))
    if rows:
        db.insert_arrow(connection, TABLES["comparison_result"], to_arrow("comparison_result", rows))


def _accuracies(connection: sa.Connection) -> dict[tuple[str, str], dict[int, float]]:
    """(axis, cell) to the accuracies of its models by index."""
    found: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for cell, index, *values in connection.exec_driver_sql(RUNS):
        for axis, value in zip(ACCURACIES, values, strict=True):
            if value is not None:
                found[axis, cell][index] = value
    return found


def _compared(
    cells: list[str], accuracies: Mapping[tuple[str, str], Mapping[int, float]], scores: "Scores"
) -> Iterator[Json]:
    pairs = list(combinations(cells, 2))
    for axis in ACCURACIES:
        found = [
            _accuracy(accuracies.get((axis, one), {}), accuracies.get((axis, two), {})) for one, two in pairs
        ]
        yield from _rows(axis, None, pairs, found)
    for axis, figure in LEAKAGES.items():
        measured = {cell: scores.measure(cell, figure) for cell in cells}
        found = [_leakage(measured[one], measured[two]) for one, two in pairs]
        yield from _rows(axis, STRONGEST, pairs, found)


def _accuracy(first: Mapping[int, float], second: Mapping[int, float]) -> Comparison:
    common = sorted(first.keys() & second.keys())
    return comparison.paired_accuracy(
        np.array([first[index] for index in common]), np.array([second[index] for index in common])
    )


def _leakage(first: Measured | str, second: Measured | str) -> Comparison:
    if isinstance(first, str) or isinstance(second, str):
        return Comparison(0, reason=first if isinstance(first, str) else str(second))
    if first.models != second.models:
        why = f"attacked with {first.models} and {second.models} models: attack both with the same number"
        return Comparison(min(first.models, second.models), reason=why)
    return comparison.paired_strongest(first, second)


def _rows(
    axis: str, attack: str | None, pairs: list[tuple[str, str]], found: list[Comparison]
) -> Iterator[Json]:
    adjusted = comparison.holm([each.p for each in found])
    for (cell, other), each, p_holm in zip(pairs, found, adjusted, strict=True):
        yield {
            "axis": axis,
            "cell": cell,
            "other": other,
            "attack": attack,
            "pairs": len(pairs),
            "p_holm": p_holm,
            **vars(each),
        }


class Scores:
    """The scores that the attack `strongest` left in a store, a cell at a time."""

    def __init__(self, origin: Origin, attacks: Mapping[str, tuple[str, int]], canaries: int) -> None:
        self.origin, self.attacks, self.canaries = origin, attacks, canaries
        self._figures: dict[str, dict[str, Measured] | str] = {}

    def measure(self, cell: str, figure: str) -> Measured | str:
        """A figure of a cell; why there is none, as text."""
        if cell not in self._figures:
            self._figures[cell] = self._measure(cell)
        found = self._figures[cell]
        return found if isinstance(found, str) else found[figure]

    def _measure(self, cell: str) -> dict[str, Measured] | str:
        """All figures at once, so that the scores of one cell are in memory at a time."""
        if cell not in self.attacks:
            return f"the cell has no result of attack {STRONGEST}: run its sweep again"
        try:
            stored = self._read(self.attacks[cell][0])
        except (StoreError, KeyError, ValueError) as error:
            return f"its scores are not at hand: {error}"
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
        key = task.rpartition(":")[2]
        result = self.origin.store.result(key)
        if result is None:
            raise StoreError(f"task {key} has no result")
        found: Mapping[str, Any] = load(self.origin.store.read_artefact(result, "scores"))
        return found
