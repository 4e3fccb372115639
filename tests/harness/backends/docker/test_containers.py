"""The options of a container, without an engine: the arguments of `docker create`."""

import csv
import json
import os
import sys
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from harness.backends import gpus
from harness.backends.base import Job, Settings
from harness.backends.docker.containers import (
    NOBODY,
    Container,
    create_command,
    hand_over,
    plain_user,
    size_bytes,
)
from harness.backends.docker.daemon import ask, complaint
from harness.backends.docker.docker import Contained, Docker, complete, default_image, memory_limit
from harness.backends.local import Local
from harness.backends.machine.workers import Worker
from harness.backends.profile import read_as
from harness.store import Store
from workloads.errors import BackendError, SpecError

ROOT = Path(__file__).parents[4]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "a, b" / "store", create=True)


def words(store: Store, gpu: str | None = None, threads: int = 1, **profile: object) -> list[str]:
    asked = Container.model_validate({"image": "sha256:1", "memory": "1G"} | profile)
    return create_command(store, Settings(threads=threads, profile=asked), gpu, "box")


def values(command: list[str], option: str) -> list[str]:
    return [each.partition("=")[2] for each in command if each.startswith(f"--{option}=")]


def test_everything_is_shut_that_a_task_does_not_need(store: Store) -> None:
    command = words(store)
    assert {"--read-only", "--init", "--network=none", "--cap-drop=ALL", "--pull=never"} <= {*command}
    assert {"--security-opt=no-new-privileges", "--memory=1G", "--memory-swap=1G"} <= {*command}
    assert command[-3:] == ["sha256:1", str(store.path), "-"]


def test_only_the_task_folders_can_be_written_and_paths_may_hold_commas(store: Store) -> None:
    mounts = [next(csv.reader([each])) for each in values(words(store, read_only=("/data",)), "mount")]
    assert [each[1] for each in mounts if "readonly" not in each] == [f"source={store.tasks}"]
    assert [each[2] for each in mounts if "readonly" in each] == [
        f"target={store.path}/store.json",
        f"target={store.path}/given",
        "target=/data",
    ]


