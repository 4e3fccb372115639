"""A tune in two stages: all trials, then more models for the best of each study; then its record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version

import methods
import workloads
from harness.jobs.setup import membership
from harness.plan.plan import Plan, plan_resolved
from harness.plan.resolution import Resolution
from harness.plan.sweep_file import Sweep
from harness.plan.tune_table import TuneTable
from harness.spec import Cell, Json, Plugin, Task, spelled
from harness.store import Store
from harness.store.tunes import AxisRecord, SearchRecord, StudyRecord, TrialRecord, TuneRecord
from harness.tuning.choice import choose, find_best
from harness.tuning.scores import Scored, Scores
from harness.tuning.searches import Search, find_searches
from harness.tuning.trials import (
    Tell,
    Trial,
    draw_points,
    refuse_all_failed,
    resolve_recipe,
    resolve_trials,
)
from harness.tuning.tune_warnings import Searched, Study, find_untuned, find_warnings
from methods.search import Axis
from workloads.errors import SpecError

PREFIX = "tune-"
"""Of the name of the sweep that trains the trials."""


@dataclass(frozen=True)
class Tune:
    """A tune with all its trials resolved."""

    name: str
    sweep: Sweep
    """The tuned sweep: its seed is the one that is reported."""
    table: TuneTable
    seed: int
    """Of the first study."""
    searches: Sequence[Search]
    left_out: Sequence[str]
    """Methods that declare nothing to search."""
    points: Sequence[Sequence[Sequence[float]]]
    trials: Sequence[Trial]
    references: Sequence[Trial | None]
    """The workload's own recipe, for each search."""

    @property
    def sweep_name(self) -> str:
        """The sweep of its trainings in the store."""
        return PREFIX + self.name

    @property
    def first_models(self) -> range:
        """Models of every trial."""
        return range(self.table.models)

    @property
    def more_models(self) -> range:
        """Further models of the trials that are confirmed."""
        return range(self.table.models, self.table.models + self.table.confirm)

    @property
    def all_models(self) -> range:
        """Models of a trial that is confirmed."""
        return range(self.table.models + self.table.confirm)

    @cached_property
    def studies(self) -> dict[tuple[str, str, str], list[list[Trial]]]:
        """The trials of each study of each search."""
        found: dict[tuple[str, str, str], list[list[Trial]]] = {
            search.identity: [[] for _ in range(self.table.studies)] for search in self.searches
        }
        for each in self.trials:
            found[each.place.search.identity][each.place.study].append(each)
        return found

    def plan(self, store: Store, confirming: bool) -> Plan:
        """The trainings of the first stage, or of both if the first has ended."""
        tasks = list(self._first())
        if confirming:
            tasks += self._second(Scores(store))
        kept = {task.key: task for task in tasks}
        cells = {task.cell.key: task.cell for task in kept.values()}
        asked = replace(
            self.sweep,
            name=self.sweep_name,
            models=self.table.models,
            attacks=(),
            benches=(),
            recipe=None,
        )
        return plan_resolved(asked, Resolution(tuple(cells.values()), tuple(kept.values())), store)

    def _first(self) -> Iterator[Task]:
        for trial in self.trials:
            yield from trial.tasks(self.first_models)
        for reference in self.references:
            if reference is not None:
                yield from reference.tasks(self.all_models)

    def _second(self, scores: Scores) -> Iterator[Task]:
        for studies in self.studies.values():
            for trials in studies:
                for each in self._best(trials, scores):
                    yield from each.trial.tasks(self.more_models)

    def _best(self, trials: Sequence[Trial], scores: Scores) -> list[Scored]:
        if not self.table.confirm:
            return []
        return find_best([scores.read(each, self.first_models) for each in trials], self.table.max_gap)

    def results(self, store: Store) -> list[Searched]:
        """The scores and choices of every search."""
        scores = Scores(store)
        return [
            Searched(
                search,
                self.table,
                [
                    self._study(number, trials, scores)
                    for number, trials in enumerate(self.studies[search.identity])
                ],
                () if reference is None else scores.read(reference, self.all_models).scores,
                majority_share(search, self.seed),
            )
            for search, reference in zip(self.searches, self.references, strict=True)
        ]

    def _study(self, number: int, trials: Sequence[Trial], scores: Scores) -> Study:
        best = {each.trial.place.number for each in self._best(trials, scores)}
        found = [
            scores.read(each, self.all_models, confirmed=True)
            if each.place.number in best
            else scores.read(each, self.first_models)
            for each in trials
        ]
        return Study(number, self.seed + number, found, choose(found, self.table.max_gap))


