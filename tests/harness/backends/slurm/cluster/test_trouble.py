"""Disturbed sweeps on a real cluster: nothing lost or duplicated, siblings continue, reasons reported."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.backends.slurm.array_record import records
from harness.spec import Task
from harness.store import Store
from tests.harness.simulated import sweep_record

if TYPE_CHECKING:
    from tests.harness.backends.slurm.cluster.conftest import Cluster, Sweeper
    from tests.harness.conftest import Lab

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

BLOWS = {"worker", "element", "node", "controller"}
LONG: dict[str, Any] = {"steps": 150, "pause": 0.1}
"""Half a minute of work that costs no CPU."""


def same_as_undisturbed(sweeper: "Sweeper", peaceful: "Lab", tasks: Sequence[Task]) -> bool:
    """Whether this machine, undisturbed, gives the same rows."""
    peaceful.send(tasks, slots=2)
    peaceful.wait_for(*tasks)
    return sweeper.lab.rows(tasks) == peaceful.rows(tasks)


def test_a_killed_worker_costs_its_task_and_a_killed_element_its_pack(sweeper: "Sweeper") -> None:
    lab = sweeper.lab
    victim, sibling = lab.task(**LONG), lab.task(1)
    other, never = lab.task(2, **LONG), lab.task(3)
    every = [victim, sibling, other, never]
    sweeper.send(every, pack=2)
    os.kill(sweeper.running(victim), signal.SIGKILL)
    worker = psutil.Process(sweeper.running(other))
    worker.parent().kill()  # the element
    sweeper.finish(every)
    assert sweeper.reasons(every) == ["killed", None, "killed", "killed"]
    assert "SIGKILL" in lab.message(victim)
    assert "SLURM reports FAILED for job" in lab.message(other)
    assert "ended before it started" in lab.message(never)
    lab.wait(lambda: not worker.is_running())  # an orphan saves its state and ends
    assert sweeper.send(every, pack=3) == 3
    sweeper.finish(every)
    assert sweeper.reasons(every) == [None] * 4
    assert [sweeper.runs(task) for task in every] == [2, 1, 2, 1]


def test_an_enqueue_killed_between_submissions_is_completed_by_the_next(
    sweeper: "Sweeper", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [sweeper.lab.task(index) for index in range(12)]
    keys = sweeper.lab.added(*tasks)
    sweeper.lab.store.write_sweep(sweep_record("sweep", *tasks, backend="slurm"))
    # An sbatch that kills its caller: the second time after submitting, the third time before.
    real, shim, count = shutil.which("sbatch"), tmp_path / "bin" / "sbatch", tmp_path / "count"
    shim.parent.mkdir()
    shim.write_text(
        f"#!/bin/bash\necho >> {count}\ncase $(wc -l < {count}) in\n"
        f'2) {real} "$@"; kill -9 $PPID;;\n3) kill -9 $PPID;;\n*) exec {real} "$@";;\nesac\n'
    )
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    program = (
        "import sys; from harness.backends.base import Job, Settings\n"
        "from harness.backends.slurm.slurm import Slurm; from harness.store import Store\n"
        "profile = {'pack': 1, 'throttle_seconds': 0.0, 'array_parallelism': 1, 'options': {'hold': True}}\n"
        "jobs = [Job((key,)) for key in sys.argv[2:]]\n"
        "Slurm().submit(jobs, Store(sys.argv[1]), 'sweep', Settings(profile=profile))\n"
    )
    command = [sys.executable, "-c", program, str(sweeper.store.path), *keys]
    codes = [subprocess.run(command, timeout=120, check=False).returncode for _ in range(3)]
    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    # Three arrays of four tasks; a fourth record is of an array that was never submitted.
    assert len(records(sweeper.store)) == 4
    assert sweeper.cluster.jobs(sweeper.store) == ["PENDING"] * 12
    for job in set(sweeper.cluster.ask("squeue", "-h", "-o", "%F").split()):
        sweeper.cluster.ask("scontrol", "release", job)
    sweeper.finish(tasks)
    assert sweeper.reasons(tasks) == [None] * 12
    assert {sweeper.runs(task) for task in tasks} == {1}


def test_three_minutes_of_work_finish_by_requeues_under_a_limit_of_one(
    sweeper: "Sweeper", peaceful: "Lab"
) -> None:
    long, short = sweeper.lab.task(steps=900, pause=0.1), sweeper.lab.task(1)
    peaceful.send([long, short], slots=2)  # meanwhile: it takes three minutes too
    sweeper.send([long, short], pack=2, time="1", signal_seconds=20)
    sweeper.finish([long, short])
    assert sweeper.reasons([long, short]) == [None, None]
    assert sweeper.runs(long) >= 4
    assert sweeper.runs(short) == 1
    peaceful.wait_for(long, short)
    assert sweeper.lab.rows([long, short]) == peaceful.rows([long, short])


def test_a_preempted_job_resumes(sweeper: "Sweeper", peaceful: "Lab") -> None:
    task = sweeper.lab.task(**LONG)
    sweeper.send([task], partition="scavenge")
    sweeper.running(task)
    wide = ["--nodes=4", "--exclusive", "--time=5", "--output=/dev/null", "--parsable"]
    pusher = sweeper.cluster.ask("sbatch", *wide, "--wrap", "srun sleep 5").strip()
    sweeper.lab.wait(lambda: pusher not in sweeper.cluster.ask("squeue", "-h", "-o", "%A").split())
    sweeper.finish([task])
    assert sweeper.reasons([task]) == [None]
    assert sweeper.runs(task) == 2
    assert same_as_undisturbed(sweeper, peaceful, [task])


def test_a_lost_node_that_works_on_and_its_requeued_copy_make_one_result(
    sweeper: "Sweeper", whole: "Cluster", peaceful: "Lab"
) -> None:
    task = sweeper.lab.task(steps=350, pause=0.1)
    sweeper.send([task])
    first = sweeper.running(task)
    (node,) = whole.ask("squeue", "-h", "-o", "%N").split()
    assert whole.call("kill-node", node).returncode == 0
    # SLURM gives up the node and starts a copy elsewhere, while the first still runs.
    sweeper.lab.wait(lambda: len(sweeper.elements()) == 2)
    assert psutil.pid_exists(first)
    sweeper.lab.wait_for(task)
    sweeper.finish([task])
    assert sweeper.runs(task) == 1, "the copy waits for the first, and finds its result"
    assert sweeper.lab.result(task).provenance["node"] == node
    assert same_as_undisturbed(sweeper, peaceful, [task])


def test_a_quota_that_is_used_up_fails_a_task_and_not_its_siblings(sweeper: "Sweeper") -> None:
    large, small = sweeper.lab.task(steps=3000), sweeper.lab.task(1)
    sweeper.send([large, small], pack=2, setup=["ulimit -f 64"])  # kilobytes; 6,000 steps take more
    sweeper.finish([large, small])
    assert sweeper.reasons([large, small]) == ["killed", None]
    assert "disk full" in sweeper.lab.message(large)
    assert sweeper.send([large, small]) == 1
    sweeper.finish([large, small])
    assert sweeper.reasons([large, small]) == [None, None]
    assert sweeper.runs(small) == 1


def test_a_full_disk_fails_a_task_and_not_its_siblings(
    sweeper: "Sweeper", mount_small: Callable[[Path, str], None]
) -> None:
    disk = sweeper.store.path
    mount_small(disk, "4m")
    Store.open(disk, create=True)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes((4096 - 192) * 1024))  # what is left does not hold the times of 6,000 steps
    large, small = sweeper.lab.task(steps=3000), sweeper.lab.task(1)
    sweeper.send([large, small], pack=2)
    sweeper.finish([large, small])
    assert sweeper.reasons([large, small]) == ["killed", None]
    assert "No space left" in sweeper.lab.message(large)
    ballast.unlink()
    assert sweeper.send([large, small]) == 1
    sweeper.finish([large, small])
    assert sweeper.reasons([large, small]) == [None, None]
    assert sweeper.runs(small) == 1


def test_a_sweep_with_random_kills_ends_with_the_rows_of_an_undisturbed_one(
    sweeper: "Sweeper", whole: "Cluster", peaceful: "Lab"
) -> None:
    lab, chance = sweeper.lab, random.Random(6)
    trainings = [lab.task(index, seed, steps=10, pause=0.02) for seed in range(10) for index in range(5)]
    attacks = [lab.attack(lab.task(seed=seed, steps=10, pause=0.02), models=5) for seed in range(10)]
    every = [*trainings, *attacks]
    assert len(every) >= 60
    deadline = time.monotonic() + 900
    struck: dict[str, int] = {}
    while not all((found := lab.store.result(task.key)) and found.done for task in every):
        assert time.monotonic() < deadline, struck
        for task in every:  # planning does so for an attack that can be made now
            if (found := lab.store.result(task.key)) and found.reason == "upstream":
                lab.store.reset(task.key)
        sweeper.send(every, pack=8)
        while sweeper.backend.attend(sweeper.store, "sweep") and time.monotonic() < deadline:
            time.sleep(chance.uniform(1.0, 4.0))
            if sum(struck.values()) < 12:
                # Kinds not killed yet come first; a kind that is absent at the moment is skipped.
                kinds = sorted(BLOWS - struck.keys()) or sorted(BLOWS)
                blow = chance.choice(kinds)
                if strike(blow, sweeper, whole, chance):
                    struck[blow] = struck.get(blow, 0) + 1
                whole.up()
    assert len(struck) >= 3, struck
    assert same_as_undisturbed(sweeper, peaceful, every)


def strike(blow: str, sweeper: "Sweeper", cluster: "Cluster", chance: random.Random) -> bool:
    """Kill a random process of a kind; whether there was one."""
    if blow == "controller":
        cluster.call("kill-controller")
    elif blow == "node":
        cluster.call("kill-node", f"n{chance.randint(1, 4)}")
    else:
        found = sweeper.elements() if blow == "element" else sweeper.lab.workers()
        if not found:
            return False
        try:
            chance.choice(sorted(found, key=lambda process: process.pid)).kill()
        except psutil.NoSuchProcess:
            return False
    return True
