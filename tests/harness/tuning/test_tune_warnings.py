"""Warnings about searches, on made-up scores: each fires where it should, and not next to it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.spec import Cell, Notes, Plugin, Task
from harness.store import Store
from harness.tuning.searches import Search
from harness.tuning.tune_warnings import find_untuned, find_warnings, standard_error
from methods.search import points
from tests.harness.simulated import sweep_record
from tests.harness.tuning.conftest import SEED, Found


def names(found: Any) -> set[str]:
    return {each.name for each in find_warnings(found)}


def text(found: Any, name: str) -> str:
    return next(each.text for each in find_warnings(found) if each.name == name)


def spread(study: int, number: int) -> list[float]:
    """Scores without a pattern in the points; every study ends at 0.9."""
    return [0.9] * 4 if number == 7 else [0.5 + 0.01 * ((7 * number + study) % 13)]


def test_a_clear_search_has_no_warning(found: Found) -> None:
    assert names(found(spread)) == set()


@pytest.mark.parametrize(("majority", "warned"), [(0.5, False), (0.9, True), (0.95, True)])
def test_majority_is_told_within_two_errors(found: Found, majority: float, warned: bool) -> None:
    made = found(spread, majority=majority)
    assert ("majority" in names(made)) is warned


def test_a_single_model_is_judged_by_its_records() -> None:
    assert standard_error([0.5], 100) == pytest.approx(0.05)
    assert standard_error([0.4, 0.6], 100) == pytest.approx(0.1)


def test_edge_names_the_axis_and_a_wider_range(found: Found) -> None:
    made = found(lambda study, number: [points(16, SEED, study)[number][3]])  # the more clip, the better
    assert text(made, "edge").startswith("the 5 best trials lie in the outer third of `clip` (above 0.97)")
    assert "[tune.search.dp-sgd] clip = [0.1, 16]" in text(made, "edge")
    low = found(lambda study, number: [1 - points(16, SEED, study)[number][3]])
    assert "clip = [0.018, 3]" in text(low, "edge")


def test_no_batch_is_larger_than_all_members(found: Found) -> None:
    made = found(lambda study, number: [points(16, SEED, study)[number][1]])
    assert not any("`rate`" in each.text for each in find_warnings(made))


def test_unspent_budget(found: Found) -> None:
    assert "4.23 of 8" in text(found(spread, spent=4.23), "unspent")
    assert "unspent" not in names(found(spread, spent=7.3))


def test_noisy_needs_every_study(found: Found) -> None:
    def close(study: int, number: int) -> list[float]:
        return [0.88, 0.92] if number == 7 else [0.89, 0.9] if number == 3 else [0.2]

    assert "noisy" in names(found(close))
    assert "noisy" not in names(found(lambda s, n: close(s, n) if s else spread(s, n)))


def test_luck_is_the_range_over_studies(found: Found) -> None:
    def by_study(study: int, number: int) -> list[float]:
        return [0.9 - 0.02 * study] * 4 if number == 7 else [0.1]

    assert "4.0 points" in text(found(by_study), "lucky")
    assert "lucky" not in names(found(spread))


def test_a_search_below_the_recipe(found: Found) -> None:
    assert "90.0 % against 95.0 %" in text(found(spread, reference=[0.95, 0.95]), "below-recipe")
    assert "below-recipe" not in names(found(spread, reference=[0.95, 0.80]))


def test_fewer_members_than_a_run_has(found: Found) -> None:
    made = found(spread)
    fewer = replace(made, search=replace(made.search, tuned_at=600, validation_records=837))
    assert "600 instead of 718 members" in text(fewer, "few-records")


def test_untuned_methods_of_the_store_are_named(search: Search, tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)

    def task(method: str, by: str | None) -> Task:
        cell = Cell(Plugin("digits-linear", "1"), 718, Plugin(method, "1"), {}, 0)
        return Task("train", cell, notes=Notes(tuned_by=by))

    reported = [task("pate", None), task("dp-gan", "recipe"), task("dpis", "tune:x"), task("dp-sgd", None)]
    store.add(*reported, task("selena", None))
    store.write_sweep(sweep_record("reported", *reported))
    store.write_sweep(sweep_record("tune-x", task("selena", None)))
    (told,) = find_untuned(store, [search], "tune-x")
    assert told.text == "digits-linear: not tuned here and in the store on defaults: dp-gan, pate"
