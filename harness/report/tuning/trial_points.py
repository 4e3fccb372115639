"""The trials of a search as points: where each lies on the searched axes, and what became of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from harness.store.tunes import AxisRecord, SearchRecord, TrialRecord, TuneRecord

Standing = Literal["taken", "chosen", "confirmed", "tried"]


@dataclass(frozen=True)
class TrialPoint:
    """A trial as it is drawn."""

    study: int
    number: int
    places: Mapping[str, float]
    """Axis to its value; of an axis of choices, the place of the choice."""
    score: float
    low: float
    """The lowest score of its models."""
    high: float
    standing: Standing
    """taken by a run; else chosen by its study; else confirmed with more models; else tried."""
    failed: int
    """Trainings that diverged or failed."""
    trial: TrialRecord


@dataclass(frozen=True)
class Block:
    """The searches of a tune on one workload, which share a figure."""

    key: str
    """Of the tune."""
    record: TuneRecord
    workload: str
    searches: Sequence[SearchRecord]

    @property
    def stem(self) -> str:
        """The name of its files."""
        return f"tune-{self.key.replace(':', '-')}-{self.workload}"

    @property
    def budget(self) -> str:
        """Trials and studies: `16 x 3`."""
        return f"{self.record.trials} x {self.record.studies}"


def blocks_of(tunes: Mapping[str, TuneRecord]) -> list[Block]:
    """A block per tune and workload."""
    found = []
    for key, record in tunes.items():
        for workload in dict.fromkeys(each.workload for each in record.searches):
            own = [each for each in record.searches if each.workload == workload]
            found.append(Block(key, record, workload, own))
    return found


def points_of(record: TuneRecord, search: SearchRecord) -> Iterator[TrialPoint]:
    """The trials of a search that were trained, those that matter most last."""
    order: dict[Standing, int] = {"tried": 0, "confirmed": 1, "chosen": 2, "taken": 3}
    found = [
        _point(record, search, place, trial)
        for place, study in enumerate(search.studies)
        for trial in study.trials
        if trial.scores
    ]
    return iter(sorted(found, key=lambda each: order[each.standing]))


def _point(record: TuneRecord, search: SearchRecord, place: int, trial: TrialRecord) -> TrialPoint:
    study = search.studies[place]
    drawn = record.points[place][trial.number]
    standing: Standing = "confirmed" if trial.confirmed else "tried"
    if trial.number == study.chosen:
        standing = "taken" if study is search.chosen else "chosen"
    return TrialPoint(
        study=study.number,
        number=trial.number,
        places={axis.name: place_on(axis, drawn[axis.place]) for axis in search.axes},
        score=trial.score,
        low=min(trial.scores),
        high=max(trial.scores),
        standing=standing,
        failed=trial.failed,
        trial=trial,
    )


def place_on(axis: AxisRecord, coordinate: float) -> float:
    """The value on an axis at a coordinate from 0 to 1; of choices, the place of the choice."""
    if axis.choices:
        return float(min(int(coordinate * len(axis.choices)), len(axis.choices) - 1))
    if axis.scale == "linear":
        return axis.low + (axis.high - axis.low) * coordinate
    return float(axis.low * (axis.high / axis.low) ** coordinate)


def luck_of(search: SearchRecord) -> tuple[float, float] | None:
    """The lowest and the highest score of the studies' choices; None without any."""
    scores = [each.score for each in search.winners]
    return (min(scores), max(scores)) if scores else None


def reference_of(search: SearchRecord) -> float | None:
    """The mean score of the workload's own recipe."""
    return fmean(search.reference) if search.reference else None


def limits_of(points: Sequence[TrialPoint], search: SearchRecord) -> tuple[float, float]:
    """The range of accuracies: of trials that did not fail, and of lines that do not dwarf them."""
    shown = [each for each in points if not each.failed] or list(points)
    low = min((each.low for each in shown), default=0.0)
    high = max((each.high for each in shown), default=1.0)
    reach = max(high - low, 0.05)
    lines = [each for each in (search.majority, reference_of(search)) if each is not None]
    near = [each for each in lines if low - reach < each < high + reach]
    low, high = min(low, *near, high), max(high, *near, low)
    margin = max(0.08 * (high - low), 0.01)
    return low - margin, high + margin
