"""What a backend is: it takes jobs. It knows keys, folders and processes, not privacy."""

import contextlib
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, SerializeAsAny, TypeAdapter, ValidationInfo, field_validator
from pydantic.dataclasses import dataclass as model

from harness.backends.profile import ProfileFile
from harness.store import Store
from harness.store.result import Failure, build
from workloads.errors import BackendError, StoreError

PROFILE = "profile"
"""In the context of a validation: the kind of profile that the backend takes, None where it takes none."""

Kind = TypeVar("Kind", bound=ProfileFile)


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
    alone: bool = False
    """Whether nothing else of ours may run on the machine meanwhile: a bench times its steps."""


@model(frozen=True, config=ConfigDict(extra="forbid"))
class Settings:
    """How jobs are run; nothing here changes a number."""

    slots: int | None = None
    """Tasks at a time, where there are GPUs trainings at a time; None takes one per GPU, else one per share
    of the cores."""
    threads: int = 1
    timeout_seconds: float | None = None
    """A task that runs longer is ended as `timed_out`."""
    environment: dict[str, str] = field(default_factory=dict)
    profile: SerializeAsAny[ProfileFile] | None = None
    """What the backend is asked for, of the kind that it declares; None asks for nothing in particular."""
    share_gpus: bool = False
    """Whether there may be more slots than GPUs: trainings on one card slow each other down."""
    gpus: list[str] | None = None
    """The GPUs of this machine that trainings get, by UUID, one that several slots share as often; empty on
    a CPU, None where nobody has looked yet (harness/backends/gpus.py)."""

    @field_validator("profile", mode="plain")
    @classmethod
    def _of_its_kind(cls, value: object, info: ValidationInfo) -> ProfileFile | None:
        """A record's profile is of the kind that the reader's context names."""
        if value is None or isinstance(value, ProfileFile):
            return value
        kind: type[ProfileFile] | None = (info.context or {}).get(PROFILE)
        if kind is None:
            raise ValueError("a profile for a backend that takes none")
        return kind.model_validate(value)

    def profile_as(self, kind: type[Kind]) -> Kind:
        """The profile of a backend that takes this kind; its defaults where none was given."""
        if self.profile is None:
            return kind()
        if not isinstance(self.profile, kind):
            raise BackendError(f"a {type(self.profile).__name__} was sent where a {kind.__name__} is taken")
        return self.profile

    def dump(self) -> dict[str, Any]:
        """The settings as records hold them, for `read_settings`."""
        content: dict[str, Any] = _SETTINGS.dump_python(self, mode="json")
        return content


_SETTINGS = TypeAdapter(Settings)


def read_settings(content: Mapping[str, Any], kind: type[ProfileFile] | None) -> Settings:
    """Settings from a record of a backend that takes this kind of profile; ValueError where they are not."""
    return _SETTINGS.validate_python(dict(content), context={PROFILE: kind})


@dataclass(frozen=True)
class SchedulerJob:
    """A scheduler's job, or one element of its job array, that holds open tasks."""

    name: str
    job: str
    """As the scheduler's commands take it."""
    index: int
    """In the job array."""
    state: str
    reason: str
    """Why it is in this state, in the scheduler's words."""
    node: str
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Standing:
    """What a backend reports of a sweep that it was sent."""

    queued: bool | None
    """Whether somebody has open tasks in hand; None where the one to ask does not answer."""
    lines: tuple[str, ...] = ()
    """Who works on it, for people; of lines that are equal for several sweeps one is shown."""
    jobs: tuple[SchedulerJob, ...] | None = None
    """The scheduler's jobs that hold open tasks; None where there is no scheduler, or no answer."""


@dataclass(frozen=True)
class Finding:
    """One thing that `privbench doctor` looked for."""

    what: str
    good: bool
    found: str | None
    """What there is, or why it will not do."""
    use: str = ""
    """What it is for."""


class Backend(ABC):
    """Takes jobs; returns at once. One object serves a whole process, for any number of stores and sweeps."""

    name: str
    """Its name in the family, which sets it (harness/backends/__init__.py)."""
    about: ClassVar[str]
    """What it is, in a line."""
    Profile: ClassVar[type[ProfileFile] | None] = None
    """What `--profile FILE` may ask of it; None where there is nothing to ask."""
    packs: ClassVar[bool] = False
    """Whether it puts several jobs into one process of a limited size, so that what they are likely to cost
    is worth finding out."""

    @abstractmethod
    def device(self, settings: Settings) -> Literal["cpu", "cuda"]:
        """What trainings sent with these settings run on."""

    @abstractmethod
    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> None:
        """Hand the jobs over; they run whether or not this process lives on."""

    @abstractmethod
    def stop(self, store: Store, sweep: str, cancel: bool) -> None:
        """Start nothing new of the sweep and let what runs save its state and stop.

        With `cancel` every unfinished task also gets a `cancelled` row.
        """

    @abstractmethod
    def attend(self, store: Store, sweep: str) -> bool:
        """Whether open tasks of the sweep are still in somebody's hands.

        Called again and again by who waits for the sweep: it does what it can to keep work going.
        """

    @abstractmethod
    def status(self, store: Store, sweep: str, tasks: Set[str]) -> Standing:
        """Who has these open tasks of the sweep in hand; may give rows to tasks whose process is gone."""

    def parts(self) -> list[Finding]:
        """The programs and packages that it uses, whether they are here or not."""
        return []

    def check(self, profile: ProfileFile | None) -> list[Finding]:
        """What stands between a profile and a running job; asks only, nothing is sent."""
        return self.parts()


def program(module: str) -> list[str]:
    """The command that runs a module of ours.

    The current folder stays off its import path: a user's may hold packages of our names.
    """
    return [sys.executable, "-P", "-m", module]


def job_command(store: Store, *keys: str) -> list[str]:
    """The command that performs tasks of a store, one after another, as harness/jobs/loop.py does."""
    return [*program("harness.jobs"), str(store.path), *keys]


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
