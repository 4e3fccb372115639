"""Real job processes: `python -m harness.job` on tiny tasks that end well, fail, or are stopped."""

import json
import os
import resource
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from safetensors.numpy import load

from harness.spec import Json, Plugin, Task
from harness.store import write_atomic

if TYPE_CHECKING:
    from tests.harness.conftest import Lab


def serve(lab: "Lab", *keys: str, **options: object) -> tuple[dict[str, str], str]:
    """One worker process for many tasks; its answers by key, and what it wrote to standard error."""
    lines = "".join(f"{key}\n" for key in keys)
    done = lab.job("-", input=lines, **options)
    answers = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stderr
    return answers, done.stderr


def test_a_job_runs_its_tasks_and_leaves_only_results(lab: "Lab") -> None:
    first, second = lab.task(0), lab.task(1)
    attack = lab.attack(first)
    done = lab.job(*lab.added(first, second, attack))
    assert (done.returncode, done.stdout) == (0, "")
    for task in (first, second):
        result = lab.result(task)
        assert result["status"] == "done"
        assert result["kind"] == "train"
        assert set(result["artefacts"]) == {"signals", "model", "steps"}
        assert result["guarantee"]["kind"] == "none"
        assert result["guarantee"]["epsilon"] is None
        assert result["phases"]["main"]["steps"] == 12
        assert result["provenance"]["threads"] == 1
        assert result["started"] < result["finished"]
        members = load(lab.store.read_artefact(result, "signals"))["members"]
        assert members.sum() == 30
        names = {file.name for file in lab.store.folder(task.key).iterdir()}
        listed = {each["file"] for each in result["artefacts"].values()}
        assert names == listed | {"spec.json", "result.json", "log.txt"}
    assert lab.result(attack)["status"] == "done"
    assert 0 <= lab.result(attack)["metrics"]["auc"] <= 1


@pytest.fixture(scope="module")
def troubles() -> list[str]:
    return ["error", "diverge", "allocate", "memory", "stats"]


def test_a_failure_is_a_row_with_its_reason_and_the_worker_lives_on(lab: "Lab", troubles: list[str]) -> None:
    failing = {trouble: lab.task(trouble=trouble) for trouble in troubles}
    good = lab.task()
    other_version = replace(good, cell=replace(good.cell, method=Plugin("trial", "0")))
    unknown = replace(good, cell=replace(good.cell, method=Plugin("trail", "1")))
    altered = lab.task(seed=5)
    tasks = [*failing.values(), other_version, unknown, altered, lab.attack(good), good]
    keys = lab.added(*tasks)
    spec = lab.store.spec(altered.key)
    spec["task"]["seed"] = 6
    write_atomic(lab.store.folder(altered.key) / "spec.json", json.dumps(spec).encode())

    answers, errors = serve(lab, *keys, "ff" * 16)
    assert answers.pop("ff" * 16) == "failed"
    assert "no task ffff" in errors
    assert not lab.store.folder("ff" * 16).exists()
    assert answers == {key: "done" if key == good.key else "failed" for key in keys}

    def why(task: Task) -> tuple[str, str]:
        result = lab.result(task)
        assert result["status"] == "failed"
        assert result["artefacts"] == {}
        assert result["message"] in result["traceback"] or result["reason"] == "error"
        assert "Traceback" in result["traceback"]
        assert "Traceback" in (lab.store.folder(task.key) / "log.txt").read_text()
        return result["reason"], result["message"]

    assert why(failing["error"]) == ("error", "ValueError: no luck today")
    assert "about to fail" in (lab.store.folder(failing["error"].key) / "log.txt").read_text()
    assert why(failing["diverge"]) == ("diverged", "loss is not finite at step 3 of phase 'main'")
    assert why(failing["allocate"])[0] == "out_of_memory"
    assert why(failing["memory"])[0] == "out_of_memory"
    assert why(failing["stats"])[0] == "error"
    assert "'history': nan" in why(failing["stats"])[1]
    assert why(other_version)[1].startswith("the task was planned for method trial version 0; installed is 1")
    assert "did you mean 'trial'?" in why(unknown)[1]
    assert "was altered" in why(altered)[1]
    assert "has no result to attack" in why(lab.attack(good))[1]


