"""The SLURM backend without a cluster: its scripts, and the meaning of SLURM's states for tasks.

The rest runs on a real cluster (tests/harness/backends/slurm/cluster).
"""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.backends.base import Job, Settings
from harness.backends.sent import unfinished
from harness.backends.slurm import cluster
from harness.backends.slurm.array_record import Record, elements, new_name, records, tidy
from harness.backends.slurm.cluster import JobInfo, Limits, Site
from harness.backends.slurm.profile import Profile
from harness.backends.slurm.slurm import (
    Slurm,
    alike,
    batch_script,
    complete,
    held,
    room,
    settle,
)
from harness.spec import Task
from harness.store import Store
from tests.harness.simulated import ended, sweep_record
from workloads.errors import BackendError

if TYPE_CHECKING:
    from tests.harness.conftest import Lab


def stand_ins(folder: Path, patch: pytest.MonkeyPatch, **programs: str) -> None:
    """Put programs first on the PATH that print a text, or fail if it is empty."""
    folder.mkdir(exist_ok=True)
    for name, text in programs.items():
        (folder / f"{name}.txt").write_text(text)
        body = f"cat {folder}/{name}.txt" if text else "exit 1"
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def record(tasks: list[Task], name: str = "sweep.1", made: float = 1.0, **profile: Any) -> Record:
    """One array with an element per task."""
    settings = complete(Settings(profile=Profile(**profile)))
    needs = {task.key: task.needs for task in tasks if task.needs}
    return Record(name, "sweep", tuple((task.key,) for task in tasks), needs, settings, made)


def info(index: int, state: str, name: str = "sweep.1") -> JobInfo:
    return JobInfo(name, "7", index, state, "None", "n1")


@pytest.fixture
def sent(lab: "Lab") -> tuple[Store, list[Task]]:
    """Four tasks in one array."""
    tasks = [lab.task(index) for index in range(4)]
    lab.added(*tasks)
    lab.store.write_sweep(sweep_record("sweep", *tasks, backend="slurm"))
    record(tasks).write(lab.store)
    return lab.store, tasks


def reasons(store: Store, tasks: list[Task]) -> list[str | None]:
    results = [store.result(task.key) for task in tasks]
    return [result.reason if result else None for result in results]


def message(store: Store, task: Task) -> str:
    result = store.result(task.key)
    return (result.message or "") if result else ""


def beat(store: Store, task: Task, age: float = 0.0, job: str | None = None) -> None:
    beat = {"pid": 1, "job": job, "time": time.time() - age, "phase": "", "done": 0, "total": 0}
    (store.folder(task.key) / "heartbeat").write_text(json.dumps(beat))


