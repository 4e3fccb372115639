"""Notes on who was tuned how."""

import math
from typing import Any

import pytest

from harness.report.tuning.budgets import find_untuned, is_shown, tuning_notes
from tests.harness.report.conftest import MakeRow


def tuned(row: MakeRow, method: str, trials: int = 16, **changes: Any) -> dict[str, Any]:
    """A row with the values of a tune."""
    given = {"tuned": f"{trials} x 3", "trials": trials, "studies": 3, "group": "w"}
    return row("w", method, **{**given, **changes})


def bare(row: MakeRow, method: str, **changes: Any) -> dict[str, Any]:
    """A row on default settings."""
    return row("w", method, **{"tuned": "no", "group": "w", **changes})


def test_equal_budgets_and_who_was_not_tuned_are_named(row: MakeRow) -> None:
    rows = [tuned(row, "dp-sgd"), tuned(row, "dpis"), bare(row, "pate"), bare(row, "dpsur")]
    assert tuning_notes(rows) == [
        "Tuned with equal budgets: dp-sgd, dpis (16 x 3). "
        "Not tuned: pate, dpsur: their rows show settings, not methods."
    ]


def test_unequal_budgets_are_not_called_equal(row: MakeRow) -> None:
    (note,) = tuning_notes([tuned(row, "dp-sgd"), tuned(row, "dpis", 4)])
    assert "unequal budgets: dp-sgd (16 x 3), dpis (4 x 3)" in note


def test_a_grid_beside_a_tune_leaves_the_budget_of_the_tune(row: MakeRow) -> None:
    (note,) = tuning_notes([tuned(row, "dp-sgd", tuned="16 x 3 + 4 here"), tuned(row, "dpis")])
    assert "equal budgets: dp-sgd, dpis (16 x 3)" in note


def test_counts_of_recipes_are_no_equal_budgets(row: MakeRow) -> None:
    rows = [row("w", "dp-sgd", group="w", tuned="18 in the recipe"), tuned(row, "dpis")]
    assert tuning_notes(rows) == ["Tuned: dpis (16 x 3). Tuned otherwise: dp-sgd (18 in the recipe)."]


def test_nothing_is_said_where_nobody_was_tuned(row: MakeRow) -> None:
    rows = [bare(row, "dp-sgd"), bare(row, "pate")]
    assert tuning_notes(rows) == []
    assert find_untuned(rows) == set()


def test_untuned_cells_are_found_where_another_method_is_tuned(row: MakeRow) -> None:
    rows = [tuned(row, "dp-sgd"), bare(row, "pate")]
    assert find_untuned(rows) == {"w/pate ε=4"}


def test_a_method_that_is_tuned_at_one_level_only_is_named_at_the_other(row: MakeRow) -> None:
    (note,) = tuning_notes([tuned(row, "dp-sgd"), bare(row, "dp-sgd", epsilon=8.0)])
    assert note.endswith("Not tuned at this level: dp-sgd ε=8.")


def test_groups_are_told_apart(row: MakeRow) -> None:
    notes = tuning_notes([tuned(row, "dp-sgd"), tuned(row, "dpis", group="v")])
    assert [note.partition(":")[0] for note in notes] == ["w", "v"]


def test_other_studies_than_the_median_are_not_counted(row: MakeRow) -> None:
    other = tuned(row, "dpis", 4, median_study=False)
    assert not is_shown(other)
    assert tuning_notes([tuned(row, "dp-sgd", median_study=True), other]) == ["Tuned: dp-sgd (16 x 3)."]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"epsilon": 4.23}, "spends ε=4.23 of 8"),
        ({"tuned_at": "n_train 16280"}, "Tuned at n_train 16280"),
        ({"accuracy_study_low": 0.7, "accuracy_study_high": 0.75}, "70.0 to 75.0 %"),
    ],
)
def test_what_a_row_is_warned_of(row: MakeRow, changes: dict[str, Any], word: str) -> None:
    cell = row("w", "dpsur", epsilon=8.0, group="w", tuned="no")
    (note,) = tuning_notes([cell | changes])
    assert word in note


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 7.3},
        {"epsilon_asked": math.inf, "epsilon": 4.0},
        {"accuracy_study_low": 0.7, "accuracy_study_high": 0.72},
    ],
)
def test_what_is_no_warning(row: MakeRow, changes: dict[str, Any]) -> None:
    assert tuning_notes([row("w", "dpsur", epsilon=8.0, group="w", tuned="no") | changes]) == []
