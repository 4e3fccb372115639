"""Real job processes: `python -m harness.jobs` on tiny tasks that succeed, fail, or are stopped."""

import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.numpy import load

from harness.attacks import family
from harness.spec import Plugin, Task
from harness.store.files import write_atomic

if TYPE_CHECKING:
    from tests.harness.conftest import Lab


class JobProcess:
    """A job that reads keys from its standard input, as the local backend uses it."""

    def __init__(self, lab: "Lab", errors: Path) -> None:
        self.errors = errors
        with errors.open("w") as file:
            self.process = lab.job("-", errors=file)

    def give(self, key: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{key}\n")
        self.process.stdin.flush()

    def reply(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def run(self, *keys: str) -> list[str]:
        """The status of each task."""
        statuses = []
        for key in keys:
            self.give(key)
            given, _, status = self.reply().partition(" ")
            assert given == key
            statuses.append(status)
        return statuses

    def end(self) -> int:
        """The exit code once its input has ended."""
        self.process.communicate(timeout=180)
        return self.process.returncode


@pytest.fixture(scope="module")
def pair(shared_lab: "Lab") -> Iterator[tuple[JobProcess, JobProcess]]:
    """Two job processes on one store."""
    folder = shared_lab.store.path.parent
    both = JobProcess(shared_lab, folder / "first.txt"), JobProcess(shared_lab, folder / "second.txt")
    assert [each.reply() for each in both] == ["ready", "ready"]
    yield both
    assert [each.end() for each in both] == [0, 0]
    assert both[1].errors.read_text() == ""


@pytest.fixture
def job(pair: tuple[JobProcess, JobProcess]) -> JobProcess:
    return pair[0]


@pytest.fixture
def lab(shared_lab: "Lab") -> "Lab":
    return shared_lab


@pytest.mark.slow
def test_a_job_runs_its_tasks_and_leaves_only_results(lab: "Lab") -> None:
    first, second = lab.task(0), lab.task(1)
    attack = lab.attack(first)
    process = lab.job(*lab.added(first, second, attack))
    assert process.communicate(timeout=180) == ("", "")
    assert process.returncode == 0
    for task in (first, second):
        result = lab.result(task)
        assert (result.status, result.kind) == ("done", "train")
        assert set(result.artefacts) == {"signals", "model", "steps"}
        assert (result.training.guarantee.kind, result.training.guarantee.epsilon) == ("none", None)
        assert result.training.phases["main"].steps == 12
        here = result.provenance
        assert (here["device"], here["threads"], here["deterministic"]) == ("cpu", 1, True)
        assert here["fp32_convolution"] == here["fp32_matmul"] == "ieee"
        assert str(result.started) < str(result.finished)
        assert load(lab.store.read_artefact(result, "signals"))["members"].sum() == 30
        names = {file.name for file in lab.store.folder(task.key).iterdir()}
        listed = {each.file for each in result.artefacts.values()}
        assert names == listed | {"spec.json", "result.json", "log.txt"}
    assert lab.result(attack).status == "done"
    assert 0 <= lab.result(attack).figures["metrics"]["auc"] <= 1


def why(lab: "Lab", task: Task) -> tuple[str, str]:
    result = lab.result(task)
    assert result.status == "failed"
    assert result.artefacts == {}
    assert "Traceback" in str(result.traceback)
    assert "Traceback" in (lab.store.folder(task.key) / "log.txt").read_text()
    return str(result.reason), str(result.message)


@pytest.mark.slow
def test_a_failure_is_a_row_with_its_reason_and_the_worker_continues(lab: "Lab", job: JobProcess) -> None:
    names = ("error", "diverge", "allocate", "memory", "stats")
    failing = {trouble: lab.task(trouble=trouble) for trouble in names}
    keys = lab.added(*failing.values())
    assert job.run(*keys) == ["failed"] * len(keys)
    assert why(lab, failing["error"]) == ("error", "ValueError: no luck today")
    assert "about to fail" in (lab.store.folder(failing["error"].key) / "log.txt").read_text()
    assert why(lab, failing["diverge"]) == ("diverged", "loss is not finite at step 3 of phase 'main'")
    assert why(lab, failing["allocate"])[0] == "out_of_memory"
    assert why(lab, failing["memory"])[0] == "out_of_memory"
    reason, message = why(lab, failing["stats"])
    assert reason == "error"
    assert "'history': nan" in message


def ended(process: "subprocess.Popen[str]") -> int:
    """The exit code of a job."""
    process.communicate(timeout=180)
    return process.returncode


@pytest.mark.slow
@pytest.mark.parametrize(("trouble", "reason"), [("gpu-memory", "out_of_memory"), ("gpu-assert", "error")])
def test_after_its_device_failed_a_worker_leaves_the_row_and_ends_without_a_reply(
    lab: "Lab", trouble: str, reason: str
) -> None:
    failing, later = lab.task(trouble=trouble), lab.task(trouble=trouble, seed=5)
    worker = lab.job("-")
    out, _ = worker.communicate("\n".join(lab.added(failing, later)) + "\n", timeout=180)
    assert (out, worker.returncode) == ("ready\n", 1)
    assert why(lab, failing)[0] == reason
    assert lab.store.result(later.key) is None, "it is for a new process"


@pytest.mark.slow
def test_a_job_whose_device_failed_runs_none_of_the_other_tasks(lab: "Lab") -> None:
    failing, later = lab.task(trouble="gpu-assert", seed=6), lab.task(seed=6)
    process = lab.job(*lab.added(failing, later))
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 1
    assert f"the device failed in task {failing.key}" in errors
    assert why(lab, failing)[0] == "error"
    assert lab.store.result(later.key) is None


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="asks for a GPU that is not there")
def test_a_missing_gpu_fails_trainings_until_it_is_present_and_no_attack(
    lab: "Lab", monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, attack, open_still = lab.task(seed=9), lab.attack(lab.task(seed=9), 1), lab.task(1, seed=9)
    assert ended(lab.job(*lab.added(trained))) == 0
    monkeypatch.setenv("PRIVBENCH_DEVICE", "cuda")
    assert ended(lab.job(*lab.added(attack, open_still))) == 1
    assert lab.result(attack).provenance["device"] == "cpu"
    reason, message = why(lab, open_still)
    assert reason == "killed", "which the next enqueue runs again"
    assert "torch sees no GPU here" in message
    assert lab.result(open_still).provenance["device"] is None


@pytest.mark.slow
def test_the_blind_check_of_a_cell_trained_on_the_whole_pool_gives_no_verdict(
    lab: "Lab", job: JobProcess
) -> None:
    half = lab.task(seed=8)
    everybody = replace(half, cell=replace(half.cell, n_train=60))
    blind = replace(lab.attack(everybody, models=1), attack=Plugin("blind", family.get("blind").version))
    assert job.run(*lab.added(everybody, blind)) == ["done", "done"]
    metrics = lab.result(blind).figures["metrics"]
    assert (metrics["valid"], metrics["n_members"], metrics["n_nonmembers"]) == (None, 60, 0)
    assert "60 members and 0 non-members" in metrics["message"]


def test_a_task_s_warnings_are_in_its_result_once(lab: "Lab", job: JobProcess) -> None:
    quiet, warning = lab.task(seed=7), lab.task(seed=7, trouble="warn")
    assert job.run(*lab.added(quiet, warning)) == ["done", "done"]
    assert lab.result(quiet).warnings == []
    assert lab.result(warning).warnings == ["the sky is falling"]
    assert "warning: the sky is falling" in (lab.store.folder(warning.key) / "log.txt").read_text()


def test_a_task_whose_spec_does_not_hash_to_its_key_is_refused(lab: "Lab", job: JobProcess) -> None:
    good = lab.task(seed=2)
    older = replace(good, cell=replace(good.cell, method=Plugin("trial", "0")))
    data = replace(good, cell=replace(good.cell, workload=Plugin("lab-data", "0")))
    strange = replace(good, cell=replace(good.cell, method=Plugin("trail", "1")))
    attack = lab.attack(good)
    altered = lab.task(seed=3)
    keys = lab.added(older, data, strange, attack, altered)
    spec = altered.file()
    spec["task"]["seed"] = 4
    write_atomic(lab.store.folder(altered.key) / "spec.json", json.dumps(spec).encode())
    assert job.run(*keys) == ["failed"] * len(keys)
    assert "planned for method trial version 0, but version 1 is installed" in why(lab, older)[1]
    assert "planned for workload lab-data version 0, but version 1 is installed" in why(lab, data)[1]
    assert "did you mean 'trial'?" in why(lab, strange)[1]
    reason, message = why(lab, attack)
    assert reason == "upstream", "it is open again as soon as its training has not failed"
    assert "has no result to attack" in message
    assert lab.store.result(altered.key) is None, "a row would be of another task than its key"
    lab.added(altered)
    assert job.run(altered.key) == ["done"], "enqueueing it again rewrites its spec"
    lab.store.add(good)
    assert job.run(good.key) == ["done"]


def test_a_key_without_a_spec_writes_nothing(lab: "Lab", job: JobProcess) -> None:
    assert job.run("ff" * 16) == ["failed"]
    assert not lab.store.folder("ff" * 16).exists()
    assert "no task ffff" in job.errors.read_text()


def test_done_tasks_are_not_rerun_and_damaged_ones_are(lab: "Lab", job: JobProcess) -> None:
    kept, short, half = tasks = [lab.task(index, seed=1) for index in range(3)]
    keys = lab.added(*tasks)
    assert job.run(*keys) == ["done"] * 3
    rows, before = lab.rows(tasks), lab.result(kept)
    lab.store.artefact(lab.result(short), "signals").unlink()
    file = lab.store.folder(half.key) / "result.json"
    file.write_bytes(file.read_bytes()[:100])
    assert len(lab.store.broken()) == 2
    assert job.run(*keys) == ["done"] * 3
    assert lab.result(kept) == before
    assert lab.rows(tasks) == rows
    assert lab.store.broken() == []


@pytest.mark.slow
def test_sigterm_leaves_a_checkpoint_and_no_result_and_the_next_run_ends_with_equal_bits(
    lab: "Lab", job: JobProcess
) -> None:
    slow = lab.task(steps=14, pause=0.1)
    (key,) = lab.added(slow)
    folder = lab.store.folder(key)
    job.give(key)
    lab.wait(lambda: lab.stepping(slow))
    beat = lab.beat(slow)
    assert beat is not None
    assert (beat["pid"], beat["phase"], beat["total"]) == (job.process.pid, "warm", 14)
    job.process.send_signal(signal.SIGTERM)
    assert job.reply() == f"{key} interrupted"
    assert lab.store.result(key) is None
    assert [each.name for each in (folder / "checkpoint").iterdir()] == ["warm.safetensors"]
    assert lab.beat(slow) is None
    assert job.run(key) == ["done"]
    resumed = lab.rows([slow])
    assert not (folder / "checkpoint").exists()
    (folder / "result.json").unlink()
    assert job.run(key) == ["done"]
    assert lab.rows([slow]) == resumed


@pytest.mark.slow
def test_two_copies_of_one_task_leave_one_whole_result(
    lab: "Lab", pair: tuple[JobProcess, JobProcess]
) -> None:
    tasks = [lab.task(index, seed=7, steps=5) for index in range(4)]
    for task in tasks:
        (key,) = lab.added(task)
        for process in pair:
            process.give(key)
        assert [process.reply() for process in pair] == [f"{key} done"] * 2
        result = lab.result(task)
        assert result.status == "done"
        for name in result.artefacts:
            assert lab.store.read_artefact(result, name)
        left = {each.name for each in lab.store.folder(key).iterdir()}
        assert not {name for name in left if name.startswith(".") or name == "heartbeat"}


def test_a_file_size_limit_fails_the_task_until_it_is_lifted(lab: "Lab", job: JobProcess) -> None:
    task = lab.task(seed=8)
    (key,) = lab.added(task)
    everything = resource.prlimit(job.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(job.process.pid, resource.RLIMIT_FSIZE, (6000, everything[1]))
    try:
        assert job.run(key) == ["failed"]
    finally:
        resource.prlimit(job.process.pid, resource.RLIMIT_FSIZE, everything)
    failed = lab.result(task)
    assert failed.reason == "killed"  # which the next enqueue reruns
    assert "disk full" in str(failed.message)
    lab.store.reset(key)
    assert job.run(key) == ["done"]


def test_a_full_disk_leaves_no_half_result_and_the_worker_continues(lab: "Lab", job: JobProcess) -> None:
    task = lab.task(seed=9)
    disk = lab.store.folder(task.key).parent
    disk.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if os.getuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        (key,) = lab.added(task)
        ballast = disk / "ballast"
        with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        assert job.run(key) == ["failed"]
        assert lab.store.result(key) is None
        assert not list(lab.store.folder(key).glob("*.safetensors"))
        assert "No space left" in job.errors.read_text()
        ballast.unlink()
        assert job.run(key) == ["done"]
        assert lab.result(task).status == "done"
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
