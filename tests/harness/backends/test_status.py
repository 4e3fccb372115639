import json
import time
from pathlib import Path

import pytest

from harness.backends.machine.queue import only_one, supervisor_summary
from harness.backends.status import Progress
from harness.cli.output import alarms
from harness.spec import PROTOCOL, Cell, Plugin, Task
from harness.store import HEARTBEAT_STALE_SECONDS, Store, heartbeat
from tests.harness.simulated import ended, sweep_record
from workloads.errors import StoreError

CELLS = [Cell(Plugin("w", "1"), 5, Plugin("dp-sgd", "1"), {"epsilon": e}, 0) for e in (1.0, 4.0)]
TASKS = [Task("train", cell, index=index) for cell in CELLS for index in range(2)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store", create=True)
    for task in TASKS:
        store.add(task)
    store.write_sweep(sweep_record("sweep", *TASKS))
    return store


def end(store: Store, task: Task, reason: str | None = None) -> None:
    assert store.publish(ended(task, "failed" if reason else "done", reason=reason))


def say(store: Store, task: Task, age: float = 0.0) -> None:
    word = {"pid": 1, "host": "here", "time": time.time() - age, "phase": "train", "done": 3, "total": 9}
    (store.folder(task.key) / "heartbeat").write_text(json.dumps(word))


def test_tasks_are_counted_by_the_content_of_their_folders(store: Store) -> None:
    end(store, TASKS[0])
    end(store, TASKS[1])
    end(store, TASKS[2], "diverged")
    say(store, TASKS[3])
    progress = Progress.of(store, "sweep")
    assert progress.summary() == {
        "sweep": "sweep",
        "cells": 2,
        "cells_done": 1,
        "tasks": 4,
        "done": 2,
        "failed": 1,
        "running": 1,
        "waiting": 0,
        "remaining_seconds": None,
        "queued": False,
        "backend": "local",
        "protocol": PROTOCOL,
    }
    (running,) = progress.running
    assert (running.key, running.label) == (TASKS[3].key, "dp-sgd ε=4")
    assert (running.phase, running.done, running.total) == ("train", 3, 9)
    assert [each.key for each in progress.failures] == [TASKS[2].key]
    assert not progress.over


def test_an_alarm_is_in_the_summary_of_a_sweep(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    audits = []
    for cell, alarm in zip(CELLS, (True, False), strict=True):
        audit = Task("attack", cell, models=2, attack=Plugin("audit-one-run", "1"))
        store.add(audit)
        counts = {"trials": 100, "guesses": 50, "correct": 49, "canaries": 100, "copies": 1}
        bound = {"epsilon": 9.0, "confidence": 0.95, "delta": 1e-5, "epsilon_priced": 1.0, "threat": None}
        message = "epsilon is at least 9, above the computed 1"
        store.publish(ended(audit, audit={**counts, **bound, "alarm": alarm, "message": message}))
        audits.append(audit)
    store.write_sweep(sweep_record("audited", *audits))
    progress = Progress.of(store, "audited")
    assert list(progress.alarms.values()) == ["epsilon is at least 9, above the computed 1"]
    alarms(progress.alarms)
    assert "ALARM" in capsys.readouterr().out


def test_a_look_gives_what_is_new_once(store: Store) -> None:
    progress = Progress.of(store, "sweep")
    assert progress.look() == []
    end(store, TASKS[0])
    assert [each.key for each in progress.look()] == [TASKS[0].key]
    assert progress.look() == []
    for task in TASKS[1:]:
        end(store, task)
    assert len(progress.look()) == 3
    assert progress.over


def test_a_damaged_result_is_not_an_end(store: Store) -> None:
    end(store, TASKS[0])
    file = store.folder(TASKS[0].key) / "result.json"
    file.write_bytes(file.read_bytes()[:30])
    assert Progress.of(store, "sweep").summary()["done"] == 0


def test_an_old_or_broken_heartbeat_is_stale(store: Store) -> None:
    folder = store.folder(TASKS[0].key)
    assert heartbeat(folder) is None
    say(store, TASKS[0])
    assert heartbeat(folder) is not None
    say(store, TASKS[0], age=HEARTBEAT_STALE_SECONDS + 1)
    assert heartbeat(folder) is None
    (folder / "heartbeat").write_text('{"pid": ')
    assert heartbeat(folder) is None


def test_an_unknown_sweep_is_reported(store: Store) -> None:
    with pytest.raises(StoreError, match="no sweep 'swep'"):
        Progress.of(store, "swep")


def test_a_running_supervisor_is_detected_before_its_first_state(store: Store) -> None:
    assert supervisor_summary(store) == {"alive": False}
    with only_one(store):
        assert supervisor_summary(store) == {"alive": True}
