"""Records of tunes: what was tried for each method and level, how it scored, and what was chosen.

tunes/<name>.json     one record, rewritten by every `privbench tune` of the name

The record is made from results and can be made again from them, but it travels with exports: it is what a
recipe file names as its origin. Accuracies in it are those on non-members of the pool; test records have no
place here.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from harness.spec import Json, despelled
from harness.store import Store
from harness.store.files import checksum, dump_checked, parse_checked, read_records, write_atomic
from harness.store.imports import origins
from harness.store.journal import check_key
from harness.store.outcomes import Frozen
from workloads.errors import UnknownName

FOLDER = "tunes"

WarningName = Literal[
    "majority", "edge", "unequal", "unspent", "noisy", "lucky", "below-recipe", "untuned", "few-records"
]


class TuneWarning(Frozen):
    """What a reader of a search should know."""

    name: WarningName
    text: str
    """One sentence, with the figures and what to do."""


class AxisRecord(Frozen):
    """A searched axis, as it was searched."""

    name: str
    field: str
    """The parameter that it sets."""
    place: int
    """Its coordinate in the points."""
    low: float
    high: float
    scale: Literal["log", "linear"]
    choices: list[bool | int | float | str] = Field(default=[])

    @property
    def label(self) -> str:
        """The axis for display, and the parameter that it sets if that has another name."""
        return self.name if self.name == self.field else f"{self.name} (sets {self.field})"


class TrialRecord(Frozen):
    """One configuration of a study."""

    number: int
    """Its point in the study, from 0."""
    cell: Annotated[str, AfterValidator(check_key)] | None
    """None if its parameters could not be resolved: `error` says why."""
    params: Json
    """The parameters that were searched, fixed or derived."""
    scores: list[float]
    """Accuracy on non-members of each of its models; 0 for one that diverged or failed."""
    failed: int = 0
    """How many of its trainings diverged or ended in error; they count as 0."""
    confirmed: bool = False
    """Whether it was among the best of its study and got more models."""
    seconds: float = 0.0
    """CPU seconds of its trainings."""
    error: str | None = None

    @property
    def score(self) -> float:
        """The mean over its models."""
        return sum(self.scores) / len(self.scores) if self.scores else 0.0


class StudyRecord(Frozen):
    """One search with its own points, masks and seed."""

    study: int
    seed: int
    trials: list[TrialRecord]
    chosen: int | None
    """The number of the trial that was chosen; None if none was trained."""

    @property
    def number(self) -> int:
        """From 1, as a recipe numbers its settings."""
        return self.study + 1

    @property
    def winner(self) -> TrialRecord | None:
        """The chosen trial."""
        return next((each for each in self.trials if each.number == self.chosen), None)

    @property
    def score(self) -> float:
        """The score of the chosen trial."""
        return self.winner.score if self.winner else 0.0


class SearchRecord(Frozen):
    """All studies of one method at one combination of levels on one workload."""

    workload: str
    workload_version: str
    method: str
    method_version: str
    levels: Json
    """Epsilon and what else trades privacy for utility; empty for a method without a level."""
    given: Json = Field(default={})
    """Parameters set by the user, which were not searched."""
    n_train: int
    """Members of a model in the runs that the recipe is for."""
    tuned_at: int
    """Members of a model in the search: fewer where the pool is small."""
    validation_records: int
    """Non-members of the pool that score a model."""
    majority: float | None
    """Share of the most common label among the pool's non-members."""
    axes: list[AxisRecord]
    studies: list[StudyRecord]
    reference: list[float] = Field(default=[])
    """Scores of the workload's own recipe, trained with the reporting seed: to compare with, no trial."""
    seconds: float = 0.0
    """CPU seconds of all trainings."""
    warnings: list[TuneWarning] = Field(default=[])

    @property
    def level(self) -> str:
        """What trades privacy for utility, for display; empty for a method without a level."""
        return self.tell_levels(self.levels)

    def tell_levels(self, names: Iterable[str]) -> str:
        """Some of the levels for display."""
        values = despelled(self.levels)
        return ", ".join(f"{'ε' if name == 'epsilon' else name}={_short(values[name])}" for name in names)

    @property
    def label(self) -> str:
        """A short name for display: the method and its level."""
        return f"{self.method} {self.level}".rstrip()

    @property
    def axes_in_order(self) -> list[AxisRecord]:
        """Step, rate, epochs and clip first, then the method's own."""
        return sorted(self.axes, key=lambda each: each.place)

    @property
    def winners(self) -> list[StudyRecord]:
        """The studies that have a choice."""
        return [each for each in self.studies if each.winner]

    @property
    def choice(self) -> TrialRecord | None:
        """What a run takes: the choice of the median study."""
        return self.chosen.winner if self.chosen else None

    @property
    def chosen_values(self) -> Json:
        """The searched parameters and their values in the choice."""
        choice = self.choice
        fields = dict.fromkeys(each.field for each in self.axes_in_order)
        return {name: choice.params[name] for name in fields if name in choice.params} if choice else {}

    @property
    def chosen(self) -> StudyRecord | None:
        """The study with the median score, which a run takes; the lower one of two."""
        if not self.studies:
            return None
        middle = median_low([each.score for each in self.studies])
        return next(each for each in self.studies if each.score == middle)