def test_a_job_that_ended_without_a_row_gets_one_with_slurms_state(
    sent: tuple[Store, list[Task]],
) -> None:
    store, tasks = sent
    for task in tasks:
        (store.folder(task.key) / "log.txt").write_text("it ran")
    states = ["TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "FAILED"]
    assert (
        settle(store, unfinished(store, "sweep"), [info(index, state) for index, state in enumerate(states)])
        == []
    )
    assert reasons(store, tasks) == ["timed_out", "out_of_memory", "cancelled", "killed"]
    assert (
        message(store, tasks[3])
        == "SLURM reports FAILED for job 7_3 on n1; running the sweep again resumes it"
    )


def test_a_task_whose_job_ended_before_it_started_is_distinguished(sent: tuple[Store, list[Task]]) -> None:
    store, tasks = sent
    settle(store, unfinished(store, "sweep"), [info(0, "TIMEOUT")])
    assert reasons(store, tasks[:1]) == ["killed"]
    assert "ended before it started" in message(store, tasks[0])


def test_an_element_that_looks_for_no_more_work_holds_nothing(sent: tuple[Store, list[Task]]) -> None:
    store, tasks = sent
    (store.path / "slurm" / "sweep.1-1.end").touch()
    listed = [info(index, "RUNNING") for index in range(4)]
    assert [each.alive for each in elements(store, listed)] == [True, False, True, True]
    assert held(elements(store, listed)).keys() == {task.key for task in tasks} - {tasks[1].key}
    settle(store, unfinished(store, "sweep"), listed)
    assert reasons(store, tasks) == [None] * 4, "it has not ended yet"


def test_the_state_of_a_whole_array_applies_to_elements_without_one(sent: tuple[Store, list[Task]]) -> None:
    store, tasks = sent
    settle(store, unfinished(store, "sweep"), [info(1, "RUNNING"), info(cluster.WHOLE, "CANCELLED")])
    assert reasons(store, tasks) == ["cancelled", None, "cancelled", "cancelled"]
    assert "job 7 on" in message(store, tasks[0])


def test_running_requeued_or_unknown_tasks_get_no_row(
    sent: tuple[Store, list[Task]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tasks = sent
    stand_ins(tmp_path / "bin", monkeypatch, sacct="")
    record(tasks[3:], "sweep.2", made=2.0).write(store)
    listed = [info(0, "PENDING"), info(1, "COMPLETING"), info(2, "REQUEUED"), info(3, "FAILED")]
    living = settle(store, unfinished(store, "sweep"), listed)
    assert [each.index for each in living] == [0, 1, 2], "the second array is unknown"
    assert reasons(store, tasks) == [None] * 4


def test_an_element_that_alone_of_its_array_is_not_listed_has_ended(
    sent: tuple[Store, list[Task]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tasks = sent
    stand_ins(tmp_path / "bin", monkeypatch, sacct="sweep.1|7_3|TIMEOUT|n1\n")
    for task in tasks[2:]:
        (store.folder(task.key) / "log.txt").write_text("it ran")
    assert [each.index for each in settle(store, unfinished(store, "sweep"), [info(0, "PENDING")])] == [0]
    assert reasons(store, tasks) == [None, "cancelled", "killed", "timed_out"]
    assert "not its job 7_1: cancelled before it started" in message(store, tasks[1])


def test_a_task_with_a_heartbeat_is_left_alone_though_slurm_dropped_its_job(
    sent: tuple[Store, list[Task]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tasks = sent
    stand_ins(tmp_path / "bin", monkeypatch, sacct="")
    beat(store, tasks[1], job="7_1")
    living = settle(store, unfinished(store, "sweep"), [info(index, "PENDING") for index in (0, 2, 3)])
    assert [each.index for each in living] == [0, 1, 2, 3]
    assert reasons(store, tasks) == [None] * 4


def test_a_task_with_a_heartbeat_is_left_alone_though_slurm_lost_its_node(
    sent: tuple[Store, list[Task]],
) -> None:
    store, tasks = sent
    beat(store, tasks[0], job="7_0")
    beat(store, tasks[1], job="another, unknown one")
    beat(store, tasks[2], job="7_2")
    listed = [info(0, "NODE_FAIL"), info(1, "FAILED"), info(2, "FAILED"), info(3, "NODE_FAIL")]
    assert [each.index for each in settle(store, unfinished(store, "sweep"), listed)] == [0, 1]
    assert reasons(store, tasks) == [None, None, "killed", "killed"]


def test_the_accounting_database_is_queried_for_jobs_the_controller_dropped(
    sent: tuple[Store, list[Task]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tasks = sent
    output = "sweep.1|7_0|CANCELLED by 1000|n1\nsweep.1|7_1|RUNNING|n2\nsweep.1|7_[2-3]|PENDING|\n"
    stand_ins(tmp_path / "bin", monkeypatch, sacct=output)
    assert [each.index for each in settle(store, unfinished(store, "sweep"), [])] == [1]
    assert reasons(store, tasks) == ["cancelled", None, None, None]


def test_the_last_array_a_task_was_given_to_decides(
    sent: tuple[Store, list[Task]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tasks = sent
    stand_ins(tmp_path / "bin", monkeypatch, sacct="")
    record(tasks[:2], "sweep.2", made=2.0).write(store)
    listed = [info(index, "FAILED") for index in range(4)]
    later = [info(0, "PENDING", "sweep.2"), info(1, "COMPLETING", "sweep.2")]
    settle(store, unfinished(store, "sweep"), [*listed, *later])
    assert reasons(store, tasks) == [None, None, "killed", "killed"]


def test_a_record_round_trips_and_is_deleted_when_all_is_done(lab: "Lab") -> None:
    made = record([lab.task(), lab.attack(lab.task())], new_name("a" * 100), gpus=1, pack=2)
    assert len(made.name) < 60
    made.write(lab.store)
    (read,) = records(lab.store)
    assert read == made
    assert read.needs[made.packs[1][0]] == lab.attack(lab.task()).needs
    (lab.store.path / "slurm" / "broken.json").write_text("{")
    assert records(lab.store) == [made]
    assert [(each.index, each.info) for each in elements(lab.store, [])] == [(0, None), (1, None)]
    tidy(lab.store, made)
    assert records(lab.store) == []


def test_a_script_requests_the_resources_of_the_profile(
    lab: "Lab", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_ins(tmp_path / "bin", monkeypatch, srun="")
    profile: dict[str, Any] = {
        "partition": "gpu",
        "account": "us",
        "qos": "high",
        "constraint": "a100|h100",
        "gpus": 1,
        "cpus": 4,
        "memory": "16G",
        "time": "2:00:00",
        "signal_seconds": 300,
        "array_parallelism": 7,
        "setup": ["module load cuda"],
        "environment": {"PRIVBENCH_DATA": "/a folder"},
        "options": {"mail_type": "FAIL", "exclusive": True},
    }
    made = record([lab.task(index) for index in range(9)], **profile)
    lines = batch_script(made, lab.store, {"12", "3"}).splitlines()
    for option in (
        "--array=0-8%7",
        "--account=us",
        "--constraint='a100|h100'",
        "--cpus-per-task=4",
        "--dependency=afterany:12:3",
        "--exclusive",
        "--gres=gpu:1",
        "--job-name=sweep.1",
        "--mail-type=FAIL",
        "--mem=16G",
        f"--output={lab.store.path}/slurm/sweep.1-%a.txt",
        "--partition=gpu",
        "--qos=high",
        "--requeue",
        "--signal=B:USR1@300",
        "--time=2:00:00",
    ):
        assert f"#SBATCH {option}" in lines
    began = lines.index("export PRIVBENCH_JOB_BEGAN=$(date +%s)")
    export, load = lines.index("export PRIVBENCH_DATA='/a folder'"), lines.index("module load cuda")
    (run,) = [number for number, line in enumerate(lines) if line.startswith("exec ")]
    assert began < export < load < run
    assert lines[run].endswith(f"-m harness.backends.slurm.element {lab.store.path} sweep.1")


def test_settings_of_the_command_line_go_into_the_profile() -> None:
    done = complete(Settings(slots=5, threads=2, profile=Profile(cpus=2)))
    assert done.profile_as(Profile).array_parallelism == 5
    with pytest.raises(BackendError) as caught:
        complete(Settings(threads=3, profile=Profile(cpus=2)))
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("--threads", 3, 2)


def test_the_device_of_a_job_follows_the_profile() -> None:
    fake = Profile(gpus=1, environment={"PRIVBENCH_DEVICE": "cpu"})
    devices = [Slurm().device(Settings(profile=each)) for each in (None, Profile(gpus=1), fake)]
    assert devices == ["cpu", "cuda", "cpu"]


def test_attacks_with_their_own_partition_request_no_gpu() -> None:
    training, attack = Job(("a",)), Job(("b",), gpu=False)
    gpus = Profile(partition="gpu", gpus=1, gpu_type="a100", constraint="a100", cpus=4)
    assert list(alike([[training, attack]], gpus)) == [([training, attack], gpus)]
    split = gpus.model_copy(update={"attack_partition": "cpu"})
    parts = list(alike([[training, attack], [attack]], split))
    assert [jobs for jobs, _ in parts] == [[training], [attack], [attack]]
    assert [each.partition for _, each in parts] == ["gpu", "cpu", "cpu"]
    asked = parts[1][1]
    assert (asked.gres, asked.constraint, asked.cpus, asked.conflicts()) == (None, None, 4, [])


def test_sharing_gpus_is_refused() -> None:
    with pytest.raises(BackendError) as caught:
        complete(Settings(share_gpus=True))
    assert caught.value.field == "--share-gpus"


def test_jobs_that_are_there_count_against_the_limit() -> None:
    listed = [info(0, "RUNNING"), info(1, "COMPLETED"), info(2, "PENDING")]
    assert room(Limits(10, None), listed) == Limits(10, None)
    assert room(Limits(10, 5), listed) == Limits(10, 3)
    with pytest.raises(BackendError) as caught:
        room(Limits(10, 2), listed)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("jobs", 2, 2)


CONFIG = "ClusterName             = big\nMaxArraySize            = 501\nMaxJobCount = 9000\n"
ACCOUNTS = (
    "AccountingStorageType = accounting_storage/slurmdbd\nAccountingStorageEnforce = associations,limits\n"
)


def test_limits_are_read_from_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins(tmp_path / "bin", monkeypatch, scontrol=CONFIG, sacctmgr="")
    assert Site().limits(Profile()) == Limits(501, 9000)
    stand_ins(tmp_path / "bin", monkeypatch, scontrol=CONFIG + ACCOUNTS, sacctmgr="\n400\n")
    assert Site().limits(Profile(qos="short")) == Limits(501, 400)
    assert Site().accounting


def test_the_width_of_a_cluster_is_what_its_nodes_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = "a|64|gpu:a100:4(S:0-1)\na|64|gpu:a100:4(S:0-1)\nb|8+|gpu:2,tmp:1\nc|16|(null)\n"
    stand_ins(tmp_path / "bin", monkeypatch, sinfo=nodes)
    assert Site().width(Profile(gpus=1, cpus=8)) == 4 + 1
    assert Site().width(Profile(cpus=8)) == 8 + 1 + 2
    stand_ins(tmp_path / "bin", monkeypatch, sinfo="")
    assert Site().width(Profile()) == 1


def test_an_unresponsive_controller_stops_and_submits_nothing(
    sent: tuple[Store, list[Task]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tasks = sent
    stand_ins(tmp_path / "bin", monkeypatch, squeue="", sacct="", scontrol="")
    assert cluster.queue() is None
    assert Slurm().attend(store, "sweep")
    with pytest.raises(BackendError, match="squeue does not respond: nothing was submitted"):
        Slurm().submit([Job((tasks[0].key,))], store, "sweep", Settings())
    with pytest.raises(BackendError, match="nothing was cancelled"):
        Slurm().stop(store, "sweep", cancel=True)
    assert reasons(store, tasks) == [None] * 4
    with pytest.raises(BackendError, match="scontrol failed"):
        Site().limits(Profile())


def test_other_jobs_in_the_queue_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = "mine.1|9|3|RUNNING|None|n1\nnotebook|4|N/A|RUNNING|None|n2\na|b|5|6|RUNNING|None|n2\n"
    stand_ins(tmp_path / "bin", monkeypatch, squeue=output)
    mine, notebook = cluster.queue() or []
    assert mine == JobInfo("mine.1", "9", 3, "RUNNING", "None", "n1")
    assert (notebook.name, notebook.id) == ("notebook", "4")


@pytest.mark.parametrize(
    ("output", "seconds"), [("0:38\n", 38), ("1-00:00:10\n", 86410), ("UNLIMITED\n", 0), ("", 0)]
)
def test_the_time_left_is_read_or_is_none(
    output: str, seconds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_ins(tmp_path / "bin", monkeypatch, squeue=output)
    assert cluster.seconds_left("7") == seconds


def test_a_missing_slurm_is_reported(lab: "Lab", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match="SLURM was not found"):
        batch_script(record([lab.task()]), lab.store, ())
    with pytest.raises(BackendError, match="scontrol was not found"):
        Site().limits(Profile())


def test_a_result_is_never_replaced_by_a_failure_of_slurm(sent: tuple[Store, list[Task]]) -> None:
    store, tasks = sent
    assert store.publish(ended(tasks[0]))
    settle(store, unfinished(store, "sweep"), [info(0, "NODE_FAIL")])
    assert reasons(store, tasks[:1]) == [None] and store.result(tasks[0].key) is not None
