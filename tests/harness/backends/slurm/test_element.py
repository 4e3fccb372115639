"""One element of an array with a real worker, outside of any cluster."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.backends.base import Settings
from harness.backends.slurm.array_record import BEGAN, Record
from harness.backends.slurm.element import MORE_WORK_CODE
from harness.backends.slurm.profile import Profile
from harness.spec import Task

if TYPE_CHECKING:
    from tests.harness.conftest import Lab

pytestmark = pytest.mark.slow


def start(lab: "Lab", *tasks: Task, **profile: Any) -> "subprocess.Popen[bytes]":
    """Run the tasks as an element, as the batch script does."""
    lab.added(*tasks)
    settings = Settings(profile=Profile(**profile))
    needs = {task.key: task.needs for task in tasks if task.needs}
    Record("record", "sweep", ((), tuple(task.key for task in tasks)), needs, settings, time.time()).write(
        lab.store
    )
    command = [sys.executable, "-m", "harness.backends.slurm.element", str(lab.store.path), "record"]
    environment = os.environ | {"SLURM_ARRAY_TASK_ID": "1", "SLURM_JOB_ID": "0", "SLURM_CONF": "/dev/null"}
    return subprocess.Popen(command, env=environment)


def reasons(lab: "Lab", *tasks: Task) -> list[str | None]:
    return [lab.result(task).reason for task in tasks]


def test_tasks_run_one_after_another_and_a_crash_costs_one(lab: "Lab") -> None:
    good, crash, after = lab.task(), lab.task(1, trouble="exit"), lab.task(2)
    lost = lab.attack(crash)
    element = start(lab, good, crash, after, lost, lab.attack(good, models=1))
    assert element.wait(240) == 1
    assert reasons(lab, good, crash, after, lost) == [None, "killed", None, "upstream"]
    assert lab.message(lost).endswith(crash.key[:12])
    assert reasons(lab, lab.attack(good, models=1)) == [None]
    # A reset task is rerun; a done one is not.
    lab.store.reset(lost.key)
    again = start(lab, good, after)
    assert again.wait(240) == 0


def test_before_the_time_limit_state_is_saved_and_too_many_requeues_end_it(lab: "Lab") -> None:
    long, never = lab.task(steps=500, pause=0.1), lab.task(1)
    element = start(lab, long, never, requeues=0)
    lab.wait(lambda: lab.stepping(long))
    element.send_signal(signal.SIGUSR1)
    assert element.wait(120) == 1
    assert reasons(lab, long, never) == ["timed_out", "killed"]
    assert "after 0 requeues; the profile allows 0" in lab.message(long)
    assert (lab.store.folder(long.key) / "checkpoint" / "warm.safetensors").exists()


def install(patch: pytest.MonkeyPatch, folder: Path, **programs: str) -> None:
    """Put programs that run a line of shell before all others."""
    folder.mkdir()
    for name, line in programs.items():
        (folder / name).write_text(f"#!/bin/bash\n{line}\n")
        (folder / name).chmod(0o755)
    patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_an_element_requests_its_requeue_until_slurm_ends_it(
    lab: "Lab", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first time the controller does not respond; the second time SLURM kills the whole job.
    twice = f"test -e {tmp_path}/asked && kill -TERM $$; touch {tmp_path}/asked; exit 1"
    install(monkeypatch, tmp_path / "bin", squeue="echo 2:00", scontrol=twice)
    long = lab.task(steps=500, pause=0.1)
    element = start(lab, long, signal_seconds=120)
    lab.wait(lambda: lab.stepping(long))
    element.send_signal(signal.SIGUSR1)
    assert element.wait(120) == MORE_WORK_CODE
    assert lab.store.result(long.key) is None


def test_an_element_that_is_not_requeued_reports_why(
    lab: "Lab", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path / "bin", squeue="echo 0:01", scontrol="echo 'not here' >&2; exit 1")
    long = lab.task(steps=500, pause=0.1)
    element = start(lab, long)
    lab.wait(lambda: lab.stepping(long))
    element.send_signal(signal.SIGUSR1)
    assert element.wait(120) == 1
    assert reasons(lab, long) == ["timed_out"]
    assert "SLURM does not requeue the job (not here)" in lab.message(long)


def test_the_time_of_the_batch_script_counts_against_the_time_limit(
    lab: "Lab", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BEGAN, str(time.time() - 3000))
    long = lab.task(steps=500, pause=0.1)
    element = start(lab, long, requeues=0, time="50")
    assert element.wait(120) == 1
    assert "time limit reached" in lab.message(long)


def test_a_preempted_element_leaves_its_tasks_open(lab: "Lab") -> None:
    long, never = lab.task(steps=500, pause=0.1), lab.task(1)
    element = start(lab, long, never)
    lab.wait(lambda: lab.stepping(long))
    element.send_signal(signal.SIGTERM)
    assert element.wait(120) == MORE_WORK_CODE
    assert lab.store.result(long.key) is None
    assert lab.store.result(never.key) is None
    assert (lab.store.folder(long.key) / "checkpoint" / "warm.safetensors").exists()
    lab.wait(lambda: not lab.workers())


def test_in_a_container_the_worker_is_run_by_apptainer(
    lab: "Lab", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It records its arguments, drops its own and runs the rest with this Python.
    noting = (
        f'echo "$@" > {tmp_path}/called\nenv > {tmp_path}/environment\nshift 6\nexec {sys.executable} "$@"'
    )
    install(monkeypatch, tmp_path / "bin", apptainer=noting)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    task = lab.task()
    # SLURM assigns a GPU that does not exist: the profile's environment forces the CPU.
    element = start(lab, task, container="image.sif", gpus=1, environment={"PRIVBENCH_DEVICE": "cpu"})
    assert element.wait(240) == 0
    store = str(lab.store.path)
    words = ["exec", "--nv", "--bind", store, "image.sif", "python", "-P", "-m", "harness.job", store, "-"]
    assert (tmp_path / "called").read_text().split() == words
    seen = (tmp_path / "environment").read_text().splitlines()
    assert {"CUDA_VISIBLE_DEVICES=1,3", "PRIVBENCH_DEVICE=cpu", "CUBLAS_WORKSPACE_CONFIG=:4096:8"} <= {*seen}
    assert reasons(lab, task) == [None]


@pytest.mark.parametrize(
    ("gpus", "given", "expected"),
    [
        (1, "3", {"CUDA_VISIBLE_DEVICES": "3", "PRIVBENCH_DEVICE": "cuda"}),
        (1, None, {"CUDA_VISIBLE_DEVICES": "0", "PRIVBENCH_DEVICE": "cuda"}),
        (0, "0,1", {"CUDA_VISIBLE_DEVICES": "", "PRIVBENCH_DEVICE": "cpu"}),
    ],
)
def test_a_task_uses_the_gpus_of_its_job_or_none(
    lab: "Lab",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: int,
    given: str | None,
    expected: dict[str, str],
) -> None:
    """The container's program records its environment and ends."""
    install(monkeypatch, tmp_path / "bin", apptainer=f"env > {tmp_path}/environment; exit 1")
    for name in ("PRIVBENCH_DEVICE", "CUBLAS_WORKSPACE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    if given is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    element = start(lab, lab.task(), container="image.sif", gpus=gpus)
    assert element.wait(120) == 1
    lines = (tmp_path / "environment").read_text().splitlines()
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    assert {name: seen[name] for name in expected} == expected
    assert ("CUBLAS_WORKSPACE_CONFIG" in seen) is (gpus > 0)
