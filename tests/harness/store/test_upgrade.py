"""A store of an earlier protocol is read, marked and never mixed. tests/data holds one, thinned."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save
from typer.testing import CliRunner

from harness.backends.base import Settings
from harness.backends.status import Progress
from harness.cli.app import app
from harness.enqueue import resend
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.report.reading import read
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import PROTOCOL, Json, despelled, key_of
from harness.store import Store
from harness.store.checks import PURGED
from harness.store.files import checksum, dump
from workloads.errors import StoreError

OLD = Path(__file__).resolve().parents[2] / "data" / "store-of-protocol-0"
SWEEP = {
    "models": 2,
    "attacks": ["loss"],
    "grid": [{"workload": "digits-linear", "method": "sgd"}],
}


@pytest.fixture
def old(tmp_path: Path) -> Store:
    shutil.copytree(OLD, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    for folder in store.folders():
        keep_scores(store, json.loads((folder / "result.json").read_text()))
    return store


def keep_scores(store: Store, result: Json) -> None:
    """Restore the scores of a thinned attack, since its figures are computed from them."""
    if result["kind"] == "attack":
        members = np.tile([True, False], (8, 100))
        noise = np.random.default_rng(0).standard_normal(members.shape)
        stored = {"scores": noise + 0.1 * members, "members": members}
        kept = store.write_artefact(result["key"], "scores.safetensors", save(stored))
        result["artefacts"]["scores"] = kept.model_dump()
    sound = {name: value for name, value in result.items() if name != "checksum"}
    (store.folder(result["key"]) / "result.json").write_bytes(dump({**sound, "checksum": checksum(sound)}))


def renew(store: Store, accuracy: float) -> None:
    """The same tasks under the current protocol beside the old ones, as after a rerun of the sweep."""
    for folder in store.folders():
        spec: Json = json.loads((folder / "spec.json").read_text())
        result: Json = json.loads((folder / "result.json").read_text())
        spec["task"]["protocol"] = PROTOCOL
        spec["notes"]["cell"] = key_of({"cell": PROTOCOL})
        result["key"] = key_of(despelled(spec["task"]))
        if result["kind"] == "train":
            result["metrics"]["test_accuracy"] = accuracy
        target = store.folder(result["key"])
        target.mkdir(parents=True)
        (target / "spec.json").write_bytes(dump(spec))
        keep_scores(store, result)


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return query(store.path, sql).rows


def test_the_store_has_an_earlier_protocol() -> None:
    assert json.loads((OLD / "store.json").read_text())["protocol"] < PROTOCOL


def test_old_tasks_are_collected_and_carry_their_protocol(old: Store) -> None:
    done = collect(old.path)
    assert (done.total, done.broken) == (4, ())
    for table in ("task", "cell", "frontier", "overhead", "runs"):
        assert {protocol for (protocol,) in rows(old, f"select protocol from {table}")} == {0}


@pytest.mark.slow
def test_old_and_new_rows_are_never_on_one_front_nor_in_one_group(old: Store) -> None:
    renew(old, accuracy=0.999)  # it would push the old row off the front
    assert collect(old.path).total == 8
    fronts = rows(old, "select protocol, on_front from frontier order by protocol")
    assert fronts == [(0, True), (PROTOCOL, True)]
    assert read(old.path).groups == ["digits-linear", "digits-linear, protocol 0"]


def test_no_plan_takes_an_old_result_for_its_own(old: Store) -> None:
    plan = make_plan(*read_sweep(SWEEP, "old"), old)
    assert not plan.done
    assert not {task.key for task in plan.tasks} & old.keys()


def test_an_old_task_is_not_run_and_not_resubmitted(old: Store) -> None:
    key = old.sweep("old").tasks[0].key
    with pytest.raises(StoreError) as raised:
        old.task(key).refuse_other_protocol()
    assert (raised.value.value, raised.value.allowed) == (0, PROTOCOL)
    with pytest.raises(StoreError, match="enqueue the sweep again to plan new tasks"):
        resend(old, "old", "local", Settings())


def test_status_shows_the_protocol(old: Store) -> None:
    progress = Progress.of(old, "old")
    assert progress.over
    assert progress.summary()["protocol"] == 0
    printed = CliRunner().invoke(app, ["status", "--store", str(old.path)]).stdout
    assert f"old was measured under protocol 0, not {PROTOCOL}: its rows are kept separate" in printed


def test_an_old_store_can_be_worked_in_and_purged(old: Store) -> None:
    done = CliRunner().invoke(app, ["purge", "--artefacts", "--yes", "--store", str(old.path)])
    assert "Deleted 2 files of 2 tasks" in done.stdout
    assert len(list(old.tasks.rglob(PURGED))) == 2
