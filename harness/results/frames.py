"""Results as pandas data frames, for notebooks: `privbench.open_store`."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load

from harness.results.collect import Collected, collect
from harness.results.query import Source, is_url, query
from harness.results.table import QueryResult
from harness.store import Store
from harness.store.imports import find_task
from harness.store.result import Result
from workloads.errors import SpecError, StoreError

if TYPE_CHECKING:
    import pandas as pd


def open_store(source: Source = "privbench-store") -> "Results":
    """The results of a store, or of a database by its URL, as data frames."""
    return Results(source)


class Results:
    """The results of a store. Every view is a method; `where` is an SQL condition on its columns.

    Columns of JSON come as Python values, missing numbers as NaN. Only `collect` writes.
    """

    def __init__(self, source: Source) -> None:
        """Take a store's folder, which must exist, or a database's URL."""
        self.source: Source = source if is_url(source) else Store.open(source).path

    def query(self, sql: str) -> "pd.DataFrame":
        """The result of one read-only statement, like `privbench query`."""
        return _frame(query(self.source, sql))

    def collect(self) -> Collected:
        """Update the store's database from its results."""
        return collect(self._store.path)

    def frontier(self, where: str | None = None) -> "pd.DataFrame":
        """Accuracy, leakage, guarantee and cost: a row per cell and attack."""
        return self._view("frontier", where)

    def comparison(self, where: str | None = None) -> "pd.DataFrame":
        """Paired differences: a row per axis and pair of cells."""
        return self._view("comparison", where)

    def tried(self, where: str | None = None) -> "pd.DataFrame":
        """How many configurations were trained: a row per method at equal privacy."""
        return self._view("tried", where)

    def search(self, where: str | None = None) -> "pd.DataFrame":
        """What tunes tried and chose: a row per tune, workload, method and level."""
        return self._view("search", where)

    def trial(self, where: str | None = None) -> "pd.DataFrame":
        """A row per configuration that a tune tried."""
        return self._view("trial", where)

    def runs(self, where: str | None = None) -> "pd.DataFrame":
        """A row per trained model."""
        return self._view("runs", where)

    def overhead(self, where: str | None = None) -> "pd.DataFrame":
        """The cost of training relative to the plain baseline: a row per cell and kind of machine."""
        return self._view("overhead", where)

    def bench(self, where: str | None = None) -> "pd.DataFrame":
        """Steps interleaved with the plain baseline's: a row per bench and method."""
        return self._view("bench", where)

    def audit(self, where: str | None = None) -> "pd.DataFrame":
        """Lower bounds on epsilon from canaries."""
        return self._view("audit", where)

    def attribute(self, where: str | None = None) -> "pd.DataFrame":
        """The accuracy of attribute inference."""
        return self._view("attribute", where)

    def reconstruction(self, where: str | None = None) -> "pd.DataFrame":
        """The quality of members' pictures reconstructed from gradients."""
        return self._view("reconstruction", where)

    def reproduction(self, where: str | None = None) -> "pd.DataFrame":
        """Published numbers next to ours."""
        return self._view("reproduction", where)

    def baseline(self, where: str | None = None) -> "pd.DataFrame":
        """Cells of the private baseline next to the best published line on the same data."""
        return self._view("baseline", where)

    def failures(self, where: str | None = None) -> "pd.DataFrame":
        """Tasks that ended without a result, with the reason."""
        return self._view("failures", where)

    def forgotten(self, where: str | None = None) -> "pd.DataFrame":
        """What `privbench forget` took out of the other frames, and why."""
        return self._view("forgotten", where)

    def conflicts(self, where: str | None = None) -> "pd.DataFrame":
        """Figures of imported tasks that differ from ours of the same task."""
        return self._view("conflicts", where)

    def steps(self, task: str) -> "pd.DataFrame":
        """Every step of one training, by its key or a prefix of it."""
        origin, key = find_task(self._store, task)
        frame = self.query(f"select * from steps where task = '{origin.key(key)}' order by phase, step")
        return frame.dropna(axis="columns", how="all")  # clocks and values of other trainings only

    def roc(self, task: str) -> "pd.DataFrame":
        """The receiver operating characteristic of one attack: `fpr` and `tpr`."""
        _, result = self._result(task)
        if not result.figures.get("roc"):
            raise StoreError(f"task {task} has no ROC: give the attack_task of a row of the frontier")
        return _pandas().DataFrame(result.figures["roc"])

    def scores(self, task: str) -> "pd.DataFrame":
        """An attack's score of every record for every target, and whether it was a member.

        Without members that a target's method set aside, which do not count. Of an attack that chooses among
        several, such as `strongest`, the scores of each, named in a column `attack`.
        """
        store, result = self._result(task)
        if "scores" not in result.artefacts:
            raise StoreError(f"task {task} has no scores: give the attack_task of a row of the frontier")
        kept = load(store.read_artefact(result, "scores"))
        parts = {name: scores for name, scores in kept.items() if name.partition("/")[0] == "scores"}
        if not parts:
            raise StoreError(f"task {task} has no scores: its metrics say why they could not be measured")
        frames = [self._scores(name.partition("/")[2], scores, kept) for name, scores in parts.items()]
        return _pandas().concat(frames, ignore_index=True)

    def _scores(self, attack: str, scores: Any, kept: Mapping[str, Any]) -> "pd.DataFrame":
        """One row per target and record."""
        target, record = np.indices(scores.shape).reshape(2, -1)
        columns = {"target": target, "record": record, "score": scores.ravel()}
        frame = _pandas().DataFrame({**columns, "member": kept["members"].ravel()})
        if attack:
            frame.insert(0, "attack", attack)
        if "set_aside" not in kept:  # an older attack, or no record set aside
            return frame
        return frame[~kept["set_aside"].ravel()]

    @property
    def _store(self) -> Store:
        if is_url(self.source):
            raise SpecError("this is in a store's files, not in a database: open the store instead")
        return Store.open(self.source)

    def _result(self, task: str) -> tuple[Store, Result]:
        origin, key = find_task(self._store, task)
        found = origin.store.result(key)
        if found is None:
            raise StoreError(f"task {task} has no result yet: see `privbench status`")
        return origin.store, found

    def _view(self, name: str, where: str | None) -> "pd.DataFrame":
        return self.query(f"select * from {name}" + (f" where ({where}\n)" if where else ""))


def _frame(result: QueryResult) -> "pd.DataFrame":
    _pandas()
    frame = result.arrow.to_pandas()
    for name in result.json_columns:
        frame[name] = [None if text is None else json.loads(text) for text in result.arrow[name].to_pylist()]
    return frame


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError as error:
        raise SpecError("data frames need pandas: pip install 'privbench[notebook]'") from error
    return pd
