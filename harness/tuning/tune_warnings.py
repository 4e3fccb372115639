"""Warnings about a search, computed when its record is made: what a reader of its recipe should know."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median_low, stdev
from typing import Any

from harness.plan.tune_table import TuneTable
from harness.store import Store
from harness.store.tunes import TuneWarning
from harness.tuning.scores import Scored
from harness.tuning.searches import Search
from methods.search import Axis
from workloads.errors import StoreError

BEST = 5
"""Trials that must lie together at an end of an axis."""
THIRD = 1 / 3
LUCK = 0.03
"""A range over studies that is worth a word."""
SPENT = 0.9
"""The share of epsilon that a run should spend."""


@dataclass(frozen=True)
class Study:
    """The trials of a study, and the chosen one."""

    number: int
    seed: int
    trials: Sequence[Scored]
    chosen: Scored | None

    @property
    def score(self) -> float:
        """Of the chosen trial."""
        return self.chosen.score if self.chosen else 0.0


@dataclass(frozen=True)
class Searched:
    """A search with its studies, and what it is compared with."""

    search: Search
    table: TuneTable
    studies: Sequence[Study]
    reference: Sequence[float]
    majority: float

    @property
    def trials(self) -> list[Scored]:
        """Of all studies."""
        return [each for study in self.studies for each in study.trials]

    @property
    def taken(self) -> Study:
        """The study with the median score."""
        middle = median_low([each.score for each in self.studies])
        return next(each for each in self.studies if each.score == middle)


def standard_error(scores: Sequence[float], records: int) -> float:
    """Of a mean accuracy: over models, or of the records that judge a single one."""
    if len(scores) > 1:
        return stdev(scores) / math.sqrt(len(scores))
    share = fmean(scores) if scores else 0.0
    return math.sqrt(share * (1 - share) / records)


def find_warnings(found: Searched) -> list[TuneWarning]:
    """All warnings about a search."""
    told = [TuneWarning(name="edge", text=text) for text in _edges(found)]
    single: tuple[tuple[Any, Callable[[Searched], str | None]], ...] = (
        ("majority", _majority),
        ("unspent", _unspent),
        ("noisy", _noisy),
        ("lucky", _lucky),
        ("below-recipe", _below_recipe),
        ("few-records", _few_records),
    )
    texts = [(name, rule(found)) for name, rule in single]
    return [*(TuneWarning(name=name, text=text) for name, text in texts if text is not None), *told]


def _majority(found: Searched) -> str | None:
    best = found.taken.chosen
    if best is None:
        return None
    error = standard_error(best.scores, found.search.validation_records)
    if best.score - 2 * error > found.majority:
        return None
    return (
        f"the best of {len(found.trials)} is {_percent(best.score)}, the most common class is "
        f"{_percent(found.majority)}: nothing was learnt in this space"
    )


def _edges(found: Searched) -> list[str]:
    best = sorted(
        (each for each in found.trials if each.trained),
        key=lambda each: (-each.score, each.trial.place.study, each.trial.place.number),
    )[:BEST]
    if len(best) < BEST:
        return []
    texts = []
    for axis in found.search.axes:
        inside = [each for each in best if axis.field in each.trial.params]
        places = [each.trial.place.point[axis.place] for each in inside]
        if axis.search.choices or len(inside) < BEST:
            continue
        if all(place < THIRD for place in places):
            texts.append(_edge(found.search.method, axis, low=True))
        elif all(place > 1 - THIRD for place in places) and not _is_whole_range(axis):
            texts.append(_edge(found.search.method, axis, low=False))
    return texts


def _is_whole_range(axis: Axis) -> bool:
    """Whether there is nothing above: all members in every batch."""
    return axis.search.unit == "rate" and axis.search.high >= 1


def _edge(method: str, axis: Axis, low: bool) -> str:
    search = axis.search
    bound = search.at(THIRD if low else 1 - THIRD)
    if search.scale == "log":
        reach = math.sqrt(search.high / search.low)
        ends = (search.low / reach, search.high) if low else (search.low, search.high * reach)
    else:
        reach = (search.high - search.low) / 2
        ends = (search.low - reach, search.high) if low else (search.low, search.high + reach)
    if search.unit == "rate":
        ends = (ends[0], min(1.0, ends[1]))
    side = "below" if low else "above"
    return (
        f"the {BEST} best trials lie in the outer third of `{axis.name}` ({side} {bound:.2g}): widen it: "
        f"[tune.search.{method}] {axis.name} = [{ends[0]:.2g}, {ends[1]:.2g}]"
    )


def _unspent(found: Searched) -> str | None:
    best, asked = found.taken.chosen, found.search.levels.get("epsilon")
    if best is None or best.spent is None or asked is None or math.isinf(asked):
        return None
    if best.spent >= SPENT * asked:
        return None
    return f"the chosen configuration spends epsilon {best.spent:.3g} of {asked:g}"


def _noisy(found: Searched) -> str | None:
    records = found.search.validation_records
    for study in found.studies:
        rivals = [each for each in study.trials if each.confirmed] or study.trials
        first = study.chosen
        scores = [each.score for each in rivals if each is not first and each.trained]
        if first is None or not scores:
            return None
        if first.score - max(scores) >= standard_error(first.scores, records):
            return None
    return "the trials do not tell the chosen configuration from the next best, in any study"


def _lucky(found: Searched) -> str | None:
    scores = [study.score for study in found.studies]
    if max(scores) - min(scores) <= LUCK:
        return None
    shown = ", ".join(_percent(each) for each in scores)
    return (
        f"the studies end at {shown}: {100 * (max(scores) - min(scores)):.1f} points are luck of the search"
    )


def _below_recipe(found: Searched) -> str | None:
    best, records = found.taken.chosen, found.search.validation_records
    if best is None or not found.reference:
        return None
    own = fmean(found.reference)
    error = math.hypot(standard_error(best.scores, records), standard_error(found.reference, records))
    if best.score >= own - 2 * error:
        return None
    return (
        f"the search did worse than the workload's recipe, {_percent(best.score)} against {_percent(own)}: "
        "give more trials or a narrower space"
    )


def _few_records(found: Searched) -> str | None:
    search = found.search
    if search.tuned_at == search.n_train:
        return None
    return (
        f"tuned on {search.tuned_at:,} instead of {search.n_train:,} members, so that "
        f"{search.validation_records:,} records judge"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def find_untuned(store: Store, searches: Sequence[Search], own_sweep: str) -> list[TuneWarning]:
    """A warning for each workload with results of methods that were not tuned, here or elsewhere."""
    tuned: dict[str, set[str]] = {}
    for each in searches:
        tuned.setdefault(each.workload, set()).add(each.method)
    found: dict[str, set[str]] = {}
    for workload, method in _reported_on_defaults(store, own_sweep):
        if workload in tuned and method not in tuned[workload]:
            found.setdefault(workload, set()).add(method)
    return [
        TuneWarning(
            name="untuned",
            text=f"{workload}: not tuned here and in the store on defaults: {', '.join(sorted(names))}",
        )
        for workload, names in sorted(found.items())
    ]


def _reported_on_defaults(store: Store, own_sweep: str) -> Iterable[tuple[str, str]]:
    """Workload and method of every cell of other sweeps whose values are not a tune's."""
    seen: Mapping[str, None] = dict.fromkeys(
        entry.key
        for name in store.sweep_names()
        if name != own_sweep
        for entry in {each.cell: each for each in store.sweep(name).tasks if each.kind == "train"}.values()
    )
    for key in seen:
        try:
            task = store.task(key)
        except StoreError:  # damaged: its sweep says so
            continue
        if not (task.notes.tuned_by or "").startswith("tune:"):
            yield task.cell.workload.name, task.cell.method.name
