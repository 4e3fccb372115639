import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.backends.status import refuse_unfinished
from harness.cli.app import app
from harness.plan.plan import purged_trainings
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Cell, Plugin, Task
from harness.store import Store
from harness.store import purge as module
from harness.store.checks import PURGED
from harness.store.purge import holdings, purge
from tests.harness.simulated import ended, sweep_record
from workloads.errors import StoreError

CELL = Cell(Plugin("digits-linear", "1"), 100, Plugin("sgd", "1"), {"steps": 3}, seed=0)
TRAINING = Task("train", CELL, index=0)
ATTACK = Task("attack", CELL, models=1, attack=Plugin("loss", "1"))
ROWS = "select * from task order by key"


def finish(store: Store, task: Task, *artefacts: str) -> None:
    """A result that lists these artefacts, and the leftovers of a crashed copy of the task."""
    store.add(task)
    listed = {
        name.split(".")[0]: store.write_artefact(task.key, name, name.encode() * 99) for name in artefacts
    }
    folder = store.folder(task.key)
    (folder / "log.txt").write_text("said\n")
    (folder / ".signals-of-a-crash").write_bytes(b"half")
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "7.safetensors").write_bytes(b"state")
    store.publish(ended(task, artefacts=listed))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store.open(tmp_path / "store", create=True)
    finish(made, TRAINING, "model.safetensors", "signals.safetensors", "steps.parquet")
    finish(made, ATTACK, "scores.safetensors")
    made.write_sweep(sweep_record("both", TRAINING, ATTACK))
    made.write_sweep(sweep_record("half", TRAINING))
    return made


def names(store: Store, task: Task) -> set[str]:
    return {entry.name.split("-")[0] for entry in store.folder(task.key).iterdir()}


def test_member_data_are_deleted_and_results_stay(store: Store) -> None:
    before = {task.key: store.result(task.key) for task in (TRAINING, ATTACK)}
    freed = purge(store, holdings(store))
    assert freed == sum(
        each.bytes
        for result in before.values()
        if result
        for name, each in result.artefacts.items()
        if name != "steps"
    ) + 2 * len(b"half" + b"state")
    assert names(store, TRAINING) == {"spec.json", "result.json", "log.txt", "steps", PURGED}
    assert names(store, ATTACK) == {"spec.json", "result.json", "log.txt", PURGED}
    assert {task.key: store.result(task.key) for task in (TRAINING, ATTACK)} == before
    assert holdings(store) == []


def test_only_the_named_sweep_loses_its_artefacts(store: Store) -> None:
    assert {each.key for each in holdings(store, "half")} == {TRAINING.key}
    purge(store, holdings(store, "half"))
    assert "scores" in names(store, ATTACK)
    with pytest.raises(StoreError, match=r"no sweep 'nowhere'.*Known: both, half"):
        holdings(store, "nowhere")


def test_open_tasks_keep_their_checkpoints(store: Store) -> None:
    (store.folder(TRAINING.key) / "result.json").unlink()
    purge(store, holdings(store))
    assert {"checkpoint", "model", "signals"} <= names(store, TRAINING)


def test_a_purged_artefact_is_noted_and_a_lost_one_makes_the_result_invalid(store: Store) -> None:
    purge(store, holdings(store))
    result = store.result(TRAINING.key)
    assert result is not None
    with pytest.raises(StoreError, match=r"signals-.* was purged: run its sweep again"):
        store.read_artefact(result, "signals")
    store.artefact(result, "steps").unlink()  # this one was not purged
    assert store.result(TRAINING.key) is None


@pytest.mark.parametrize("note", ["", "[]", '{"files": 3}', '{"files": ["other"]}'])
def test_a_broken_note_excuses_nothing(store: Store, note: str) -> None:
    purge(store, holdings(store))
    (store.folder(TRAINING.key) / PURGED).write_text(note)
    assert store.result(TRAINING.key) is None


def test_killed_at_any_deletion_every_result_stays_valid_and_a_rerun_deletes_the_rest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink, left = Path.unlink, 3

    def die(file: Path, missing_ok: bool = False) -> None:
        nonlocal left
        left -= not file.name.startswith(f".{PURGED}")
        if left == 0:
            raise KeyboardInterrupt
        unlink(file, missing_ok)

    runs = 0
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", die)
        while found := holdings(store):
            runs, left = runs + 1, 3
            try:
                purge(store, found)
            except KeyboardInterrupt:
                assert all(store.result(task.key) for task in (TRAINING, ATTACK))
    assert runs > 2
    assert names(store, TRAINING) == {"spec.json", "result.json", "log.txt", "steps", PURGED}


