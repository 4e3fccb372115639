import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy import stats

import db
from harness.results.collect import collect
from harness.spec import Cell, Notes, Task
from harness.store import Store, read_result
from harness.store.files import checksum, dump
from harness.store.result import Result
from tests.harness.simulated import MODELS, STEPS, attack, cell, cells, fill, leakage, publish, training
from workloads.errors import StoreError


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store.open(tmp_path_factory.mktemp("filled") / "store", create=True)
    fill(store)
    return store.path


@pytest.fixture(scope="module")
def collected(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A collected store for tests that only read."""
    path = shutil.copytree(filled, tmp_path_factory.mktemp("collected") / "store")
    collect(path)
    return Store(path)


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Store:
    """A store for one test, not yet collected."""
    return Store(shutil.copytree(filled, tmp_path / "store"))


def rows(path: Path, sql: str) -> list[dict[str, Any]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        cursor = connection.execute(sql)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def everything(path: Path) -> dict[str, list[str]]:
    """All rows of all tables and views, in a fixed order."""
    names = [*db.Base.metadata.tables, *db.view_names()]
    return {name: sorted(map(repr, rows(path, f"from {name}"))) for name in names}


@pytest.mark.slow
def test_every_task_becomes_a_row_and_nothing_is_collected_twice(store: Store) -> None:
    first = collect(store.path)
    before = everything(store.database)
    again = collect(store.path)
    assert (first.new, first.changed, first.gone, first.total) == (45, 0, 0, 45)
    assert (again.new, again.changed, again.gone, again.total) == (0, 0, 0, 45)
    assert not first.broken
    assert {name: len(each) for name, each in before.items()} == {
        "privbench_schema": 1,
        **dict.fromkeys(("task", "task_stamp"), 45),
        "cell": 8,
        "model_run": 25,
        "attack_result": 19,
        # per phase 5 quantiles of the step and of one clock, and single steps: 24 of 30 and one of 833 + 1000
        "step_time": 25 * 2 * 10 + 24 * STEPS + 833 + 1000,
        "model_cost": 25,
        "frontier": 13,
        "overhead": 7,
        "failures": 1,
        **dict.fromkeys(("audit", "audit_result", "attribute", "attribute_result"), 0),
        **dict.fromkeys(("reconstruction", "reconstruction_result", "conflicts"), 0),
        "newest_attack": 19,
        "runs": 25,
        "comparison": 20,
        "comparison_result": 20,
        "front_result": 7,
        "tried": 8,
        **dict.fromkeys(("tune_result", "search", "search_result", "trial", "trial_result"), 0),
        **dict.fromkeys(("bench_result", "bench_match", "bench"), 0),
        **dict.fromkeys(
            ("sweep", "sweep_task", "cell_sweep", "task_sweep", "forgotten", "forgotten_result"), 0
        ),
        "published": 846,
        "published_match": 0,
        "reproduction": 846,
        "baseline": 0,
    }
    assert everything(store.database) == before


@pytest.mark.slow
def test_rows_hold_the_content_of_the_files(collected: Store) -> None:
    each = cells("digits-linear")[1]
    key = Task("train", each, index=2).key
    result = collected.result(key)
    assert result is not None
    (run,) = rows(collected.database, f"from model_run where task = '{key}'")
    assert run["cell"] == each.key
    assert run["index"] == 2
    assert run["test_accuracy"] == result.training.metrics.test_accuracy
    assert run["nonmember_accuracy"] == result.training.metrics.nonmember_accuracy
    assert (run["epsilon"], run["epsilon_pld"], run["epsilon_rdp"]) == (1.0, 1.0, 1.25)
    assert run["epsilon_paper"] == 0.75
    assert json.loads(run["assumptions"]) == ["poisson sampling"]
    assert run["ceiling_by"] == "epsilon-delta twice", "a result from before ceilings were stored"
    assert run["ceiling_tpr_at_1pct"] == pytest.approx(0.0739277438)
    # `train` takes 20 x 0.02 s and `warm` 10 x 0.005 s; the worst memory is of `warm`.
    assert (run["phase"], run["steps"]) == ("train", 20)
    assert run["step_seconds_median"] == 0.02
    assert run["step_cpu_seconds_p75"] == pytest.approx(0.044)
    assert run["train_seconds"] == pytest.approx(0.45)
    assert (run["peak_memory_bytes"], run["extra_memory_bytes"]) == (1700, 700)
    (task,) = rows(collected.database, f"from task where key = '{key}'")
    assert str(task["started"]) == "2026-01-02 03:04:05"
    assert (task["host"], task["threads"], task["protocol"]) == ("here", 2, 1)
    assert json.loads(task["spec"]) == collected.task(key).file()["task"]
    assert (collected.path / task["steps_file"]).is_file()


def test_stored_ceilings_are_kept_as_they_are(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    task = Task("train", cells("digits-linear")[1])
    payload = training(task, 0.9)
    rates = {"0.1": 0.4, "0.01": 0.3, "0.001": 0.2, "0.0001": 0.1}
    curve = {"fpr": [0.0, 1.0], "tpr": [0.05, 1.0]}
    payload["guarantee"]["ceilings"] = {
        "by": "pld twice", "auc": 0.7, "gap": 0.25, "tpr": rates, "curve": curve
    }  # fmt: skip
    publish(store, task, payload)
    collect(store.path)
    (run,) = rows(store.database, "from model_run")
    assert (run["ceiling_by"], run["ceiling_auc"], run["ceiling_gap"]) == ("pld twice", 0.7, 0.25)
    names = ("10pct", "1pct", "0p1pct", "0p01pct")
    assert [run[f"ceiling_tpr_at_{name}"] for name in names] == [0.4, 0.3, 0.2, 0.1]
    assert json.loads(run["ceiling_curve"]) == curve


def test_an_infinite_epsilon_is_a_number(collected: Store) -> None:
    asked = rows(collected.database, "select epsilon_asked from cell where label = 'dp-sgd ε=inf'")
    assert [each["epsilon_asked"] for each in asked] == [math.inf, math.inf]


def test_a_tpr_without_resolution_is_null_with_its_reason(collected: Store) -> None:
    for row in rows(collected.database, "from frontier"):
        assert row["tpr_at_1pct"] == row["auc"] / 2
        assert row["tpr_at_1pct_reason"] is None
        assert row["tpr_at_0p01pct"] is None
        assert row["tpr_at_0p01pct_reason"] == "needs N >= 100000"


def test_accuracy_and_its_interval_are_over_the_models_of_the_attack(collected: Store) -> None:
    for row in rows(collected.database, "from frontier where models > 1"):
        values = np.array(
            [
                each["test_accuracy"]
                for each in rows(
                    collected.database, f"from model_run where cell = '{row['cell']}' order by index"
                )
            ]
        )
        low, high = stats.t.interval(0.95, MODELS - 1, values.mean(), stats.sem(values))
        assert row["accuracy"] == pytest.approx(values.mean(), rel=1e-12)
        assert row["accuracy_low"] == pytest.approx(low, rel=1e-9)
        assert row["accuracy_high"] == pytest.approx(high, rel=1e-9)


def test_one_model_has_no_interval(collected: Store) -> None:
    (row,) = rows(collected.database, "from frontier where models = 1")
    assert row["accuracy"] == 0.75
    assert row["accuracy_low"] is None
    assert row["accuracy_high"] is None


def test_the_front_is_pareto_over_valid_rows(collected: Store) -> None:
    table = rows(collected.database, "from frontier")
    for row in table:
        rivals = [
            each
            for each in table
            if each["valid"] and all(each[name] == row[name] for name in ("workload", "attack"))
        ]
        beaten = any(
            each["accuracy"] >= row["accuracy"]
            and each["auc"] <= row["auc"]
            and (each["accuracy"], each["auc"]) != (row["accuracy"], row["auc"])
            for each in rivals
        )
        assert row["on_front"] == (row["valid"] is True and not beaten)
    assert {row["valid"] for row in table} == {True, False, None}
    assert {row["on_front"] for row in table} == {True, False}


def test_cost_is_reported_relative_to_sgd(collected: Store) -> None:
    cost = rows(collected.database, "from overhead where models = 4 order by workload, step_seconds")
    assert [row["example_overhead"] for row in cost] == pytest.approx([1, 2, 3, 1, 2, 3])
    assert [row["training_overhead"] for row in cost] == pytest.approx([1, 2, 3, 1, 2, 3])
    assert {(row["batch_size"], row["overhead_by"], row["step_overhead"]) for row in cost} == {
        (64, "per example", None)
    }
    assert [row["memory_overhead"] for row in cost] == [1.0] * 6
    assert [row["step_seconds_p25"] / row["step_seconds"] for row in cost] == pytest.approx([0.9] * 6)
    frontier = rows(collected.database, "from frontier where method = 'sgd'")
    assert [row["example_overhead"] for row in frontier] == [1.0] * 4


def test_a_failure_is_a_row(collected: Store) -> None:
    (row,) = rows(collected.database, "from failures")
    assert (row["reason"], row["label"], row["epsilon"]) == ("diverged", "dp-sgd ε=8", 8.0)
    assert row["message"] == "loss is not finite at step 3"


@pytest.mark.slow
def test_the_tries_of_a_cell_are_the_most_of_any_task(store: Store) -> None:
    each = cells("digits-mlp")[1]
    publish(store, attack(Cell(**vars(each)), "rmia"), leakage(0.6))
    task = attack(each, "quantile")
    publish(store, Task(**{**vars(task), "notes": Notes(tried=9)}), leakage(0.6))
    collect(store.path)
    (row,) = rows(store.database, f"from cell where key = '{each.key}'")
    assert row["tried_before"] == 9
    shutil.rmtree(store.folder(task.key))
    collect(store.path)
    (row,) = rows(store.database, f"from cell where key = '{each.key}'")
    assert row["tried_before"] != 9, "of the tasks that are left"


@pytest.mark.slow
def test_a_cell_is_deleted_with_its_last_task(store: Store) -> None:
    each = cell("digits-mlp", "dp-sgd", epsilon=2.5)
    lone = Task("train", each)
    publish(store, lone, training(lone, 0.7))
    collect(store.path)
    before = rows(store.database, "from cell")
    shutil.rmtree(store.folder(lone.key))
    collect(store.path)
    assert [row for row in before if row["key"] != each.key] == rows(store.database, "from cell")
    assert len(rows(store.database, "from cell")) == len(before) - 1


@pytest.mark.slow
def test_of_what_looks_as_it_did_only_the_cells_of_what_does_not_are_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect(store.path)
    read: list[str] = []
    task = Store.task

    def noted(store: Store, key: str) -> Task:
        read.append(key)
        return task(store, key)

    monkeypatch.setattr(Store, "task", noted)
    each = cells("digits-mlp")[1]
    new = attack(each, "rmia")
    publish(store, new, leakage(0.6))
    collect(store.path)
    siblings = {row["key"] for row in rows(store.database, f"from task where cell = '{each.key}'")}
    assert len(siblings) > 1
    assert set(read) == siblings


def test_single_steps_are_thinned_evenly_and_keep_both_ends(collected: Store) -> None:
    key = Task("train", cell("digits-mlp", "dp-sgd", epsilon=4.0)).key
    sql = f"from step_time where task = '{key}' and phase = 'train' and step is not null order by step"
    kept = rows(collected.database, sql)
    gaps = np.diff([row["step"] for row in kept])
    assert len(kept) == 1000
    assert (kept[0]["step"], kept[-1]["step"]) == (833, 2499)
    assert set(gaps) == {1, 2}
    assert kept[-1]["wall_seconds"] == pytest.approx(2.5)


@pytest.mark.slow
def test_a_retried_task_replaces_its_rows(store: Store) -> None:
    task = Task("train", cell("digits-mlp", "dp-sgd", epsilon=8.0))
    collect(store.path)
    publish(store, task, training(task, 0.7))
    done = collect(store.path)
    assert (done.new, done.changed, done.total) == (0, 1, 45)
    assert rows(store.database, "from failures") == []
    assert len(rows(store.database, f"from model_run where task = '{task.key}'")) == 1


@pytest.mark.slow
def test_rebuilding_gives_the_rows_of_keeping_up(store: Store) -> None:
    task = Task("train", cell("digits-mlp", "dp-sgd", epsilon=8.0))
    publish(store, task, training(task, 0.7))
    collect(store.path)
    shutil.rmtree(store.folder(task.key))
    shutil.rmtree(store.folder(attack(cells("digits-mlp")[0], "lira").key))
    publish(store, attack(cells("digits-mlp")[1], "rmia"), leakage(0.6))
    kept = collect(store.path)
    kept_rows = everything(store.database)
    anew = collect(store.path, rebuild=True)
    assert (kept.new, kept.changed, kept.gone, kept.total) == (1, 0, 2, 44)
    assert (anew.new, anew.total, anew.rebuilt) == (44, 44, True)
    assert everything(store.database) == kept_rows
    assert sorted(each.name for each in store.path.iterdir() if "duckdb" in each.name) == ["privbench.duckdb"]


@pytest.mark.slow
def test_many_batches_give_the_rows_of_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    collect(store.path)
    one = everything(store.database)
    monkeypatch.setattr("harness.results.collect.BATCH", 2)
    collect(store.path, rebuild=True)
    assert everything(store.database) == one


@pytest.mark.slow
def test_unchanged_tasks_are_not_reread(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    collect(store.path)
    read: list[str] = []

    def noted(folder: Path) -> Result | None:
        read.append(folder.name)
        return read_result(folder)

    monkeypatch.setattr("harness.results.collect.read_result", noted)
    task = Task("train", cells("digits-mlp")[0])
    (store.folder(task.key) / "log.txt").write_text("somebody looked")
    assert collect(store.path).total == 45
    assert read == []
    (file,) = store.folder(task.key).glob("steps-*")
    file.write_bytes(b"x" * file.stat().st_size)
    assert (collect(store.path).total, read) == (45, [task.key])
    file.unlink()
    done = collect(store.path)
    assert (done.gone, done.total) == (1, 44)
    assert done.broken == (store.folder(task.key) / "result.json",)


def test_folders_that_are_not_tasks_are_ignored(store: Store) -> None:
    shard = store.folder(Task("train", cells("digits-mlp")[0]).key).parent
    (shard / "notes.txt").write_text("somebody's")
    (shard / "empty").mkdir()
    assert (collect(store.path).total, collect(store.path).broken) == (45, ())


@pytest.mark.slow
def test_a_copied_store_is_read_once_and_has_the_same_rows(store: Store, tmp_path: Path) -> None:
    collect(store.path)
    copied = Store(shutil.copytree(store.path, tmp_path / "copied"))
    done = collect(copied.path)
    assert (done.new, done.changed, done.gone, done.total) == (0, 0, 0, 45)
    before, after = everything(store.database), everything(copied.database)
    assert before.pop("task_stamp") != after.pop("task_stamp")
    assert before == after


def test_damaged_files_are_left_out_and_reported(store: Store) -> None:
    whole, altered, lost, odd, steps = [
        store.folder(Task("train", cells("digits-linear")[0], index=i).key) for i in range(4)
    ] + [store.folder(Task("train", cells("digits-mlp")[0]).key)]
    (whole / "result.json").write_text('{"key": "half')
    text = (altered / "result.json").read_text()
    (altered / "result.json").write_text(text.replace("0.5", "0.9"))
    (lost / "spec.json").write_text("")
    content = json.loads((odd / "result.json").read_text())
    content["metrics"]["test_accuracy"] = "very good"
    (odd / "result.json").write_bytes(dump({**content, "checksum": checksum(content)}))
    (file,) = steps.glob("steps-*")
    file.write_bytes(b"x" * file.stat().st_size)
    done = collect(store.path)
    assert done.total == 41
    assert set(done.broken) == {
        whole / "result.json",
        altered / "result.json",
        lost / "spec.json",
        odd / "result.json",
        file,
    }
    (run,) = rows(store.database, f"select test_accuracy from model_run where task = '{steps.name}'")
    assert run["test_accuracy"] is not None


@pytest.mark.slow
def test_a_database_of_another_version_is_rebuilt(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    collect(store.path)
    before = everything(store.database)
    with duckdb.connect(str(store.database)) as connection:
        connection.execute("update privbench_schema set fingerprint = 'older'")
        connection.execute("delete from task")
    done = collect(store.path)
    assert done.rebuilt
    assert "another version" in caplog.text
    assert everything(store.database) == before


def test_a_damaged_database_is_rebuilt_when_asked(store: Store) -> None:
    store.database.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="--rebuild"):
        collect(store.path)
    assert collect(store.path, rebuild=True).total == 45


@pytest.mark.slow
def test_the_log_of_a_crashed_writer_does_not_reach_the_new_database(store: Store) -> None:
    collect(store.path)
    before = everything(store.database)
    store.database.with_name("privbench.duckdb.wal").write_bytes(b"left by a crash")
    store.database.write_bytes(b"no database")
    collect(store.path, rebuild=True)
    assert everything(store.database) == before


def test_files_of_others_are_never_replaced(store: Store, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    foreign = tmp_path / "foreign.duckdb"
    with duckdb.connect(str(foreign)) as connection:
        connection.execute("create table mine (x integer)")
    for path in (notes, foreign):
        for rebuild in (False, True):
            before = path.read_bytes()
            with pytest.raises(StoreError):
                collect(store.path, database=path, rebuild=rebuild)
            assert path.read_bytes() == before


@pytest.mark.slow
def test_the_database_can_be_elsewhere(store: Store, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.duckdb"
    assert collect(store.path, database=f"duckdb:///{elsewhere}").total == 45
    assert len(rows(elsewhere, "from frontier")) == 13
    assert not store.database.exists()


def test_another_kind_of_database_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="DuckDB") as caught:
        collect(store.path, database="mysql://me:word@somewhere/results")
    assert "word" not in str(caught.value)


@pytest.mark.slow
def test_a_database_in_use_is_reported_with_the_process(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect(store.path)
    holder = (
        f"import duckdb, sys\nc = duckdb.connect({str(store.database)!r})\n"
        "print('open', flush=True)\nsys.stdin.read()"
    )
    monkeypatch.setattr(db.open_database, "__defaults__", (False, 0.2))
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        for rebuild in (False, True):
            with pytest.raises(StoreError, match=f"process {process.pid}"):
                collect(store.path, rebuild=rebuild)
        process.communicate()
    assert collect(store.path).total == 45


def test_a_missing_store_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        collect(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_store_gives_empty_views(tmp_path: Path) -> None:
    empty = Store.open(tmp_path / "store", create=True)
    assert collect(empty.path).total == 0
    assert rows(empty.database, "from frontier") == []
