"""What a backend is: it takes jobs. It knows keys, folders and processes, not privacy."""

import contextlib
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Protocol

from harness.store import Store
from harness.store.records import SweepRecord
from harness.store.result import Failure, build
from workloads.errors import StoreError


@dataclass(frozen=True)
class Job:
    """What a scheduler runs: tasks for one process, once every task in `needs` is done."""

    tasks: tuple[str, ...]
    needs: tuple[str, ...] = ()
    seconds: float | None = None
    """How long it is likely to take, where that is known."""
    memory_bytes: int | None = None
    """What it is likely to need, where that is known."""
    gpu: bool = True
    """Whether it uses a GPU where there is one; attacks do not."""


@dataclass(frozen=True)
class Settings:
    """How jobs are run; nothing here changes a number."""

    slots: int | None = None
    """Tasks at a time, where there are GPUs trainings at a time; None takes one per GPU, else one per share
    of the cores."""
    threads: int = 1
    timeout_seconds: float | None = None
    """A task that runs longer is ended as `timed_out`."""
    environment: dict[str, str] = field(default_factory=dict)
    profile: dict[str, Any] | None = None
    """How a cluster is asked for its nodes (harness/backends/slurm/profile.py), or what a container may use
    (harness/backends/docker/containers.py); None runs a job as a plain process."""
    share_gpus: bool = False
    """Whether there may be more slots than GPUs: trainings on one card slow each other down."""
    gpus: list[str] | None = None
    """The GPUs of this machine that trainings get, by UUID, one that several slots share as often; empty on
    a CPU, None where nobody has looked yet (harness/backends/gpus.py)."""


def sent_backend(sweep: SweepRecord) -> str:
    """Where a sweep was sent; a record that does not tell is of the machine itself."""
    return sweep.backend or "local"


def sent_settings(sweep: SweepRecord) -> Settings:
    """How a sweep was sent; StoreError where its record holds what this version does not know."""
    try:
        return Settings(**sweep.settings)
    except TypeError as error:
        raise StoreError(f"the sweep's record was made by another version of privbench: {error}") from error


def program(module: str) -> list[str]:
    """The command that runs a module of ours.

    The current folder stays off its import path: a user's may hold packages of our names.
    """
    return [sys.executable, "-P", "-m", module]


class Backend(Protocol):
    """Takes jobs; returns at once."""

    packs: ClassVar[bool]
    """Whether it puts several jobs into one process of a limited size, so that what they are likely to cost
    is worth finding out."""

    def device(self, settings: Settings) -> Literal["cpu", "cuda"]:
        """What trainings sent with these settings run on."""
        ...

    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> None:
        """Hand the jobs over; they run whether or not this process lives on."""
        ...

    def stop(self, store: Store, sweep: str, cancel: bool) -> None:
        """Start nothing new of the sweep and let what runs save its state and stop.

        With `cancel` every unfinished task also gets a `cancelled` row.
        """
        ...

    def attend(self, store: Store, sweep: str) -> bool:
        """Whether open tasks of the sweep are still in somebody's hands.

        Called again and again by who waits for the sweep: it does what it can to keep work going.
        """
        ...


def publish_failure(store: Store, key: str, reason: str, message: str) -> None:
    """The row of a task that could not write one itself; a result that stands is left alone."""
    # A full disk, or a spec that cannot be read: the task stays open for the next enqueue.
    with contextlib.suppress(OSError, StoreError):
        failure = Failure(reason=reason, message=message)
        here = {"host": socket.gethostname()}
        now = datetime.now(UTC)
        store.publish(build(store.task(key), failure, started=now, wall_seconds=0.0, provenance=here))
        # What a killed process last told of itself would pass for life; one that lives tells again.
        (store.folder(key) / "heartbeat").unlink(missing_ok=True)
