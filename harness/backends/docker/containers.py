"""What a container may use, and the command that makes one: everything is shut that a task does not need."""

import contextlib
import csv
import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.backends.base import PROFILE, Settings
from harness.backends.docker.daemon import KEEPER_LABEL, STORE_LABEL
from harness.backends.gpus import for_device
from harness.backends.profile import Name, ProfileFile
from harness.store import Store

Size = Annotated[str, Field(pattern=r"^[1-9]\d*[KMGT]?$")]
Folder = Annotated[str, Field(pattern=r"^/")]
NOBODY = 65534
"""The user of containers on a store of root's: a task is never root."""
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Container(ProfileFile):
    """A profile of the docker backend; nothing here changes a number."""

    image: str | None = Field(None, description="an image whose entry point is harness.job; else privbench's")
    memory: Size | None = Field(
        None, description="the memory of a container, as 4G; else by recorded trainings, else a slot's share"
    )
    cpus: float | None = Field(None, gt=0, description="the cores of a container; else one per thread")
    scratch: Size = Field("1G", description="the size of /tmp, as 1G; it counts as memory")
    processes: int = Field(1024, ge=16, description="the processes and threads a container may have")
    gpu: Literal["auto", "none", "one"] = Field(
        "auto", description="auto (one where the machine has some), none, or one"
    )
    read_only: tuple[Folder, ...] = Field(
        (), description="a list of further folders, by absolute path, that tasks may read"
    )
    environment: dict[Name, str] = Field({}, description="variables of the tasks, as NAME = 'text'")
    engine: str | None = Field(None, description="an engine's address, as DOCKER_HOST has it; else yours")


class Order(BaseModel):
    """What a keeper is told on its command line: how to make its container, and on which GPU."""

    model_config = ConfigDict(frozen=True)

    settings: Settings
    gpu: str | None

    @property
    def container(self) -> Container:
        """The profile, with everything resolved."""
        return self.settings.profile_as(Container)


def read_order(text: str) -> Order:
    """The order on a keeper's command line."""
    return Order.model_validate_json(text, context={PROFILE: Container})


def size_bytes(size: str) -> int:
    """A size as profiles write it, in bytes."""
    return int(size.rstrip("KMGT")) * UNITS.get(size[-1], 1)


def plain_user(store: Store) -> tuple[int, int]:
    """(user, group) of a store's containers: its owner's, or nobody's where that is root."""
    owner = store.path.stat()
    return (owner.st_uid, owner.st_gid) if owner.st_uid else (NOBODY, NOBODY)


def hand_over(folder: Path, user: int, group: int) -> None:
    """Give a task's folder, made by root, to the user that works in it."""
    for each in [folder, *folder.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):  # a task that runs already replaces files all the time
            os.chown(each, user, group, follow_symlinks=False)


def create_command(store: Store, settings: Settings, gpu: str | None, name: str) -> list[str]:
    """The words after `docker` that make a container whose entry point serves tasks of this store."""
    profile = settings.profile_as(Container)
    user, group = plain_user(store)
    memory = profile.memory or "0"
    # What torch.compile makes for a GPU lands in /tmp and is loaded from there; the engine forbids that.
    loads = ",exec" if gpu is not None else ""
    options = {
        "name": name,
        "hostname": socket.gethostname(),  # results tell of it
        "user": f"{user}:{group}",
        "workdir": "/tmp",
        "pull": "never",
        "network": "none",
        "cap-drop": "ALL",
        "security-opt": "no-new-privileges",
        "pids-limit": profile.processes,
        "memory": memory,
        "memory-swap": memory,  # no swap: a task that does not fit fails, and does not crawl
        "cpus": profile.cpus or settings.threads,
        "tmpfs": f"/tmp:rw,nosuid,nodev,size={size_bytes(profile.scratch)},mode=1777{loads}",
    }
    words = ["create", "--interactive", "--init", "--read-only"]
    words += [f"--{option}={value}" for option, value in options.items()]
    words += [f"--label={STORE_LABEL}={store.path}", f"--label={KEEPER_LABEL}={os.getpid()}"]
    words += [f"--mount={each}" for each in _mounts(store, profile)]
    variables = _environment(settings, profile, gpu)
    words += [f"--env={variable}={value}" for variable, value in variables.items()]
    words += [f"--gpus=device={gpu}"] if gpu is not None else []
    return [*words, str(profile.image), str(store.path), "-"]


def _mounts(store: Store, profile: Container) -> Iterator[str]:
    """The task folders to write, everything else to read. A missing source is an error of the engine's."""
    yield _mount(store.tasks)
    for path in (store.path / "store.json", *map(Path, profile.read_only)):
        yield _mount(path, "readonly")


def _mount(path: Path, *options: str) -> str:
    line = io.StringIO()  # the engine reads it as a line of CSV: a path may hold a comma
    csv.writer(line, lineterminator="").writerow(["type=bind", f"source={path}", f"target={path}", *options])
    return line.getvalue()


def _environment(settings: Settings, profile: Container, gpu: str | None) -> dict[str, str]:
    """All a task sees of an environment; nothing comes from the host's."""
    threads = str(settings.threads)
    # NVIDIA's base images ask for all cards, which an engine with NVIDIA's runtime as its default obeys.
    hidden = {"NVIDIA_VISIBLE_DEVICES": "void"} if gpu is None else {}
    return {
        **for_device(hidden, gpu),
        "HOME": "/tmp",
        "PRIVBENCH_IMAGE": str(profile.image),
        "PRIVBENCH_THREADS": threads,
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads),
        **settings.environment,
        **profile.environment,
    }
