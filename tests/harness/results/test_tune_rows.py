"""Tunes in the database: as their records say, once, and gone with them."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.results.collect import collect
from harness.results.forgetting import find_results, forget_results
from harness.results.query import query
from harness.spec import Notes, Task
from harness.store import Store
from harness.store.tunes import SearchRecord, TuneRecord, write_tune
from tests.harness.simulated import attack, leakage, publish, training
from tests.harness.tuned import SEED, make_tune, params_of, store_tune, task_of, trial_cell

RECORD = make_tune(methods=("dp-sgd",), trials=4, studies=3, confirm=1)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    opened = Store.open(tmp_path_factory.mktemp("filled") / "store", create=True)
    store_tune(opened, RECORD)
    collect(opened.path)
    return opened.path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Store:
    """A collected store with a tune, for one test."""
    return Store(shutil.copytree(filled, tmp_path / "store"))


def rows(store: Store, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = query(store.path, sql).arrow.to_pylist()
    return found


def test_every_trial_is_a_row_with_its_score_and_its_cell(store: Store) -> None:
    collect(store.path)
    found = rows(store, "select * from trial order by epsilon_asked, study, trial")
    wanted = [
        (study.number, trial.number, trial.cell, pytest.approx(trial.score), trial.number == study.chosen)
        for search in RECORD.searches
        for study in search.studies
        for trial in study.trials
    ]
    assert [(row["study"], row["trial"], row["cell"], row["score"], row["chosen"]) for row in found] == wanted
    assert sum(row["stage"] == "confirm" for row in found) == 6
    assert sum(row["taken"] for row in found) == 2
    trained = {row["key"] for row in rows(store, "select key from cell")}
    assert {row["cell"] for row in found} == trained


def test_a_search_is_a_row_with_the_luck_of_its_studies(store: Store) -> None:
    collect(store.path)
    first, second = rows(store, "select * from search order by epsilon_asked")
    search = RECORD.searches[0]
    scores = [each.score for each in search.studies]
    assert (first["epsilon_asked"], second["epsilon_asked"]) == (1.0, 8.0)
    assert (first["trials"], first["studies"], first["tried"], first["failed"]) == (4, 3, 12, 0)
    assert [first["score"], first["score_low"], first["score_high"]] == pytest.approx(
        [sorted(scores)[1], min(scores), max(scores)]
    )
    assert first["cell"] == search.choice.cell if search.choice else False
    assert first["reference"] == pytest.approx(0.72)


def test_an_unchanged_record_is_kept_a_changed_one_replaced_and_a_deleted_one_gone(store: Store) -> None:
    collect(store.path)
    before = rows(store, "select * from trial")
    collect(store.path)
    assert rows(store, "select * from trial") == before
    more = make_tune(methods=("dp-sgd", "dpsur"), trials=4, studies=3, confirm=1)
    write_tune(store, more)
    collect(store.path)
    assert len(rows(store, "select * from trial")) == 2 * len(before)
    (store.path / "tunes" / "fair.json").unlink()
    collect(store.path)
    assert rows(store, "select * from trial") == rows(store, "select * from search") == []


def test_a_damaged_record_is_told_and_nothing_else_is_lost(store: Store) -> None:
    (store.path / "tunes" / "fair.json").write_bytes(b"{}")
    done = collect(store.path)
    assert [file.name for file in done.broken] == ["fair.json"]
    assert rows(store, "select * from trial") == []
    assert sum(row["configurations"] for row in rows(store, "select configurations from tried")) == 24


def run_taken(store: Store, search: SearchRecord, study: int | None = None, seed: int = 0) -> Task:
    """A reported cell with the values of a study, attacked."""
    found = search.chosen if study is None else search.studies[study]
    assert found is not None and found.winner is not None
    epsilon = search.levels["epsilon"]
    cell = trial_cell(search.workload, search.method, epsilon, found.winner.params, seed)
    head = task_of(search, found, found.winner, 0).notes
    notes = Notes(
        tried=12,
        tuned_by="tune:fair",
        tuned_on="validation",
        configuration=head.configuration,
        trials=4,
        studies=3,
        tune=RECORD.checksum,
        study=found.number,
    )
    for index in range(4):
        task = Task("train", cell, index, notes=notes)
        publish(store, task, training(task, 0.6 + found.score / 10), steps=3)
    publish(store, attack(cell, "loss"), leakage(0.6))
    return task


def test_a_tune_of_this_store_counts_once_and_a_grid_beside_it_too(store: Store) -> None:
    search = RECORD.searches[0]
    run_taken(store, search)
    collect(store.path)
    (row,) = rows(store, "select tuned, configurations, tried_before from frontier")
    assert row == {"tuned": "4 x 3", "configurations": 12, "tried_before": 12}
    other = {**params_of(search.axes, [0.2] * 8), "clip": 2.22}
    task = Task("train", trial_cell("digits-mlp", "dp-sgd", 1.0, other, 0), 0)
    publish(store, task, training(task, 0.5), steps=3)
    collect(store.path)
    (row,) = rows(store, "select tuned, configurations from frontier")
    assert row == {"tuned": "4 x 3 + 1 here", "configurations": 13}


def test_in_another_store_the_recipe_says_how_many_were_tried(tmp_path: Path) -> None:
    other = Store.open(tmp_path / "other", create=True)
    for study in range(3):
        run_taken(other, RECORD.searches[0], study)
    collect(other.path)
    found = rows(other, "select tuned, configurations from frontier")
    assert {row["tuned"] for row in found} == {"4 x 3"}
    assert {row["configurations"] for row in found} == {3}


def test_of_several_studies_the_median_one_is_chosen_with_the_range_of_all(store: Store) -> None:
    search = RECORD.searches[0]
    for study in range(3):
        run_taken(store, search, study)
    collect(store.path)
    found = rows(store, "select * from frontier order by validation_accuracy")
    assert [row["median_study"] for row in found] == [False, True, False]
    assert [row["chosen"] for row in found] == [False, True, False]
    accuracies = [row["accuracy"] for row in found]
    assert found[1]["accuracy_study_low"] == pytest.approx(min(accuracies))
    assert found[1]["accuracy_study_high"] == pytest.approx(max(accuracies))


def test_studies_of_another_seed_are_apart(store: Store) -> None:
    search = RECORD.searches[0]
    run_taken(store, search, 0, seed=1)
    run_taken(store, search, 1, seed=2)
    collect(store.path)
    found = rows(store, "select * from frontier")
    assert [row["median_study"] for row in found] == [True, True]
    assert {row["accuracy_study_low"] for row in found} == {None}


def test_trials_are_no_rows_of_the_frontier_and_no_baseline(store: Store) -> None:
    plain = make_tune("plain", methods=("sgd",), epsilons=(None,), trials=2, studies=1, confirm=0)
    store_tune(store, plain)
    cell = trial_cell("digits-mlp", "dp-sgd", 1.0, {"clip": 1.0}, 0)
    task = Task("train", cell, 0)
    publish(store, task, training(task, 0.5), steps=3)
    collect(store.path)
    assert rows(store, "select * from frontier") == []
    (row,) = rows(store, f"select training_overhead from model_cost where cell = '{cell.key}'")
    assert row["training_overhead"] is None


def test_forgotten_trials_still_count(store: Store) -> None:
    collect(store.path)
    cell = RECORD.searches[0].studies[0].trials[0].cell
    assert cell is not None
    forget_results(store, find_results(store, keys=[cell]))
    collect(store.path)
    assert {row["configurations"] for row in rows(store, "select configurations from tried")} == {12}
    assert len(rows(store, "select * from trial")) == 24


def test_seeds_of_studies_are_those_of_the_tune(store: Store) -> None:
    collect(store.path)
    seeds = {
        row["seed"]
        for row in rows(store, "select distinct c.seed from cell c join trial t on t.cell = c.key")
    }
    assert seeds == {SEED, SEED + 1, SEED + 2}


def test_a_record_that_cannot_be_resolved_has_no_cell(store: Store) -> None:
    changed = RECORD.model_dump()
    trial = changed["searches"][0]["studies"][0]["trials"][0]
    trial |= {"cell": None, "scores": [], "error": "no noise is enough", "confirmed": False}
    write_tune(store, TuneRecord.model_validate(changed))
    collect(store.path)
    (row,) = rows(store, "select cell, score, error from trial where error is not null")
    assert row == {"cell": None, "score": None, "error": "no noise is enough"}
    (first,) = rows(store, "select tried from search where epsilon_asked = 1")
    assert first["tried"] == 11