def test_nothing_outside_the_store_is_deleted(store: Store, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    folder = store.folder(ATTACK.key)
    (folder / "link").symlink_to(outside / "precious")
    (folder / "checkpoint" / "7.safetensors").unlink()
    (folder / "checkpoint").rmdir()
    (folder / "checkpoint").symlink_to(outside)
    elsewhere = tmp_path / "elsewhere"
    store.folder(TRAINING.key).rename(elsewhere)
    store.folder(TRAINING.key).symlink_to(elsewhere)
    purge(store, holdings(store))
    assert (outside / "precious").read_text() == "x"
    assert any(file.name.startswith("model") for file in elsewhere.iterdir())
    assert not (folder / "link").is_symlink()


def test_it_refuses_while_a_task_runs(store: Store) -> None:
    word = {"pid": os.getpid(), "time": time.time(), "phase": "train", "done": 1, "total": 2}
    (store.folder(TRAINING.key) / "heartbeat").write_text(json.dumps(word))
    with pytest.raises(StoreError, match="is running: wait"):
        holdings(store)


def test_it_refuses_while_a_sweep_waits(store: Store) -> None:
    (store.queue / "1.json").write_text(json.dumps({"sweep": "half", "settings": {}, "jobs": []}))
    with pytest.raises(StoreError, match="sweep 'half' is running or queued: wait for it, or"):
        refuse_unfinished(store)


def test_only_a_purged_success_can_be_forgotten(store: Store) -> None:
    store.reset(TRAINING.key)
    assert store.result(TRAINING.key) is not None
    assert purged_trainings([ATTACK], store) == frozenset()
    purge(store, holdings(store))
    assert purged_trainings([ATTACK], store) == {TRAINING.key}
    store.reset(TRAINING.key)
    assert store.result(TRAINING.key) is None
    assert not (store.folder(TRAINING.key) / PURGED).exists()
    assert purged_trainings([ATTACK], store) == frozenset()


def test_the_command_asks_for_confirmation_and_reports(store: Store) -> None:
    def call(*words: str) -> str:
        done = CliRunner().invoke(app, ["purge", *words, "--store", str(store.path)])
        return done.stdout + str(done.exception or "")

    assert "give what to delete: --artefacts" in call()
    assert "give --yes, or --dry-run" in call("--artefacts")
    assert "Would delete 7 files of 2 tasks" in call("--artefacts", "--dry-run")
    assert len(module.holdings(store)) == 2
    summary = json.loads(call("--artefacts", "--yes", "--sweep", "half", "--json"))
    assert (summary["tasks"], summary["files"], summary["deleted"]) == (1, 4, True)
    assert "Deleted 3 files of 1 tasks" in call("--artefacts", "--yes")
    assert "Nothing to delete" in call("--artefacts", "--yes")


@pytest.mark.slow
def test_rows_stay_and_a_new_attack_retrains(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def privbench(command: str, *words: str) -> str:
        what = ["--workload", "digits-linear", "--method", "sgd", "--models", "2", "--set", "steps=3"]
        line = [sys.executable, "-m", "harness.cli", command, *what, "--store", str(path), *words]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    privbench("run", "--attack", "loss")
    before = query(path, ROWS).rows
    frontier = query(path, "select * from frontier order by attack").rows
    purge(Store.open(path), holdings(Store.open(path)))
    collect(path, rebuild=True)
    assert query(path, ROWS).rows == before
    assert query(path, "select * from frontier order by attack").rows == frontier
    planned = json.loads(privbench("plan", "--attack", "loss", "--no-probe", "--json"))
    assert (planned["to_run"], planned["purged"]) == (0, 0)
    planned = json.loads(privbench("plan", "--attack", "population", "--no-probe", "--json"))
    assert (planned["to_run"], planned["purged"]) == (3, 2)  # two trainings, and the attack
    privbench("run", "--attack", "population")
    accuracies = "select attack, accuracy from frontier order by attack"
    after = dict(query(path, accuracies).rows)
    assert after.keys() == {"loss", "population", "rmia"}
    assert len(set(after.values())) == 1  # the same bits as before


@pytest.mark.slow
def test_further_models_do_not_retrain_purged_ones_for_an_attack_that_does_not_fit(tmp_path: Path) -> None:
    """The blind check needs non-members, and here every record is a member."""

    def privbench(command: str, models: int, *words: str) -> str:
        what = ["--workload", "digits-linear", "--method", "sgd", "--models", str(models)]
        what += ["--set", "steps=3", "--n-train", "1437", "--store", str(tmp_path / "store")]
        line = [sys.executable, "-m", "harness.cli", command, *what, *words]
        return subprocess.run(line, check=True, capture_output=True, text=True).stdout

    privbench("run", 2)
    store = Store.open(tmp_path / "store")
    purge(store, holdings(store))
    planned = json.loads(privbench("plan", 3, "--no-probe", "--json"))
    assert (planned["to_run"], planned["purged"]) == (1, 0)
