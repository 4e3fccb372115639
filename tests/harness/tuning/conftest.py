"""Made-up trials with scores, and stores in which trials have ended without being trained."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.plan.tune_table import TuneTable
from harness.spec import Cell, Notes, Plugin
from harness.tuning.scores import Scored
from harness.tuning.searches import Search
from harness.tuning.trials import Place, Trial
from harness.tuning.tune_warnings import Searched, Study
from methods import family
from methods.search import points, space

SEED = 1_000_003


@pytest.fixture
def search() -> Search:
    """The search of a private method at epsilon 8."""
    return Search(
        workload="digits-linear",
        method="dp-sgd",
        levels={"epsilon": 8.0},
        given={},
        known={"epsilon": 8.0},
        n_train=718,
        tuned_at=718,
        validation_records=719,
        axes=space(family.get("dp-sgd")).axes,
    )


Score = Callable[[int, int], Sequence[float]]
Found = Callable[..., Searched]


@pytest.fixture
def found(search: Search) -> Found:
    """Builds a search whose trials have the scores of a function of study and number."""

    def build(
        score: Score,
        studies: int = 3,
        trials: int = 16,
        reference: Sequence[float] = (),
        majority: float = 0.1,
        spent: float | None = 8.0,
        **changes: Any,
    ) -> Searched:
        made = []
        for study in range(studies):
            rows = points(trials, SEED, study)
            scored = [
                trial(search, study, number, row, score(study, number), spent)
                for number, row in enumerate(rows)
            ]
            best = max(scored, key=lambda each: each.score)
            made.append(Study(study, SEED + study, scored, best))
        table = TuneTable(trials=trials, studies=studies)
        return Searched(search, table, made, reference, majority)

    return build


def trial(
    search: Search,
    study: int,
    number: int,
    point: tuple[float, ...],
    scores: Sequence[float],
    spent: float | None,
) -> Scored:
    cell = Cell(Plugin(search.workload, "1"), 718, Plugin(search.method, "1"), {"n": number}, SEED + study)
    params = {axis.field: 1.0 for axis in search.axes}
    resolved = Trial(Place(search, SEED + study, study, number, point), params, cell, Notes())
    gaps = [0.0] * len(scores)
    return Scored(resolved, list(scores), gaps, spent=spent, confirmed=len(scores) > 1)
