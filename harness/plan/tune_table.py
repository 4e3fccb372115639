"""The `[tune]` table of a sweep: how its methods are to be tuned.

[tune]
trials = 16                  # configurations of a study
studies = 3                  # searches with points, members and seeds of their own
models = 1                   # trainings of a configuration
confirm = 3                  # further trainings of the three best of each study
seed = 1000003               # of the first study
[tune.search.METHOD]
clip = [0.1, 1.0]            # a range of a searched axis, instead of the declared one
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workloads.errors import SpecError, unknown

KEYS = ("trials", "studies", "models", "confirm", "seed", "max_gap", "search")
MOST = {"trials": 10_000, "studies": 100, "models": 1_000, "confirm": 1_000}
FIRST_SEED = 1_000_003
"""Seed of the first study of a sweep with seed 0: far from those of sweeps."""


@dataclass(frozen=True)
class TuneTable:
    """How the methods of a sweep are tuned."""

    trials: int = 16
    studies: int = 3
    models: int = 1
    confirm: int = 3
    seed: int | None = None
    """None for one that follows from the sweep's."""
    max_gap: float | None = None
    """The largest difference of accuracy on members and non-members that a choice may have."""
    search: Mapping[str, Mapping[str, list[Any]]] = field(default_factory=dict)
    """Method to the name of an axis to its range."""

    def first_seed(self, sweep_seed: int) -> int:
        """The seed of the first study; SpecError if the sweep's own is that of a study."""
        first = FIRST_SEED + sweep_seed if self.seed is None else self.seed
        if sweep_seed in range(first, first + self.studies):
            raise SpecError(
                f"seed = {sweep_seed} of the sweep is that of a study of the tune ({first} to "
                f"{first + self.studies - 1}): a model must not be reported on the members it was chosen by; "
                "give the tune another seed",
                field="seed",
                value=sweep_seed,
                allowed=f"outside {first} to {first + self.studies - 1}",
            )
        return first

    def overridden(self, **given: Any) -> "TuneTable":
        """The table with the options that were given, not None; SpecError for a wrong value."""
        chosen = {name: value for name, value in given.items() if value is not None}
        problems: list[str] = []
        _check(chosen, problems)
        if problems:
            raise SpecError(problems)
        return replace(self, **chosen)


def parse_tune(given: Any, problems: list[str]) -> TuneTable:
    """The table of a sweep; mistakes are added to `problems`."""
    if not isinstance(given, dict):
        problems.append(f"tune = {given!r}: give a table, [tune]")
        return TuneTable()
    problems += [unknown("key of [tune]", key, KEYS) for key in given if key not in KEYS]
    before = len(problems)
    _check(given, problems)
    search = given.get("search", {})
    if not isinstance(search, dict) or not all(isinstance(each, dict) for each in search.values()):
        problems.append(
            "tune.search: give [tune.search.METHOD] with a range for each axis: clip = [0.1, 1.0]"
        )
        search = {}
    for method, axes in search.items():
        problems += [
            f"tune.search.{method}.{name} = {each!r}: give a list, [low, high] or the choices"
            for name, each in axes.items()
            if not isinstance(each, list)
        ]
    known = {key: value for key, value in given.items() if key in KEYS and key != "search"}
    return TuneTable(**known, search=search) if len(problems) == before else TuneTable()


def _check(given: Mapping[str, Any], problems: list[str]) -> None:
    for key in ("trials", "studies", "models", "confirm", "seed"):
        low, high = (0 if key in ("confirm", "seed") else 1), MOST.get(key, 2**62)
        value = given.get(key, low)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            problems.append(f"tune: {key} = {value!r}: give an integer from {low} to {high}")
    gap = given.get("max_gap", 0.0)
    if isinstance(gap, bool) or not isinstance(gap, int | float) or not 0 <= gap <= 1:
        problems.append(f"tune: max_gap = {gap!r}: give a difference of accuracies, from 0 to 1")
