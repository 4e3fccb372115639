import io
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from harness.backends.machine.queue import submissions
from harness.backends.status import Progress
from harness.cli.terminal.watch import Pace, ctrl_c, watch
from harness.spec import Task
from harness.store import Store
from tests.harness.simulated import STEPS, ended, sweep_record, training

if TYPE_CHECKING:
    from tests.harness.conftest import Lab


def console(terminal: bool = False) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, force_terminal=terminal, width=100), text


def record_sweep(store: Store, tasks: list[Task]) -> None:
    store.write_sweep(sweep_record("sweep", *tasks))


def end(store: Store, task: Task, reason: str | None = None) -> None:
    found = training(task, accuracy=0.5)
    assert store.publish(ended(task, "failed" if reason else "done", reason=reason, **found))


@pytest.mark.parametrize("terminal", [False, True])
def test_a_finished_sweep_is_shown_and_left(lab: "Lab", terminal: bool) -> None:
    tasks = [lab.task(index) for index in range(3)]
    lab.added(*tasks)
    record_sweep(lab.store, tasks)
    for task in tasks[:2]:
        end(lab.store, task)
    end(lab.store, tasks[2], "diverged")
    out, text = console(terminal)
    progress = watch(lab.store, "sweep", out, lambda: False)
    assert progress.over
    assert "0/1 cells, 3/3 tasks, 1 failed" in text.getvalue()


def test_watching_ends_when_nothing_runs_or_is_queued(lab: "Lab") -> None:
    tasks = [lab.task(0), lab.task(1)]
    lab.added(*tasks)
    record_sweep(lab.store, tasks)
    end(lab.store, tasks[0])
    assert not watch(lab.store, "sweep", console()[0], lambda: False).over


def test_watching_ends_when_interrupted(lab: "Lab") -> None:
    task = lab.task()
    lab.added(task)
    record_sweep(lab.store, [task])
    (lab.store.queue / "1.json").write_text('{"sweep": "sweep", "jobs": []}')
    assert not watch(lab.store, "sweep", console()[0], lambda: True).over
    assert lab.processes() == []


@pytest.mark.slow
def test_watching_starts_a_supervisor_in_the_place_of_a_killed_one(lab: "Lab") -> None:
    task = lab.task(steps=10, pause=0.05)
    lab.send([task], slots=1)
    lab.wait(lambda: lab.supervisors())
    for supervisor in lab.supervisors():
        supervisor.kill()
    lab.wait(lambda: not lab.supervisors())
    assert len(submissions(lab.store)) == 1
    out, text = console()
    progress = watch(lab.store, "sweep", out, lambda: False)
    assert progress.over
    assert progress.done == 1
    assert "1/1 cells, 1/1 tasks" in text.getvalue()


def test_the_pace_counts_steps_seen_while_watching(lab: "Lab") -> None:
    tasks = [lab.task(0), lab.task(1)]
    lab.added(*tasks)
    record_sweep(lab.store, tasks)
    progress = Progress.of(lab.store, "sweep")
    pace = Pace(progress)
    end(lab.store, tasks[0])
    pace.note(progress, progress.look())
    assert pace.steps == {tasks[0].key: STEPS}
    assert pace.rate > 0


def test_ctrl_c_is_noted_once_and_raised_twice() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert threading.current_thread() is threading.main_thread()
    with ctrl_c() as pressed:
        assert not pressed()
        os.kill(os.getpid(), signal.SIGINT)
        assert pressed()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
