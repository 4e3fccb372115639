"""The time that the unfinished tasks of a sweep will take."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.backends.remaining import Costs, Spent, remaining, task_seconds
from harness.backends.status import Progress
from harness.cli.output import running_text, time_left
from harness.spec import Cell, Plugin, Task
from harness.store import Store
from harness.store.journal import Heartbeat, SweepEntry
from tests.harness.simulated import ended, phase, sweep_record, training

CELLS = [
    Cell(Plugin("w", "1"), 50, Plugin("dp-sgd", "1"), {"epsilon": epsilon, "steps": steps}, 0)
    for epsilon, steps in ((1.0, 100), (4.0, 300))
]
TASKS = [
    task
    for cell in CELLS
    for task in (
        *(Task("train", cell, index=index) for index in range(2)),
        *(Task("attack", cell, models=2, attack=Plugin(name, "1")) for name in ("loss", "lira")),
    )
]


def pulse(**more: Any) -> Heartbeat:
    known = {"time": 100.0, "phase": "train", "done": 30, "total": 90, "started": 70.0, "phase_started": 80.0}
    return Heartbeat.model_validate(known | more)


def entries(*tasks: Task) -> list[SweepEntry]:
    return [SweepEntry(key=task.key, kind=task.kind, cell=task.cell_key) for task in tasks]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "store", create=True)
    store.add(*TASKS)
    store.write_sweep(sweep_record("sweep", *TASKS, settings={"slots": 2}))
    return store


def end(store: Store, task: Task, seconds: float, inside: float = 0.0) -> None:
    more = training(task, 0.9) if task.kind == "train" else {}
    if more:
        steps = int(task.cell.params["steps"])
        more["phases"] = {"train": phase(steps, inside / steps, 0) | {"total_seconds": inside}}
    assert store.publish(ended(task, wall_seconds=seconds, **more))


def say(store: Store, task: Task, **more: Any) -> None:
    now = time.time()
    known = {"time": now, "phase": "train", "done": 40, "total": 100, "started": now - 9}
    file = store.folder(task.key) / "heartbeat"
    file.write_text(json.dumps({**known, "phase_started": now - 8, **more}))


def test_the_pace_of_a_phase_gives_the_time_left() -> None:
    assert task_seconds(pulse(), None) == pytest.approx(20.0 / 30 * 60)


def test_steps_done_before_a_resume_are_not_credited_to_this_process() -> None:
    assert task_seconds(pulse(phase_done=20), None) == pytest.approx(20.0 / 10 * 60)


def test_later_phases_count_by_the_usual_time() -> None:
    assert task_seconds(pulse(), 500.0) == pytest.approx(500.0 - 30.0)
    assert task_seconds(pulse(), 10.0) == pytest.approx(40.0), "it takes longer than usual"


def test_a_heartbeat_without_a_start_says_nothing() -> None:
    assert task_seconds(pulse(started=None, phase_started=None), 500.0) is None
    assert task_seconds(pulse(done=0), None) is None


def test_slots_share_the_work_but_not_a_task() -> None:
    assert remaining({"a": 10.0, "b": 2.0}, [4.0, 4.0], 2).seconds == pytest.approx(10.0)
    assert remaining({"a": 10.0}, [20.0, 30.0], 2).seconds == pytest.approx(30.0)
    assert remaining({}, [20.0, 30.0], 0).seconds == pytest.approx(50.0)
    unknown = remaining({"a": 1.0}, [None], 2)
    assert unknown.seconds is None and unknown.reason


def test_costs_are_those_of_the_same_cell_then_kind_then_place(store: Store) -> None:
    spent = {
        TASKS[0].key: Spent(12.0, 10.0),
        TASKS[2].key: Spent(1.0, 0.0),
        TASKS[3].key: Spent(5.0, 0.0),
    }
    tasks = entries(*TASKS)
    costs = Costs(store, tasks, spent)
    assert costs.of(tasks[1]) == 12.0
    assert costs.of(tasks[4]) == pytest.approx(2.0 + 3 * 10.0), "three times the steps"
    assert (costs.of(tasks[6]), costs.of(tasks[7])) == (1.0, 5.0)


def test_costs_before_anything_has_ended(store: Store) -> None:
    tasks = entries(*TASKS)
    costs = Costs(store, tasks, {})
    assert costs.of(tasks[0]) is None
    assert costs.of(tasks[2]), "an attack can be assumed"


def test_a_running_sweep_states_what_runs_and_for_how_long(store: Store) -> None:
    end(store, TASKS[0], 12.0, 10.0)
    say(store, TASKS[1])
    progress = Progress.of(store, "sweep")
    (running,) = progress.running
    assert (running.workload, running.attack, running.kind) == ("w", None, "train")
    assert running.seconds == pytest.approx(9.0)
    assert running.remaining_seconds == pytest.approx(12.0)
    shown = running_text(running)
    assert all(part in shown for part in ("w", "dp-sgd ε=1", "train 40/100"))
    summary = progress.summary()
    attacks = sum(progress.costs.of(each) or 0 for each in entries(*TASKS[2:4], *TASKS[6:]))
    assert summary["remaining_seconds"] == pytest.approx((12.0 + 2 * 32.0 + attacks) / 2, rel=0.05)
    assert "left" in time_left(progress.remaining)


def test_before_a_training_has_ended_the_running_one_is_the_measure(store: Store) -> None:
    say(store, TASKS[0])
    left = Progress.of(store, "sweep").remaining
    assert left.seconds is not None
    assert left.seconds > 12.0


def test_what_does_not_run_has_no_end_and_what_is_over_no_rest(store: Store) -> None:
    assert Progress.of(store, "sweep").remaining.seconds is None
    for task in TASKS:
        end(store, task, 1.0, 0.5)
    assert Progress.of(store, "sweep").remaining.seconds == 0.0


def test_unreadable_specs_leave_the_median(store: Store) -> None:
    end(store, TASKS[0], 12.0, 10.0)
    for task in TASKS[1:]:
        (store.folder(task.key) / "spec.json").write_text("{")
    tasks = entries(*TASKS)
    costs = Costs(store, tasks, {TASKS[0].key: Spent(12.0, 10.0)})
    assert costs.of(tasks[4]) == 12.0
    assert costs.of(tasks[6]) is None


def test_a_bench_counts_by_its_settings(store: Store) -> None:
    from harness.spec import Timing
    from tests.harness.simulated import cell

    on = cell("w", "sgd")
    bench = replace(Task("bench", on), timing=Timing({"sgd": on}, 64, {"seconds": 7.0}))
    store.add(bench)
    assert Costs(store, entries(bench), {}).of(*entries(bench)) == pytest.approx(14.0)


def test_the_time_left_is_found_without_torch() -> None:
    code = "import sys, harness.backends.status, harness.cli.terminal.watch; print('torch' in sys.modules)"
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=here)
    assert done.stdout.strip() == "False"