def test_a_task_that_is_done_is_not_run_again_and_a_damaged_one_is(lab: "Lab") -> None:
    kept, damaged, failed = lab.task(0), lab.task(1), lab.task(2)
    keys = lab.added(kept, damaged, failed)
    assert set(serve(lab, *keys)[0].values()) == {"done"}
    before = {task.key: lab.result(task) for task in (kept, damaged)}
    rows = lab.rows([kept, damaged])
    lab.store.artefact(before[damaged.key], "signals").unlink()
    file = lab.store.folder(failed.key) / "result.json"
    file.write_bytes(file.read_bytes()[:100])
    assert set(serve(lab, *keys)[0].values()) == {"done"}
    assert lab.result(kept) == before[kept.key]
    assert lab.rows([kept, damaged]) == rows
    assert lab.store.broken() == []


def test_sigterm_leaves_a_checkpoint_and_no_result_and_the_next_run_ends_with_equal_bits(lab: "Lab") -> None:
    slow = lab.task(steps=30, pause=0.1)
    (key,) = lab.added(slow)
    job = lab.start(key)
    with job:
        lab.wait(lambda: lab.stepping(slow) or job.poll() is not None)
        beat = lab.beat(slow)
        assert beat is not None
        assert (beat["pid"], beat["phase"], beat["total"]) == (job.pid, "warm", 30)
        job.send_signal(signal.SIGTERM)
        assert job.wait(60) == 1
    folder = lab.store.folder(key)
    assert lab.store.result(key) is None
    assert [each.name for each in (folder / "checkpoint").iterdir()] == ["warm.safetensors"]
    assert lab.beat(slow) is None
    assert lab.job(key).returncode == 0
    resumed = lab.rows([slow])
    assert not (folder / "checkpoint").exists()
    assert "phase" not in (folder / "log.txt").read_text()

    (folder / "result.json").unlink()
    assert lab.job(key).returncode == 0
    assert lab.rows([slow]) == resumed


def test_two_copies_of_one_task_leave_one_whole_result(lab: "Lab") -> None:
    task = lab.task(steps=30, pause=0.02)
    (key,) = lab.added(task)
    copies = [lab.start(key), lab.start(key)]
    for copy in copies:
        _, errors = copy.communicate(timeout=180)
        assert copy.returncode == 0, errors
    result = lab.result(task)
    assert result["status"] == "done"
    for name in result["artefacts"]:
        assert lab.store.read_artefact(result, name)
    assert not list(lab.store.folder(key).glob(".*"))


def limit_files() -> None:
    """In the job, before it starts: no file may grow beyond 3 kB; the signals of lab-data are larger."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))


def test_a_full_disk_fails_the_task_and_it_runs_once_there_is_room(lab: "Lab") -> None:
    task = lab.task()
    (key,) = lab.added(task)
    answers, _ = serve(lab, key, preexec_fn=limit_files)
    assert answers == {key: "failed"}
    failed: Json | None = lab.store.result(key)
    assert failed is None or failed["reason"] == "killed"  # none where even the row is too large
    assert not list(lab.store.folder(key).glob("signals*"))
    lab.store.forget(key)
    assert serve(lab, key)[0] == {key: "done"}
    assert lab.result(task)["status"] == "done"


def test_a_full_file_system_is_survived(lab: "Lab", tmp_path: Path) -> None:
    disk = lab.store.tasks
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        task = lab.task()
        (key,) = lab.added(task)
        ballast = disk / "ballast"
        with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        answers, errors = serve(lab, key)
        assert answers == {key: "failed"}
        assert "No space left" in errors
        assert lab.store.result(key) is None
        ballast.unlink()
        assert serve(lab, key)[0] == {key: "done"}
        assert lab.result(task)["status"] == "done"
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
