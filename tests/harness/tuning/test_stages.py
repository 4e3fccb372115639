"""Tunes with real trainings: the same recipe however they went, and no test record in it."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import torch

import workloads
from harness.jobs.loop import Stop, run_task
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Json
from harness.store import Store
from harness.store.files import dump_checked
from harness.store.result import Failure, build
from harness.store.tunes import TuneRecord, read_tunes, write_tune
from harness.tuning.recipe_writer import recipe_text
from harness.tuning.stages import Tune, make_record, make_tune
from tests.harness.own_data import OwnData
from workloads.base import Records

pytestmark = pytest.mark.slow

SHORT = {"epochs": [8, 9], "rate": [0.2, 0.25]}
"""So that a training takes a tenth of a second."""
GRIDS = (
    {"workload": "digits-linear", "method": "sgd", "n_train": 300},
    {"workload": "digits-linear", "method": "dp-sgd", "epsilon": 8, "n_train": 300},
)


@pytest.fixture(scope="module", autouse=True)
def one_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of this module: the noise of its trials is solved for once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        torch.set_num_threads(1)
        yield


def tune(*grids: Json, told: Callable[[int, int], None] = lambda done, total: None, **table: Any) -> Tune:
    names = {name for grid in grids or GRIDS for name in [grid["method"]]}
    search = dict.fromkeys(names, SHORT)
    asked = {"trials": 4, "studies": 2, "confirm": 1, "search": search} | table
    sweep, problems = read_sweep({"grid": list(grids or GRIDS), "tune": asked}, "fair")
    assert problems == [] and sweep.tune is not None
    return make_tune("fair", sweep, sweep.tune, told)


def train(made: Tune, store: Store, most: int = 1000, backwards: bool = False) -> int:
    """Run both stages, up to a number of trainings; return how many ran."""
    ran = 0
    for confirming in (False, True):
        plan = made.plan(store, confirming)
        store.add(*plan.tasks)
        for task in plan.todo[:: -1 if backwards else 1]:
            if ran == most:
                return ran
            run_task(store, task.key, Stop())
            ran += 1
    return ran


def record(made: Tune, store: Store) -> TuneRecord:
    return make_record(made, made.results(store), store)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, one_cache: None) -> tuple[Store, Tune, TuneRecord]:
    store = Store.open(tmp_path_factory.mktemp("undisturbed"), create=True)
    made = tune()
    train(made, store)
    return store, made, record(made, store)


Undisturbed = tuple[Store, Tune, TuneRecord]


def test_every_method_and_level_has_the_same_budget(undisturbed: Undisturbed) -> None:
    _, made, found = undisturbed
    budgets = [
        [(len(study.trials), sum(len(each.scores) for each in study.trials)) for study in search.studies]
        for search in found.searches
    ]
    assert budgets == [[(4, 7), (4, 7)]] * 2  # four trials, and one model more for three of them
    assert [each.seed for each in found.searches[0].studies] == [made.seed, made.seed + 1]
    assert all(len(search.reference) == 2 for search in found.searches)


def test_methods_share_points(undisturbed: Undisturbed) -> None:
    _, _, found = undisturbed
    private, plain = found.searches
    sizes = [[each.params["batch_size"] for each in search.studies[0].trials] for search in (private, plain)]
    assert sizes[0] == sizes[1]


def test_no_blind_check_is_planned(undisturbed: Undisturbed) -> None:
    store, made, _ = undisturbed
    assert {task.kind for task in made.plan(store, True).tasks} == {"train"}


def test_a_second_tune_trains_nothing(undisturbed: Undisturbed) -> None:
    store, _, found = undisturbed
    again = tune()
    assert train(again, store) == 0
    assert recipe_text(record(again, store)) == recipe_text(found)


def test_an_interrupted_tune_ends_with_the_same_bytes(undisturbed: Undisturbed, tmp_path: Path) -> None:
    store, made = Store.open(tmp_path, create=True), tune()
    assert train(made, store, most=7) == 7
    train(tune(), store)
    assert recipe_text(record(made, store)) == recipe_text(undisturbed[2])


def test_the_order_of_methods_and_of_tasks_changes_nothing(undisturbed: Undisturbed, tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)
    made = tune(*reversed(GRIDS))
    train(made, store, backwards=True)
    assert recipe_text(record(made, store)) == recipe_text(undisturbed[2])


def test_more_trials_keep_those_that_were_trained(undisturbed: Undisturbed) -> None:
    store, made, _ = undisturbed
    more = tune(trials=8)
    first, all_of_them = ({each.cell.key for each in of.trials if each.cell} for of in (made, more))
    assert first <= all_of_them
    assert len(more.plan(store, False).todo) == len(all_of_them - first)


def change_results(store: Store, change: Callable[[Json], Json]) -> None:
    """Change the accuracies in stored results."""
    for folder in store.folders():
        file = folder / "result.json"
        document = json.loads(file.read_bytes())
        document["metrics"] = change(document["metrics"])
        document.pop("checksum")
        file.write_bytes(dump_checked(document))


def copy(store: Store, to: Path) -> Store:
    return Store(shutil.copytree(store.path, to / "copy"))


def test_test_records_have_no_part_in_a_recipe(undisturbed: Undisturbed, tmp_path: Path) -> None:
    store, made, found = undisturbed
    other = copy(store, tmp_path)
    change_results(other, lambda old: old | {"test_accuracy": 1 - old["test_accuracy"], "test_loss": 9.0})
    assert recipe_text(record(made, other)) == recipe_text(found)


def test_non_members_decide_a_recipe(undisturbed: Undisturbed, tmp_path: Path) -> None:
    store, made, found = undisturbed
    other = copy(store, tmp_path)
    change_results(other, lambda old: old | {"nonmember_accuracy": 1 - old["nonmember_accuracy"]})
    assert record(made, other).searches[0].studies[0].chosen != found.searches[0].studies[0].chosen


def test_a_diverged_trial_counts_as_zero(undisturbed: Undisturbed, tmp_path: Path) -> None:
    store, made, found = undisturbed
    other = copy(store, tmp_path)
    best = found.searches[0].studies[0].winner
    assert best is not None and best.cell is not None
    for task in made.plan(store, True).tasks:
        if task.cell.key == best.cell:
            (other.folder(task.key) / "result.json").unlink()
            failure = Failure(reason="diverged", message="loss is not finite")
            ended = build(task, failure, started=datetime.now(UTC), wall_seconds=1.0, provenance={})
            other.publish(ended)
    again = record(made, other).searches[0].studies[0]
    lost = again.trials[best.number]
    assert (lost.score, lost.failed) == (0.0, len(lost.scores))
    assert again.chosen != best.number
    assert made.results(other)[0].studies[0].trials[best.number].errors == []


def test_the_record_is_read_as_written(undisturbed: Undisturbed) -> None:
    store, _, found = undisturbed
    write_tune(store, found)
    assert read_tunes(store) == {"fair": found}


def test_the_checksum_ignores_when_and_how_fast(undisturbed: Undisturbed) -> None:
    _, _, found = undisturbed
    later = found.model_copy(
        update={
            "made": "later",
            "searches": [each.model_copy(update={"seconds": 9.0}) for each in found.searches],
        }
    )
    assert later.checksum == found.checksum
    assert found.model_copy(update={"seed": 1}).checksum != found.checksum


def test_a_run_takes_the_values_of_the_median_study(undisturbed: Undisturbed, tmp_path: Path) -> None:
    _, _, found = undisturbed
    file = tmp_path / "fair.tuned.toml"
    file.write_text(recipe_text(found))
    plan = make_plan(*read_sweep({"grid": list(GRIDS), "recipe": str(file), "models": 1}, "fair"), None)
    by_level = {(each.method, each.levels.get("epsilon")): each.chosen for each in found.searches}
    for cell in plan.cells:
        study = by_level[cell.method.name, cell.params.get("epsilon")]
        assert study is not None and study.winner is not None
        assert cell.params.items() >= study.winner.params.items()
        assert cell.seed == 0
    assert {task.notes.tune for task in plan.tasks if task.kind == "train"} == {found.checksum}


def test_a_gap_leaves_out_what_fits_its_members(undisturbed: Undisturbed, tmp_path: Path) -> None:
    store, made, _ = undisturbed
    plain = replace(made, table=replace(made.table, confirm=0, max_gap=0.0))
    (found,) = [each for each in plain.results(store) if each.search.method == "sgd"]
    assert all(study.chosen is None or study.chosen.gap <= 0 for study in found.studies)


class Own(OwnData):
    """A plug-in's workload: three classes that can be told apart."""

    def pool(self) -> Records:
        return spread(600, 1)

    def test(self) -> Records:
        return spread(60, 2)


