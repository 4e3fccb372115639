"""Docker containers: the queue and supervisor of harness/backends/machine, with every worker in a container.

A container runs one task after another, so that its start-up is paid once. A failed task ends its
container, so that nothing it left (a full /tmp, the engine's out-of-memory flag) affects the next. Its keeper
(harness/backends/docker/keeper.py) creates, watches and removes it; its permissions are in
harness/backends/docker/containers.py.
"""

import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import ClassVar, Literal

import psutil

from harness.backends.base import Finding, Job, Settings, program
from harness.backends.docker import daemon
from harness.backends.docker.containers import Container, Order, hand_over, plain_user
from harness.backends.gpus import placed
from harness.backends.machine.queue import Queued
from harness.backends.machine.workers import Worker, slots
from harness.backends.profile import ProfileFile
from harness.store import Store
from workloads.errors import BackendError

SPARE_BYTES = 2**30
"""Added to twice the memory of a recorded training: the limit should contain mistakes, not cause failures."""
DEVICE_LABEL = "privbench.device"
"""The label of an image with its device: cpu or cuda."""


class Docker(Queued):
    """Runs jobs in containers of this machine."""

    name = "docker"
    about: ClassVar[str] = "Docker containers of this machine"
    Profile: ClassVar[type[ProfileFile] | None] = Container
    packs: ClassVar[bool] = True

    def worker(self, store: Store, settings: Settings, gpu: str | None) -> Worker:
        """A worker in a container."""
        return Contained(store, settings, gpu)

    def device(self, settings: Settings) -> Literal["cpu", "cuda"]:
        """`cuda` if there are GPUs and the profile does not exclude them."""
        return "cuda" if with_gpus(settings, settings.profile_as(Container)).gpus else "cpu"

    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> None:
        """Queue the jobs, with everything resolved that the supervisor's environment may lack."""
        settings = complete(settings, jobs)
        if os.getuid() == 0:
            for job in jobs:
                for key in job.tasks:
                    hand_over(store.folder(key), *plain_user(store))
        super().submit(jobs, store, sweep, settings)

    def parts(self) -> list[Finding]:
        """Check for the `docker` command."""
        path = shutil.which("docker")
        return [Finding("docker", path is not None, path, "the docker backend")]

    def check(self, profile: ProfileFile | None) -> list[Finding]:
        """Check the engine, its users, the image and a container of it, up to the first failure."""
        from harness.backends.docker.image import examine  # imports this module

        asked = Settings(profile=profile).profile_as(Container)
        if asked.engine:
            daemon.use(asked.engine)
        return examine(asked.image)


class Contained(Worker):
    """A worker whose tasks run in a container."""

    kill_signal: ClassVar[signal.Signals] = signal.SIGUSR1
    disposable: ClassVar[bool] = True

    def __init__(self, store: Store, settings: Settings, gpu: str | None) -> None:
        order = Order(settings=settings, gpu=gpu).model_dump_json()
        super().__init__(store, settings, gpu, [*program("harness.backends.docker.keeper"), order])


def default_image(cuda: bool = False) -> str:
    """The name of the image that `privbench image build` makes for this version, with `--cuda` for GPUs."""
    return f"privbench:{version('privbench')}" + ("-cuda" if cuda else "")


def complete(settings: Settings, jobs: Sequence[Job]) -> Settings:
    """Resolve the settings: GPUs, image digest, engine address, memory limit, data folders.

    BackendError if the engine does not respond, lacks the image, or the image is for another device: better
    now than in every task.
    """
    # Imported here: it loads numpy, which `status` does not need.
    from workloads.data.places import cache_root, data_root

    profile = settings.profile_as(Container)
    if profile.engine:
        daemon.use(profile.engine)
    settings = with_gpus(settings, profile)
    places = {"PRIVBENCH_DATA": data_root(), "PRIVBENCH_CACHE": cache_root()}
    present = {name: str(folder.absolute()) for name, folder in places.items() if folder.is_dir()}
    resolved = profile.model_copy(
        update={
            "image": fitting_image(profile.image, settings),
            "engine": daemon.endpoint(),
            "memory": profile.memory or str(memory_limit(jobs, settings)),
            "read_only": tuple(dict.fromkeys((*profile.read_only, *present.values()))),
            "environment": {**present, **profile.environment},
        }
    )
    return replace(settings, profile=resolved)


def with_gpus(settings: Settings, profile: Container) -> Settings:
    """Resolve the GPUs of containers; BackendError if the profile requires one and there is none."""
    found = replace(settings, gpus=[]) if profile.gpu == "none" else placed(settings)
    if profile.gpu == "one" and not found.gpus:
        raise BackendError(
            "the profile has gpu = 'one', but no usable GPU was found (see `privbench doctor`): "
            "give gpu = 'auto' or 'none' to use the CPU",
            field="gpu",
            value="one",
            allowed=("auto", "none"),
        )
    return found


def fitting_image(named: str | None, settings: Settings) -> str:
    """The digest of the named image, or of this version's default for the device.

    An image for CPUs would make every training on a GPU fail.
    """
    image = named or default_image(cuda=bool(settings.gpus))
    digest = daemon.image_id(image)
    if settings.gpus and daemon.label(digest, DEVICE_LABEL) == "cpu":
        raise BackendError(
            f"the image {image} is for CPUs, but there are {len(set(settings.gpus))} GPUs: name one built by "
            "`privbench image build --cuda`, or give the profile gpu = 'none' to use the CPU",
            field="image",
            value=image,
        )
    return digest


def memory_limit(jobs: Sequence[Job], settings: Settings) -> int:
    """Memory of one container: by the largest job if all are known, else a slot's share of the machine."""
    known = [job.memory_bytes for job in jobs if job.memory_bytes is not None]
    total = int(psutil.virtual_memory().total)
    if settings.gpus or len(known) < len(jobs):  # on a GPU the recorded memory is the device's
        return int(0.9 * total / (slots(settings) + slots(settings, on_gpu=True)))
    return min(total, 2 * max(known) + SPARE_BYTES)
