"""The local backend with real processes: tasks that are killed, stopped, cancelled or shared.

The tests share a store and, unless they end them, its supervisor and workers; each has its own tasks (by
seed) and depends on no other test.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from harness.backends.base import Job, Settings
from harness.backends.local import Local
from harness.backends.machine.queue import start_supervisor, submissions, supervised
from harness.backends.machine.workers import Worker, slots
from harness.enqueue import resend, submit
from harness.spec import Task
from harness.store.files import write_atomic

if TYPE_CHECKING:
    from tests.harness.conftest import Lab

pytestmark = pytest.mark.slow

SLOW: dict[str, Any] = {"steps": 20, "pause": 0.1}


@pytest.fixture
def lab(shared_lab: "Lab") -> Iterator["Lab"]:
    """The shared store; processes left by a failed test are ended first."""
    yield shared_lab
    left = submissions(shared_lab.store)
    if left:
        shared_lab.end_all()
        for file in left:
            file.unlink(missing_ok=True)


def runs(lab: "Lab", task: Task) -> int:
    """The number of starts of a task."""
    log = lab.store.folder(task.key) / "log.txt"
    return sum(line.startswith("--- ") for line in log.read_text().splitlines()) if log.exists() else 0


def settled(lab: "Lab") -> None:
    """Wait until the supervisor has emptied its queue."""
    lab.wait(lambda: not submissions(lab.store))


def undisturbed(lab: "Lab", tasks: Sequence[Task]) -> list[tuple[object, ...]]:
    """The rows of the same tasks in an undisturbed run."""
    for task in tasks:
        (lab.store.folder(task.key) / "result.json").unlink()
    lab.send(tasks, slots=2)
    lab.wait_for(*tasks)
    return lab.rows(tasks)


def reasons(lab: "Lab", tasks: Sequence[Task]) -> list[str | None]:
    return [lab.result(task).reason for task in tasks]


def running(lab: "Lab", task: Task) -> int:
    """The process that runs a task, once it has done a step."""
    lab.wait(lambda: lab.stepping(task))
    beat = lab.beat(task)
    if beat is None:
        raise AssertionError("the task ended before it could be disturbed")
    return int(beat["pid"])


def test_work_continues_under_one_supervisor_after_the_submitter_was_killed(lab: "Lab") -> None:
    tasks = [lab.task(index) for index in range(2)]
    keys = lab.added(*tasks, lab.attack(tasks[0]))
    program = (
        "import os, signal, sys; from harness.backends.base import Job, Settings\n"
        "from harness.backends.local import Local; from harness.store import Store\n"
        "first, second, attack = sys.argv[2:]\n"
        "jobs = [Job((first,)), Job((second,)), Job((attack,), (first, second))]\n"
        "Local().submit(jobs, Store(sys.argv[1]), 'sweep', Settings(slots=2))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    began = time.monotonic()
    asked = subprocess.run([sys.executable, "-c", program, str(lab.store.path), *keys], check=False)
    assert asked.returncode == -signal.SIGKILL
    assert time.monotonic() - began < 60
    assert lab.store.result(keys[0]) is None
    for _ in range(3):
        start_supervisor(lab.store)
    lab.wait(lambda: supervised(lab.store))
    lab.wait_for(*tasks, lab.attack(tasks[0]))
    lab.wait(lambda: len(lab.supervisors()) == 1)
    assert len(lab.workers()) <= 2
    assert reasons(lab, [*tasks, lab.attack(tasks[0])]) == [None] * 3
    assert [runs(lab, task) for task in tasks] == [1, 1]
    settled(lab)


def test_an_attack_on_a_cell_that_failed_fails_as_upstream_and_alone(lab: "Lab") -> None:
    bad = [lab.task(index, trouble="diverge") for index in range(2)]
    good = [lab.task(index, seed=1) for index in range(2)]
    lab.send([*bad, lab.attack(bad[0]), *good, lab.attack(good[0])], slots=2)
    lab.wait_for(*bad, *good, lab.attack(bad[0]), lab.attack(good[0]))
    assert reasons(lab, bad) == ["diverged", "diverged"]
    assert reasons(lab, [*good, lab.attack(good[0])]) == [None] * 3
    lost = lab.result(lab.attack(bad[0]))
    assert lost.reason == "upstream"
    # The first failure is enough; which of the two it is varies.
    assert any(task.key[:12] in (lost.message or "") for task in bad)
    settled(lab)
    assert lab.send([*bad, lab.attack(bad[0])], slots=2) == 0  # a failure stands until retried
    assert resend(lab.store, "sweep", "local", Settings(slots=2)) == 3
    settled(lab)
    assert reasons(lab, bad) == ["diverged", "diverged"]
    assert [runs(lab, task) for task in bad] == [2, 2]


def test_tasks_of_two_sweeps_run_once(lab: "Lab") -> None:
    shared = [lab.task(index, seed=2, steps=5, pause=0.05) for index in range(3)]
    lab.send([*shared, lab.attack(shared[0])], "one", slots=2)
    lab.send([*shared, lab.attack(shared[0])], "two", slots=2)
    lab.wait_for(*shared, lab.attack(shared[0]))
    settled(lab)
    assert [runs(lab, task) for task in [*shared, lab.attack(shared[0])]] == [1, 1, 1, 1]


def test_a_damaged_result_is_rerun_under_the_same_supervisor(lab: "Lab") -> None:
    task = lab.task(seed=3)
    lab.send([task], slots=2)
    lab.wait_for(task)
    lab.store.artefact(lab.result(task), "signals").unlink()
    assert lab.send([task], slots=2) == 1
    lab.wait_for(task)
    settled(lab)
    assert runs(lab, task) == 2


def test_an_unreadable_spec_stops_no_other_task(lab: "Lab") -> None:
    broken, good = lab.task(seed=4), lab.task(seed=5)
    attack = lab.attack(broken, models=1)
    lab.added(broken, attack, good)
    write_atomic(lab.store.folder(broken.key) / "spec.json", b'{"task":')
    write_atomic(lab.store.folder(attack.key) / "spec.json", b"[]")
    submit([broken, attack, good], lab.store, "sweep", "local", Settings(slots=2))
    lab.wait_for(good)
    settled(lab)
    assert lab.store.result(broken.key) is None
    assert lab.send([broken, attack, good], slots=2) == 2  # which also repairs the specs
    lab.wait_for(broken, attack)
    assert reasons(lab, [broken, attack]) == [None, None]


def test_a_stopped_sweep_leaves_no_rows_and_resumes_on_request(lab: "Lab") -> None:
    tasks = [lab.task(index, seed=6, **SLOW) for index in range(4)]
    lab.send([*tasks, lab.attack(tasks[0])], "stopped", slots=2)
    running(lab, tasks[0])
    Local().stop(lab.store, "stopped", cancel=False)
    settled(lab)
    assert [lab.store.result(task.key) for task in [*tasks, lab.attack(tasks[0])]] == [None] * 5
    assert (lab.store.folder(tasks[0].key) / "checkpoint" / "warm.safetensors").exists()
    assert runs(lab, tasks[3]) == 0
    assert lab.send([*tasks, lab.attack(tasks[0])], "stopped", slots=2) == 5
    lab.wait_for(*tasks, lab.attack(tasks[0]))
    assert reasons(lab, tasks) == [None] * 4
    assert runs(lab, tasks[0]) == 2
    assert lab.rows(tasks[:1]) == undisturbed(lab, tasks[:1])


def test_a_cancelled_sweep_has_a_row_for_every_task_and_spares_other_sweeps(lab: "Lab") -> None:
    tasks = [lab.task(index, seed=7, **SLOW) for index in range(3)]
    shared = lab.task(seed=8, **SLOW)
    lab.send([*tasks, shared, lab.attack(tasks[0])], "cancelled", slots=2)
    lab.send([shared], "other", slots=2)
    running(lab, tasks[0])
    Local().stop(lab.store, "cancelled", cancel=True)
    lab.wait_for(*tasks, lab.attack(tasks[0]), shared)
    assert reasons(lab, [*tasks, lab.attack(tasks[0])]) == ["cancelled"] * 4
    assert "checkpoint is kept" in lab.message(tasks[0])
    assert lab.message(tasks[2]) == "cancelled before it ran"
    assert reasons(lab, [shared]) == [None]
    settled(lab)
    assert lab.send([tasks[0]], "cancelled", slots=2) == 1
    lab.wait_for(tasks[0])
    assert reasons(lab, tasks[:1]) == [None]
    settled(lab)


def test_a_killed_worker_fails_its_task_alone_and_rerunning_completes_the_sweep(lab: "Lab") -> None:
    tasks = [lab.task(index, seed=9, **SLOW) for index in range(3)]
    leaving = lab.task(seed=9, trouble="exit")
    every = [*tasks, leaving, lab.attack(tasks[0], models=3)]
    lab.send(every, slots=2)
    os.kill(running(lab, tasks[0]), signal.SIGKILL)
    lab.wait_for(*every)
    settled(lab)
    assert reasons(lab, every) == ["killed", None, None, "killed", "upstream"]
    assert "SIGKILL" in lab.message(tasks[0])
    assert "exit code 3" in lab.message(leaving)
    assert lab.beat(tasks[0]) is None, "the last heartbeat of a killed worker would look fresh"
    again = [tasks[0], every[-1]]
    lab.store.reset(every[-1].key)  # planning does so for an attack that can be made now
    assert lab.send(again, slots=2) == 2
    lab.wait_for(*again)
    assert reasons(lab, again) == [None, None]
    assert [runs(lab, task) for task in tasks] == [2, 1, 1]
    assert lab.beat(tasks[0]) is None
    assert lab.rows(again) == undisturbed(lab, again)
    settled(lab)


def test_after_a_worker_s_device_failed_the_next_task_gets_a_new_process(lab: "Lab") -> None:
    tasks = [lab.task(trouble="gpu-assert"), lab.task(trouble="gpu-memory"), *(lab.task(i) for i in range(3))]
    lab.send(tasks, slots=1)
    lab.wait(lambda: all(lab.store.result(task.key) for task in tasks))
    ended = [lab.result(task) for task in tasks]
    assert [each.reason for each in ended] == ["error", "out_of_memory", None, None, None]
    assert "a kernel rejected its input" in (ended[0].message or ""), (
        "the worker's own row, not the supervisor's"
    )


def test_a_worker_stopped_from_outside_leaves_a_row(lab: "Lab") -> None:
    task = lab.task(seed=10, **SLOW)
    lab.send([task], slots=2)
    os.kill(running(lab, task), signal.SIGTERM)
    lab.wait_for(task)
    assert lab.result(task).reason == "killed"
    assert "SIGTERM" in lab.message(task)
    settled(lab)


def test_a_task_past_its_time_is_ended_as_timed_out(lab: "Lab") -> None:
    quick, deaf = lab.task(seed=11), lab.task(seed=11, trouble="deaf")
    lab.send([quick, deaf], slots=1, timeout_seconds=12)
    lab.wait_for(quick, deaf)
    assert reasons(lab, [quick, deaf]) == [None, "timed_out"]
    assert lab.message(deaf) == "ran longer than 12 s"
    settled(lab)


def test_the_time_of_a_task_begins_when_its_worker_has_started(lab: "Lab") -> None:
    deaf = lab.task(seed=15, trouble="deaf")
    lab.store.add(deaf)
    settings = Settings(timeout_seconds=0.01)
    worker = Worker(lab.store, settings, None)
    try:
        worker.give(deaf.key, settings.timeout_seconds)
        time.sleep(0.1)  # far less than it takes to import torch
        assert not worker.overdue()
        lab.wait(lambda: list(worker.ended_tasks()) == [] and worker.overdue())
    finally:
        worker.kill("timed_out")
        worker.end()
    assert worker.exit_cause(0)[0] == "timed_out"


def test_after_a_killed_supervisor_workers_end_and_the_next_one_completes_all(lab: "Lab") -> None:
    done, slow, failed = lab.task(seed=12), lab.task(seed=12, **SLOW), lab.task(seed=12, trouble="error")
    waiting = lab.task(1, seed=12, **SLOW)
    lab.send([done, failed, slow, waiting], slots=1)
    lab.wait_for(done, failed)
    running(lab, slow)
    (supervisor,) = lab.supervisors()
    supervisor.kill()
    lab.wait(lambda: not lab.workers())
    assert not supervised(lab.store)
    assert lab.store.result(slow.key) is None
    assert (lab.store.folder(slow.key) / "checkpoint").exists()
    assert len(submissions(lab.store)) == 1
    start_supervisor(lab.store)  # as any enqueue, run or cancel does
    lab.wait_for(slow, waiting)
    settled(lab)
    assert reasons(lab, [done, failed, slow, waiting]) == [None, "error", None, None]
    assert [runs(lab, task) for task in (done, failed, slow, waiting)] == [1, 1, 2, 1]
    assert lab.rows([slow]) == undisturbed(lab, [slow])


def test_an_idle_supervisor_ends_by_itself_and_leaves_nothing_behind(lab: "Lab") -> None:
    task = lab.task(seed=13)
    lab.send([task], slots=1)
    lab.wait_for(task)
    settled(lab)
    lab.wait(lambda: not lab.processes())
    assert not supervised(lab.store)
    assert list(lab.store.queue.iterdir()) == []
    assert [each.name for each in (lab.store.path / "supervisor").iterdir()] == ["log.txt"]
    log = (lab.store.path / "supervisor" / "log.txt").read_text()
    assert "supervisor.py" not in log, "the supervisor itself never raised"


def test_settings_decide_the_slots() -> None:
    cores = len(os.sched_getaffinity(0))
    assert slots(Settings(slots=5)) == 5
    assert slots(Settings(threads=1)) == cores
    assert slots(Settings(threads=10 * cores)) == 1


def test_a_supervisor_reports_what_runs(lab: "Lab") -> None:
    task = lab.task(seed=14, **SLOW)
    lab.send([task], slots=1)
    running(lab, task)
    file = lab.store.path / "supervisor" / "state.json"
    lab.wait(lambda: file.exists() and json.loads(file.read_text())["running"] == [task.key])
    (supervisor,) = lab.supervisors()
    assert json.loads(file.read_text())["pid"] == supervisor.pid
    supervisor.terminate()  # on SIGTERM it lets the worker save first
    lab.wait(lambda: not lab.processes())
    assert lab.store.result(task.key) is None
    assert (lab.store.folder(task.key) / "checkpoint").exists()
    assert not file.exists()
    start_supervisor(lab.store)
    lab.wait_for(task)
    settled(lab)


def test_nothing_runs_beside_a_task_that_runs_alone(lab: "Lab") -> None:
    tasks = [lab.task(index, seed=77, steps=5, pause=0.1) for index in range(5)]
    lab.store.add(*tasks)
    jobs = [Job((task.key,), alone=index == 1) for index, task in enumerate(tasks)]
    Local().submit(jobs, lab.store, "alone", Settings(slots=2))
    settled(lab)
    found = [lab.store.result(task.key) for task in tasks]
    spans = [(each.started or "", each.finished or "") for each in found if each is not None and each.done]
    assert len(spans) == len(tasks)
    begin, end = spans[1]
    beside = [span for span in spans if span != spans[1] and span[0] < end and span[1] > begin]
    assert beside == []
    others = [span for span in spans if span != spans[1]]
    assert any(one[0] < two[0] < one[1] for one in others for two in others), "two slots were used"