def spread(count: int, seed: int) -> Records:
    labels = torch.arange(count) % 3
    x = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))
    return Records(x + 2 * torch.nn.functional.one_hot(labels, 5), labels)


def test_a_workload_of_a_plug_in_is_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Own(n_train=100)
    monkeypatch.setitem(workloads.family.members, own.name, own)
    store = Store.open(tmp_path, create=True)
    made = tune(
        {"workload": own.name, "method": "sgd"}, {"workload": own.name, "method": "dp-sgd", "epsilon": 8}
    )
    train(made, store)
    found = record(made, store)
    assert [each.method for each in found.searches] == ["dp-sgd", "sgd"]
    assert all(each.chosen is not None and each.chosen.score > 0.5 for each in found.searches)


def test_unsolved_noise_is_solved_once_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told: list[tuple[int, int]] = []
    twice = [GRIDS[1] | {"epsilon": 8}, {**GRIDS[1], "method": "dpsgd-ts", "epsilon": 8}]
    tune(*twice, trials=2, studies=1, told=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]  # the two methods have the same noise at the same points
    tune(*twice, trials=2, studies=1, told=lambda done, total: told.append((done, total)))
    assert len(told) == 2


def test_many_are_solved_in_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    told: list[tuple[int, int]] = []
    made = tune(
        GRIDS[1] | {"epsilon": [4, 8]},
        trials=8,
        studies=1,
        told=lambda done, total: told.append((done, total)),
    )
    assert told == [(number, 16) for number in range(1, 17)]
    assert all(each.cell is not None for each in made.trials)
