"""What a container may use, and the command that creates one: a task gets only what it needs."""

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
from workloads.threads import LIBRARIES, THREADS

Size = Annotated[str, Field(pattern=r"^[1-9]\d*[KMGT]?$")]
Folder = Annotated[str, Field(pattern=r"^/")]
NOBODY = 65534
"""The user of containers if root owns the store: a task never runs as root."""
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class Container(ProfileFile):
    """A profile of the docker backend; no option changes a result."""

    image: str | None = Field(None, description="an image that starts harness.jobs; default: privbench's")
    memory: Size | None = Field(
        None,
        description="the memory of a container, e.g. 4G; default: by recorded trainings, or a slot's share",
    )
    cpus: float | None = Field(None, gt=0, description="the cores of a container; default: one per thread")
    scratch: Size = Field("1G", description="the size of /tmp, e.g. 1G; it counts as memory")
    processes: int = Field(1024, ge=16, description="the processes and threads a container may have")
    gpu: Literal["auto", "none", "one"] = Field(
        "auto", description="auto (one where the machine has some), none, or one"
    )
    read_only: tuple[Folder, ...] = Field(
        (), description="a list of further folders, by absolute path, that tasks may read"
    )
    environment: dict[Name, str] = Field({}, description="environment variables: NAME = 'text'")
    engine: str | None = Field(
        None, description="an engine's address, as in DOCKER_HOST; default: the current one"
    )


class Order(BaseModel):
    """The argument of a keeper: the settings and GPU of its container."""

    model_config = ConfigDict(frozen=True)

    settings: Settings
    gpu: str | None

    @property
    def container(self) -> Container:
        """The resolved profile."""
        return self.settings.profile_as(Container)


def read_order(text: str) -> Order:
    """Parse the argument of a keeper."""
    return Order.model_validate_json(text, context={PROFILE: Container})


def size_bytes(size: str) -> int:
    """Convert a size such as 4G to bytes."""
    return int(size.rstrip("KMGT")) * UNITS.get(size[-1], 1)


def plain_user(store: Store) -> tuple[int, int]:
    """(user, group) of a store's containers: its owner, or nobody if that is root."""
    owner = store.path.stat()
    return (owner.st_uid, owner.st_gid) if owner.st_uid else (NOBODY, NOBODY)


def hand_over(folder: Path, user: int, group: int) -> None:
    """Give a task's folder, created by root, to the user of the container."""
    for each in [folder, *folder.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):  # a running task replaces files all the time
            os.chown(each, user, group, follow_symlinks=False)


def create_command(store: Store, settings: Settings, gpu: str | None, name: str) -> list[str]:
    """The arguments of `docker` that create a worker container of this store."""
    profile = settings.profile_as(Container)
    user, group = plain_user(store)
    memory = profile.memory or "0"
    # torch.compile for a GPU loads its libraries from /tmp, which the engine forbids by default.
    loads = ",exec" if gpu is not None else ""
    options = {
        "name": name,
        "hostname": socket.gethostname(),  # recorded in results
        "user": f"{user}:{group}",
        "workdir": "/tmp",
        "pull": "never",
        "network": "none",
        "cap-drop": "ALL",
        "security-opt": "no-new-privileges",
        "pids-limit": profile.processes,
        "memory": memory,
        "memory-swap": memory,  # no swap: a task that does not fit fails at once
        "cpus": profile.cpus or settings.threads,
        "tmpfs": f"/tmp:rw,nosuid,nodev,size={size_bytes(profile.scratch)},mode=1777{loads}",
    }
    arguments = ["create", "--interactive", "--init", "--read-only"]
    arguments += [f"--{option}={value}" for option, value in options.items()]
    arguments += [f"--label={STORE_LABEL}={store.path}", f"--label={KEEPER_LABEL}={os.getpid()}"]
    arguments += [f"--mount={each}" for each in _mounts(store, profile)]
    variables = _environment(settings, profile, gpu)
    arguments += [f"--env={variable}={value}" for variable, value in variables.items()]
    arguments += [f"--gpus=device={gpu}"] if gpu is not None else []
    return [*arguments, str(profile.image), str(store.path), "-"]


def _mounts(store: Store, profile: Container) -> Iterator[str]:
    """Mount task folders for writing, the rest read-only. The engine reports a missing source."""
    yield _mount(store.tasks)
    store.given.mkdir(exist_ok=True)  # a container outlives the task that it was created for
    for path in (store.path / "store.json", store.given, *map(Path, profile.read_only)):
        yield _mount(path, "readonly")


def _mount(path: Path, *options: str) -> str:
    line = io.StringIO()  # the engine parses it as CSV: a path may contain a comma
    csv.writer(line, lineterminator="").writerow(["type=bind", f"source={path}", f"target={path}", *options])
    return line.getvalue()


def _environment(settings: Settings, profile: Container, gpu: str | None) -> dict[str, str]:
    """The whole environment of a task; nothing is inherited from the host."""
    threads = str(settings.threads)
    # NVIDIA's base images request all cards, which NVIDIA's runtime grants if it is the default.
    hidden = {"NVIDIA_VISIBLE_DEVICES": "void"} if gpu is None else {}
    return {
        **for_device(hidden, gpu),
        "HOME": "/tmp",
        "PRIVBENCH_IMAGE": str(profile.image),
        THREADS: threads,
        **dict.fromkeys(LIBRARIES, threads),
        **settings.environment,
        **profile.environment,
    }
