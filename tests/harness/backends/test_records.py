"""Records of older versions are read as before."""

from pathlib import Path
from typing import Any

import pytest

from harness.backends.base import Settings
from harness.backends.docker.containers import Container
from harness.backends.machine.queue import QueuedJob, Submission, read_submission
from harness.backends.sent import sent_backend, sent_settings
from harness.backends.slurm.array_record import Record, records
from harness.backends.slurm.profile import Profile
from harness.store import Store
from harness.store.files import dump_checked
from harness.store.journal import parse_sweep
from tests.harness.simulated import sweep_record
from workloads.errors import StoreError

CONTAINER = {
    "image": "sha256:1",
    "memory": "2G",
    "cpus": None,
    "scratch": "1G",
    "processes": 1024,
    "gpu": "auto",
    "read_only": ["/data"],
    "environment": {"PRIVBENCH_DATA": "/data"},
    "engine": "unix:///run/docker.sock",
}
OLD: dict[str, Any] = {
    "slots": 2,
    "threads": 1,
    "timeout_seconds": None,
    "environment": {},
    "profile": None,
    "share_gpus": False,
    "gpus": [],
}
"""Settings as privbench 0.1 wrote them."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


def queued(store: Store, **content: object) -> Path:
    file = store.queue / f"{1:020d}-x.json"
    file.write_bytes(dump_checked(content))
    return file


def test_settings_of_an_old_sweep() -> None:
    sweep = parse_sweep({"backend": "docker", "settings": OLD | {"profile": CONTAINER}, "tasks": []})
    found = sent_settings(sweep)
    assert (found.slots, found.gpus, found.profile_as(Container).read_only) == (2, [], ("/data",))
    assert sent_settings(sweep, "slurm").profile is None, "of another backend"
    # From before GPUs were assigned, and before submissions named their backend.
    plain = {"slots": 1, "threads": 2, "timeout_seconds": 5.0, "environment": {}}
    before = parse_sweep({"settings": plain, "tasks": []})
    assert sent_backend(before) == "local"
    assert sent_settings(before) == Settings(1, 2, 5.0)
    assert sent_settings(parse_sweep({"tasks": []})) == Settings()


@pytest.mark.parametrize(
    "settings",
    [OLD | {"of_the_future": 1}, OLD | {"profile": {"cpus": 1}}, OLD | {"threads": "many"}],
)
def test_settings_of_another_version_are_reported(settings: dict[str, Any]) -> None:
    with pytest.raises(StoreError, match="another version of privbench"):
        sent_settings(parse_sweep({"backend": "local", "settings": settings, "tasks": []}))


def test_an_old_submission_is_of_the_backend_that_its_sweep_was_sent_to(store: Store) -> None:
    job = {"tasks": ["a"], "needs": [], "gpu": False}
    file = queued(store, sweep="sweep", settings=OLD, jobs=[job, {"tasks": ["b"], "needs": ["a"]}])
    jobs = (QueuedJob(tasks=("a",), gpu=False), QueuedJob(tasks=("b",), needs=("a",)))
    plain = Submission(sweep="sweep", backend="local", settings=Settings(2, gpus=[]), jobs=jobs)
    assert read_submission(store, file) == plain
    store.write_sweep(sweep_record("sweep", backend="docker"))
    file = queued(store, sweep="sweep", settings=OLD | {"profile": CONTAINER}, jobs=[])
    found = read_submission(store, file)
    assert found is not None
    assert (found.backend, found.settings.profile_as(Container).memory) == ("docker", "2G")


def test_a_submission_of_a_backend_without_this_queue_is_ignored(store: Store) -> None:
    for backend in ("slurm", "nobody's"):
        assert (
            read_submission(store, queued(store, sweep="s", backend=backend, settings=OLD, jobs=[])) is None
        )


def test_an_old_array_record(store: Store) -> None:
    (store.path / "slurm").mkdir()
    profile = {"partition": "gpu", "gpus": 1, "setup": ["module load cuda"], "pack": "auto"}
    content = {
        "sweep": "sweep",
        "packs": [["a", "b"], ["c"]],
        "needs": {"c": ["a"]},
        "settings": OLD | {"profile": profile},
        "made": 12.5,
    }
    (store.path / "slurm" / "sweep.1.json").write_bytes(dump_checked(content))
    asked = Profile(partition="gpu", gpus=1, setup=("module load cuda",))
    settings = Settings(2, profile=asked, gpus=[])
    found = Record("sweep.1", "sweep", (("a", "b"), ("c",)), {"c": ("a",)}, settings, 12.5)
    assert records(store) == [found]
    found.write(store)
    assert records(store) == [found]