def test_the_environment_is_all_ours(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    command = words(store, threads=3, environment={"A": "b=c"})
    found = dict(each.split("=", 1) for each in values(command, "env"))
    assert found["OMP_NUM_THREADS"] == found["PRIVBENCH_THREADS"] == "3"
    assert found["A"] == "b=c"
    assert found["PRIVBENCH_IMAGE"] == "sha256:1"
    threads = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PRIVBENCH_THREADS"}
    device = {"PRIVBENCH_DEVICE", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}
    assert found.keys() == threads | device | {"HOME", "PRIVBENCH_IMAGE", "A"}


def test_a_container_has_its_gpu_or_none_and_records_it(store: Store) -> None:
    command = words(store, "GPU-1")
    assert values(command, "gpus") == ["device=GPU-1"]
    assert {"PRIVBENCH_DEVICE=cuda", "CUDA_VISIBLE_DEVICES=GPU-1"} <= {*values(command, "env")}
    assert "CUBLAS_WORKSPACE_CONFIG=:4096:8" in values(command, "env")
    assert "exec" in values(command, "tmpfs")[0].split(",")
    without = words(store)
    assert values(without, "gpus") == []
    assert {"PRIVBENCH_DEVICE=cpu", "NVIDIA_VISIBLE_DEVICES=void"} <= {*values(without, "env")}
    assert "exec" not in values(without, "tmpfs")[0].split(",")


LABELS = {"privbench:mine": "cpu", "privbench:theirs": ""}
"""Images that the engine below has beside those of this version, and what they say they are for."""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `docker` that has some images; the digest of each is its name."""
    labels = {**LABELS, default_image(): "cpu", default_image(cuda=True): "cuda"}
    cases = "\n".join(f"*Labels*{image}) echo {label} ;;" for image, label in labels.items())
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "docker"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in\n{cases}\n*Labels*) exit 1 ;;\n'
        '*inspect*.Id*) for last; do :; done; echo "$last" ;;\nesac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PRIVBENCH_DEVICE", raising=False)


def completed(**profile: object) -> Settings:
    return complete(Settings(profile=Container.model_validate(profile)), [Job(("a",))])


def image_of(settings: Settings) -> str | None:
    return settings.profile_as(Container).image


@pytest.mark.usefixtures("engine")
def test_the_image_fits_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert image_of(completed()) == default_image()
    assert image_of(completed(image="privbench:mine")) == "privbench:mine"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2")
    monkeypatch.setattr(gpus, "cards", list)
    sent = completed()
    assert (image_of(sent), sent.gpus) == (default_image(cuda=True), ["GPU-1", "GPU-2"])
    assert image_of(completed(image="privbench:theirs")) == "privbench:theirs"
    for image in ("privbench:mine", default_image()):
        with pytest.raises(BackendError, match=r"is for CPUs, but there are 2 GPUs.*gpu = 'none'"):
            completed(image=image)
    given = completed(image="privbench:mine", gpu="none")
    assert (image_of(given), given.gpus) == ("privbench:mine", [])
    assert image_of(completed(gpu="none")) == default_image()


def test_the_device_of_containers_follows_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "cards", list)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    monkeypatch.delenv("PRIVBENCH_DEVICE", raising=False)
    assert Docker().device(Settings()) == Local().device(Settings()) == "cuda"
    assert Docker().device(Settings(profile=Container.model_validate({"gpu": "none"}))) == "cpu"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert Docker().device(Settings()) == Local().device(Settings()) == "cpu"


@pytest.mark.usefixtures("engine")
def test_a_gpu_that_the_profile_wants_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(BackendError, match="gpu = 'one', but no usable GPU was found"):
        completed(gpu="one")


def test_a_task_is_never_root(store: Store) -> None:
    user, group = plain_user(store)
    assert user == (os.getuid() or NOBODY)
    assert values(words(store), "user") == [f"{user}:{group}"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_root_hands_a_task_folder_over_to_the_plain_user(tmp_path: Path) -> None:
    (tmp_path / "task" / "checkpoint").mkdir(parents=True)
    (tmp_path / "task" / "checkpoint" / "0").touch()
    hand_over(tmp_path / "task", 1234, 5678)
    for path in (tmp_path / "task", *(tmp_path / "task").rglob("*")):
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)
    assert tmp_path.stat().st_uid == 0


@pytest.mark.parametrize(("text", "count"), [("5", 5), ("2K", 2048), ("3M", 3 << 20), ("1T", 1 << 40)])
def test_sizes_are_read_in_every_spelling(text: str, count: int) -> None:
    assert size_bytes(text) == count


def test_memory_comes_from_what_was_recorded_or_is_a_share() -> None:
    total = psutil.virtual_memory().total
    known = [Job(("a",), memory_bytes=2**28), Job(("b",), memory_bytes=2**29)]
    assert memory_limit(known, Settings(slots=2)) == 2**31
    assert memory_limit([*known, Job(("c",))], Settings(slots=2)) == int(0.9 * total / 2)
    assert memory_limit([Job(("a",), memory_bytes=total)], Settings(slots=2)) == total
    on_gpus = Settings(threads=10**6, gpus=["GPU-1", "GPU-2"])
    assert memory_limit(known, on_gpus) == int(0.9 * total / 3), (
        "of the device was recorded; an attack has a slot"
    )


def test_a_profile_reports_every_problem(tmp_path: Path) -> None:
    file = tmp_path / "profile.toml"
    file.write_text('memory = "lots"\nscrach = "1G"\nread_only = ["data"]\n')
    with pytest.raises(SpecError) as caught:
        read_as(Container, file)
    given = str(caught.value)
    assert "did you mean 'scratch'" in given
    assert "memory = 'lots': give the memory of a container" in given
    assert "absolute path" in given
    file.write_text('memory = "4G"\n[environment]\nA = "b"\n')
    assert read_as(Container, file).environment == {"A": "b"}


def test_the_sample_profile_is_good_and_the_page_has_every_key() -> None:
    sample = read_as(Container, ROOT / "docker" / "profile.toml")
    fields = Container.model_fields
    theirs = {key: getattr(sample, key) for key in fields if key not in ("image", "memory", "cpus")}
    assert theirs == {key: fields[key].default for key in theirs}, "these are given as defaults"
    page = (ROOT / "docs" / "profiles.md").read_text()
    assert {key for key in Container.model_fields if f"| `{key}` |" not in page} == set()


def test_the_engine_s_message_is_reported() -> None:
    given = "docker: Error response from daemon: no such thing.\nSee 'docker run --help'.\n"
    assert complaint(given) == "docker: Error response from daemon: no such thing."
    assert complaint("Error response from daemon: gone\n") == "gone"
    assert complaint("") == ""


def test_without_docker_the_error_states_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match="use another --backend"):
        ask("version")


KEEPER = """
import sys
sys.stdout.write("ready\\n"); sys.stdout.flush()
key = sys.stdin.readline().strip()
{answer}
sys.stdout.flush()
"""


class Scripted(Worker):
    """A containerised worker whose keeper is a script."""

    disposable: ClassVar[bool] = Contained.disposable

    def __init__(self, store: Store, answer: str) -> None:
        program = (sys.executable, "-c", KEEPER.format(answer=answer))
        super().__init__(store, Settings(), None, program)
        self.give("ab", None)
        self.process.wait(60)


def test_a_keeper_s_last_line_is_the_reason(store: Store) -> None:
    cause = json.dumps(["out_of_memory", "too big"])
    dead = Scripted(store, f"print('exit_cause', {cause!r})")
    assert list(dead.ended_tasks()) == []
    assert dead.exit_cause(0) == ("out_of_memory", "too big")
    dead.end()


@pytest.mark.parametrize(("status", "spent"), [("done", False), ("interrupted", False), ("failed", True)])
def test_a_container_whose_task_failed_is_not_reused(store: Store, status: str, spent: bool) -> None:
    used = Scripted(store, f"print(key, {status!r})")
    assert list(used.ended_tasks()) == [("ab", status)]
    assert used.spent is spent
    used.end()