class TuneRecord(Frozen):
    """A tune: what was asked, and the search of every method and level."""

    name: str
    made: str
    """When, in UTC."""
    trials: int
    studies: int
    models: int
    confirm: int
    seed: int
    """Of the search; studies count up from it."""
    scipy: str
    """The version that made the points."""
    points: list[list[list[float]]]
    """Study, trial, axis: coordinates from 0 to 1, shared by all methods."""
    max_gap: float | None = None
    """The largest gap of accuracy on members and non-members that a choice may have."""
    objective: Literal["nonmember_accuracy"] = "nonmember_accuracy"
    priced: Literal[False] = False
    """A search has a price only where it is part of a training; this one has none."""
    searches: list[SearchRecord]
    """By workload, method and levels."""
    warnings: list[TuneWarning] = Field(default=[])
    """About the tune as a whole."""

    @property
    def checksum(self) -> str:
        """What a recipe names the record by: of all but times and warnings.

        A tune that was interrupted has the same.
        """
        trials = {"trials": {"__all__": {"seconds"}}}
        searches = {"seconds": True, "warnings": True, "studies": {"__all__": trials}}
        beside: Any = {"made": True, "scipy": True, "warnings": True, "searches": {"__all__": searches}}
        return checksum(self.model_dump(mode="json", exclude=beside))

    def all_trials(self) -> Iterator[TrialRecord]:
        """Those of every search and study."""
        for search in self.searches:
            for study in search.studies:
                yield from study.trials


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def show_values(values: Json) -> str:
    """Parameters as one text: `learning_rate 0.32, batch_size 384`."""
    return ", ".join(f"{name} {_short(value)}" for name, value in values.items())


def read_tunes(store: Store, broken: list[Path] | None = None) -> dict[str, TuneRecord]:
    """All tunes of a store by name; damaged ones are left out with a warning, and added to `broken`."""
    return read_records(
        store.path / FOLDER,
        parse_tune,
        lambda record: record.name,
        "run `privbench tune` again",
        broken,
    )


def find_tune(store: Store, name: str) -> TuneRecord:
    """The tune of that name, or `ORIGIN:NAME` of an imported one; UnknownName if there is none."""
    known = {
        origin.key(each): record
        for origin in origins(store)
        for each, record in read_tunes(origin.store).items()
    }
    if name not in known:
        raise UnknownName("tune", name, known)
    return known[name]


def tune_names(store: Store) -> list[str]:
    """The names of all tunes, those of imports after their origin and a colon; without reading them."""
    return [
        origin.key(file.stem)
        for origin in origins(store)
        for file in sorted((origin.store.path / FOLDER).glob("[!.]*.json"))
    ]


def parse_tune(raw: bytes) -> TuneRecord:
    """The record in a file; ValueError if it is damaged."""
    return TuneRecord.model_validate(parse_checked(raw))


def write_tune(store: Store, record: TuneRecord) -> None:
    """Write or rewrite the record of a tune."""
    (store.path / FOLDER).mkdir(exist_ok=True)
    write_atomic(store.path / FOLDER / f"{record.name}.json", dump_checked(record.model_dump(mode="json")))