def make_tune(name: str, sweep: Sweep, table: TuneTable, tell: Tell) -> Tune:
    """Find what is searched and resolve all trials; SpecError with all problems."""
    seed = table.first_seed(sweep.seed)
    searches = find_searches(sweep, table)
    if table.max_gap is not None:
        refuse_gap(searches.found)
    drawn = draw_points(table.trials, table.studies, seed)
    trials = resolve_trials(searches.found, drawn, seed, tell)
    refuse_all_failed(trials)
    references = [resolve_recipe(search, sweep.seed) for search in searches.found]
    return Tune(name, sweep, table, seed, searches.found, searches.left_out, drawn, trials, references)


def refuse_gap(searches: Sequence[Search]) -> None:
    """SpecError for a limit on the gap of methods that have an epsilon: it bounds their leakage already."""
    private = sorted({each.method for each in searches if "epsilon" in each.levels})
    if private:
        raise SpecError(
            f"--max-gap is for methods without an epsilon: {', '.join(private)} is tuned at levels of it",
            field="max_gap",
            value=tuple(private),
        )


def majority_share(search: Search, seed: int) -> float:
    """The share of the most common label among the non-members of the first study's first model."""
    workload = workloads.family.get(search.workload)
    labels = workload.pool().y
    drawn = Cell(Plugin(workload.name, workload.version), search.tuned_at, Plugin("", ""), {}, seed)
    outside = labels[~membership(drawn, 0, len(labels))]
    return float((outside == outside.mode().values).double().mean())


# -- the record ------------------------------------------------------------------------------------


def make_record(tune: Tune, found: Sequence[Searched], store: Store) -> TuneRecord:
    """The record of a tune whose trainings have ended."""
    table = tune.table
    return TuneRecord(
        name=tune.name,
        made=datetime.now(UTC).isoformat(),
        trials=table.trials,
        studies=table.studies,
        models=table.models,
        confirm=table.confirm,
        seed=tune.seed,
        scipy=version("scipy"),
        points=[[list(point) for point in study] for study in tune.points],
        max_gap=table.max_gap,
        searches=[_search_record(each) for each in found],
        warnings=find_untuned(store, tune.searches, tune.sweep_name),
    )


def _search_record(found: Searched) -> SearchRecord:
    search = found.search
    return SearchRecord(
        workload=search.workload,
        workload_version=workloads.family.get(search.workload).version,
        method=search.method,
        method_version=methods.family.get(search.method).version,
        levels=spelled(search.levels),
        given=spelled(search.given),
        n_train=search.n_train,
        tuned_at=search.tuned_at,
        validation_records=search.validation_records,
        majority=found.majority,
        axes=[_axis_record(each) for each in search.axes],
        studies=[_study_record(each) for each in found.studies],
        reference=list(found.reference),
        seconds=sum(each.seconds for each in found.trials),
        warnings=find_warnings(found),
    )


def _axis_record(axis: Axis) -> AxisRecord:
    search = axis.search
    return AxisRecord(
        name=axis.name,
        field=axis.field,
        place=axis.place,
        low=search.low,
        high=search.high,
        scale=search.scale,
        choices=list(search.choices),
    )


def _study_record(study: Study) -> StudyRecord:
    return StudyRecord(
        study=study.number,
        seed=study.seed,
        trials=[_trial_record(each) for each in study.trials],
        chosen=None if study.chosen is None else study.chosen.trial.place.number,
    )


def _trial_record(scored: Scored) -> TrialRecord:
    trial = scored.trial
    params: Json = spelled(trial.params)
    return TrialRecord(
        number=trial.place.number,
        cell=None if trial.cell is None else trial.cell.key,
        params=params,
        scores=scored.scores,
        failed=scored.failed,
        confirmed=scored.confirmed,
        seconds=scored.seconds,
        error=trial.error,
    )
