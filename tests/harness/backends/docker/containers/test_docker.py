"""The docker backend on a real engine: the rows of local, the restrictions, and every documented failure."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.backends.base import Settings
from harness.backends.docker import daemon, docker
from harness.backends.docker.containers import NOBODY, Container, plain_user
from harness.backends.docker.docker import Docker
from harness.backends.machine import queue as local
from harness.spec import Task
from workloads.errors import BackendError

if TYPE_CHECKING:
    from tests.harness.backends.docker.containers.conftest import Boxes, Engine
    from tests.harness.conftest import Lab

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SLOW: dict[str, Any] = {"steps": 25, "pause": 0.2}


def undisturbed(lab: "Lab", tasks: Sequence[Task]) -> list[tuple[Any, ...]]:
    """The rows of tasks that run undisturbed in plain processes of this machine."""
    lab.send(tasks, slots=2)
    lab.wait_for(*tasks)
    return lab.rows(tasks)


@pytest.mark.usefixtures("shadowing")
def test_rows_equal_those_of_local_and_one_container_makes_them_all(boxes: "Boxes", peaceful: "Lab") -> None:
    tasks = [boxes.lab.task(0), boxes.lab.task(1)]
    every = [*tasks, boxes.lab.attack(tasks[0])]
    boxes.send(every)
    names = set()
    while boxes.store.result(every[-1].key) is None:
        names.update(boxes.containers())
    assert boxes.finish(every) == [None] * 3
    assert len(names) == 1
    assert boxes.lab.rows(every) == undisturbed(peaceful, every)
    provenance = boxes.lab.result(tasks[0]).provenance
    assert provenance["image"] == daemon.image_id(str(boxes.profile["image"]))
    assert provenance["host"] == os.uname().nodename
    owner = (boxes.store.folder(tasks[0].key) / "result.json").stat()
    assert (owner.st_uid, owner.st_gid) == plain_user(boxes.store)
    assert owner.st_uid == (os.getuid() or NOBODY)


def test_a_bench_runs_in_a_container_and_prints_its_figures(boxes: "Boxes", tmp_path: Path) -> None:
    file = tmp_path / "box.toml"
    lines = [f"{name} = {json.dumps(boxes.profile[name])}" for name in ("image", "memory", "read_only")]
    lines += ["[environment]", f"PYTHONPATH = {json.dumps(boxes.profile['environment']['PYTHONPATH'])}"]
    file.write_text("\n".join(lines))
    command = [sys.executable, "-P", "-m", "harness.cli", "bench", "--backend", "docker", "--json"]
    command += ["--profile", str(file), "--store", str(boxes.store.path), "--steps", "12", "--seconds", "1"]
    command += ["--workload", "digits-linear", "--method", "dp-sgd"]
    sent = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert sent.returncode == 0, sent.stderr
    (found,) = json.loads(sent.stdout)
    result = boxes.store.result(found["key"])
    assert result is not None and result.provenance["image"] == daemon.image_id(str(boxes.profile["image"]))
    assert result.bench.bench.methods[1].ratio is not None


def test_a_running_container_is_locked(boxes: "Boxes", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    task = boxes.lab.task(**SLOW)
    boxes.send([task], memory="1G", cpus=0.5, scratch="64M", processes=100)
    found = boxes.inspect(boxes.running(task))
    host = found["HostConfig"]
    assert host["ReadonlyRootfs"] is True
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["Privileged"] is False
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["PidsLimit"] == 100
    assert host["Memory"] == host["MemorySwap"] == 2**30
    assert host["NanoCpus"] == 5 * 10**8
    assert host["Init"] is True
    assert "size=67108864" in host["Tmpfs"]["/tmp"]
    assert found["Config"]["User"] == "{}:{}".format(*plain_user(boxes.store))
    writable = {mount["Source"] for mount in found["Mounts"] if mount["RW"]}
    assert writable == {str(boxes.store.tasks)}
    names = {each.partition("=")[0] for each in found["Config"]["Env"]}
    assert "SECRET_OF_THE_HOST" not in names
    assert "DOCKER_HOST" not in names
    assert boxes.finish([task]) == [None]


@pytest.mark.parametrize("trouble", ["hoard", "child"])
def test_out_of_memory_is_reported_with_the_limit_and_fails_alone(boxes: "Boxes", trouble: str) -> None:
    bad, good = boxes.lab.task(trouble=trouble), boxes.lab.task(1)
    boxes.send([bad, good], memory="1200M")
    assert boxes.finish([bad, good]) == ["out_of_memory", None]
    assert "1200 MiB" in boxes.message(bad)


def test_a_killed_container_costs_its_task_and_rerunning_completes(boxes: "Boxes", peaceful: "Lab") -> None:
    slow, other = boxes.lab.task(**SLOW), boxes.lab.task(1)
    boxes.send([slow, other])
    daemon.ask("kill", boxes.running(slow))
    assert boxes.finish([slow, other]) == ["killed", None]
    assert "SIGKILL" in boxes.message(slow)
    assert boxes.send([slow, other]) == 1
    assert boxes.finish([slow, other]) == [None, None]
    assert boxes.lab.rows([slow, other]) == undisturbed(peaceful, [slow, other])


def test_a_crashed_engine_costs_running_tasks_and_the_rest_continues(
    boxes: "Boxes", engine: "Engine"
) -> None:
    long, other = boxes.lab.task(steps=10, pause=3.0), boxes.lab.task(1)
    boxes.send([long, other])
    boxes.running(long)
    engine.must("kill")
    engine.must("up")  # a new engine ends the containers of the old one
    assert boxes.finish([long, other]) == ["killed", None]
    assert "engine" in boxes.message(long)
    assert boxes.send([long, other]) == 1
    assert boxes.finish([long, other]) == [None, None]


def test_a_missing_image_is_reported_before_anything_is_submitted(boxes: "Boxes") -> None:
    with pytest.raises(BackendError, match="privbench image build"):
        boxes.send([boxes.lab.task()], image="no-such-image:1")
    assert local.submissions(boxes.store) == []


def test_an_image_that_disappears_later_is_reported_in_the_rows(
    boxes: "Boxes", monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [boxes.lab.task(0), boxes.lab.task(1)]
    with monkeypatch.context() as patch:
        patch.setattr(docker, "complete", lost_image)
        boxes.send(tasks)
    assert boxes.finish(tasks) == ["killed", "killed"]
    assert "No such image" in boxes.message(tasks[0])
    assert boxes.send(tasks) == 2
    assert boxes.finish(tasks) == [None, None]


def lost_image(settings: Settings, jobs: Sequence[Any]) -> Settings:
    """The settings of a submission whose image was removed after it was resolved."""
    lost = settings.profile_as(Container).model_copy(update={"image": f"sha256:{'0' * 64}"})
    return Settings(settings.slots, profile=lost)


@pytest.mark.parametrize(
    ("gpus", "profile", "words"),
    [
        ("GPU-1", {}, "could not select device driver"),
        ("", {"read_only": ("/no/such/folder",)}, "source path does not exist"),
    ],
)
def test_a_container_that_cannot_start_is_reported_in_the_row(
    boxes: "Boxes", monkeypatch: pytest.MonkeyPatch, gpus: str, profile: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    task = boxes.lab.task()
    boxes.send([task], **profile)
    assert boxes.finish([task]) == ["killed"]
    assert words in boxes.message(task)


def test_a_full_scratch_folder_fails_alone(boxes: "Boxes") -> None:
    bad, good = boxes.lab.task(trouble="fill"), boxes.lab.task(1)
    boxes.send([bad, good], scratch="32M")
    assert boxes.finish([bad, good]) == ["killed", None]
    assert "No space left" in boxes.message(bad)


def test_a_task_that_hangs_is_ended_at_its_time_limit(boxes: "Boxes") -> None:
    bad, good = boxes.lab.task(trouble="deaf"), boxes.lab.task(1)
    boxes.send([bad, good], timeout=30)
    assert boxes.finish([bad, good]) == ["timed_out", None]


def test_after_a_killed_supervisor_no_container_is_left_and_the_next_completes(
    boxes: "Boxes", peaceful: "Lab"
) -> None:
    slow = boxes.lab.task(**SLOW)
    boxes.send([slow])
    boxes.running(slow)
    (supervisor,) = boxes.lab.supervisors()
    supervisor.kill()
    boxes.lab.wait(lambda: not boxes.keepers())
    assert boxes.containers() == []
    assert boxes.store.result(slow.key) is None
    assert (boxes.store.folder(slow.key) / "checkpoint").exists()
    local.start_supervisor(boxes.store)
    assert boxes.finish([slow]) == [None]
    assert boxes.lab.rows([slow]) == undisturbed(peaceful, [slow])


def test_containers_of_a_killed_keeper_are_removed_by_the_next(boxes: "Boxes") -> None:
    slow, other = boxes.lab.task(**SLOW), boxes.lab.task(1)
    boxes.send([slow, other])
    orphan = boxes.running(slow)
    (keeper,) = boxes.keepers()
    keeper.kill()
    boxes.lab.wait(lambda: boxes.store.result(other.key))
    assert orphan not in boxes.containers()
    assert boxes.finish([slow, other])[1] is None


def test_a_cancelled_sweep_saves_and_leaves_rows(boxes: "Boxes") -> None:
    slow, waiting = boxes.lab.task(**SLOW), boxes.lab.task(1)
    boxes.send([slow, waiting])
    boxes.running(slow)
    Docker().stop(boxes.store, "sweep", cancel=True)
    assert boxes.finish([slow, waiting]) == ["cancelled", "cancelled"]
    assert (boxes.store.folder(slow.key) / "checkpoint").exists()
