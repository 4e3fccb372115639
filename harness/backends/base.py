"""The backend interface: where jobs run. A backend knows keys, folders and processes, not privacy."""

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
"""Key of the validation context: the profile class of the backend, None if it takes no profile."""

Kind = TypeVar("Kind", bound=ProfileFile)


@dataclass(frozen=True)
class Job:
    """The unit of scheduling: tasks for one process, run once every task in `needs` is done."""

    tasks: tuple[str, ...]
    needs: tuple[str, ...] = ()
    seconds: float | None = None
    """Expected run time, if known."""
    memory_bytes: int | None = None
    """Expected memory, if known."""
    gpu: bool = True
    """Whether it uses a GPU if there is one; attacks do not."""
    alone: bool = False
    """Whether it needs the machine to itself: a bench times its steps."""


@model(frozen=True, config=ConfigDict(extra="forbid"))
class Settings:
    """How jobs are run; no setting changes a result."""

    slots: int | None = None
    """Tasks at a time, or trainings at a time on GPUs; None takes one per GPU, or one per `threads` cores."""
    threads: int = 1
    timeout_seconds: float | None = None
    """A task that runs longer is killed as `timed_out`."""
    environment: dict[str, str] = field(default_factory=dict)
    profile: SerializeAsAny[ProfileFile] | None = None
    """The backend's profile, of the class it declares; None takes its defaults."""
    share_gpus: bool = False
    """Whether slots may outnumber GPUs: trainings on one card slow each other down."""
    gpus: list[str] | None = None
    """UUIDs of the GPUs that trainings get, one entry per slot; empty on a CPU, None until resolved
    (harness/backends/gpus.py)."""

    @field_validator("profile", mode="plain")
    @classmethod
    def _of_its_kind(cls, value: object, info: ValidationInfo) -> ProfileFile | None:
        """Parse a stored profile as the class named in the validation context."""
        if value is None or isinstance(value, ProfileFile):
            return value
        kind: type[ProfileFile] | None = (info.context or {}).get(PROFILE)
        if kind is None:
            raise ValueError("a profile was given to a backend that takes none")
        return kind.model_validate(value)

    def profile_as(self, kind: type[Kind]) -> Kind:
        """The profile as this class; its defaults if none was given."""
        if self.profile is None:
            return kind()
        if not isinstance(self.profile, kind):
            raise BackendError(f"expected a profile of {kind.__name__}, got {type(self.profile).__name__}")
        return self.profile

    def dump(self) -> dict[str, Any]:
        """Serialise the settings, for `read_settings`."""
        content: dict[str, Any] = _SETTINGS.dump_python(self, mode="json")
        return content


_SETTINGS = TypeAdapter(Settings)


def read_settings(content: Mapping[str, Any], kind: type[ProfileFile] | None) -> Settings:
    """Parse stored settings of a backend with this profile class; ValueError if they are invalid."""
    return _SETTINGS.validate_python(dict(content), context={PROFILE: kind})


@dataclass(frozen=True)
class SchedulerJob:
    """A scheduler's job, or one element of a job array, with unfinished tasks."""

    name: str
    job: str
    """The job id, as the scheduler's commands take it."""
    index: int
    """In the job array."""
    state: str
    reason: str
    """Why it is in this state, as the scheduler puts it."""
    node: str
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Standing:
    """A backend's report on a sweep."""

    queued: bool | None
    """Whether unfinished tasks are queued or running; None if the scheduler does not respond."""
    lines: tuple[str, ...] = ()
    """What works on it, for display; a line common to several sweeps is shown once."""
    jobs: tuple[SchedulerJob, ...] | None = None
    """The scheduler's jobs with unfinished tasks; None without a scheduler or a response."""


@dataclass(frozen=True)
class Finding:
    """One check of `privbench doctor`."""

    what: str
    good: bool
    found: str | None
    """What was found, or why it does not work."""
    use: str = ""
    """What it is for."""


class Backend(ABC):
    """Accepts jobs and returns at once. One instance per process serves any number of stores and sweeps."""

    name: str
    """Its name, set by the family (harness/backends/__init__.py)."""
    about: ClassVar[str]
    """One-line description."""
    Profile: ClassVar[type[ProfileFile] | None] = None
    """The class of `--profile FILE`; None if it takes no profile."""
    packs: ClassVar[bool] = False
    """Whether it packs several jobs into one process, so that their expected cost is needed."""
    reads_here: ClassVar[bool] = False
    """Whether its jobs read the data of this machine: then a sweep on absent data is refused."""

    @abstractmethod
    def device(self, settings: Settings) -> Literal["cpu", "cuda"]:
        """The device of trainings submitted with these settings."""

    def width(self, settings: Settings) -> int | None:
        """Tasks at a time with these settings, for the time that a sweep will take; None if unknown."""
        return settings.slots

    @abstractmethod
    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> None:
        """Submit the jobs; they run even if this process ends."""

    @abstractmethod
    def stop(self, store: Store, sweep: str, cancel: bool) -> None:
        """Start no further task of the sweep; let running ones save a checkpoint and stop.

        With `cancel` every unfinished task also gets a `cancelled` row.
        """

    @abstractmethod
    def attend(self, store: Store, sweep: str) -> bool:
        """Whether unfinished tasks of the sweep are still queued or running.

        Called repeatedly while waiting for the sweep; keeps it running, such as by starting a new supervisor.
        """

    @abstractmethod
    def status(self, store: Store, sweep: str, tasks: Set[str]) -> Standing:
        """Report on these unfinished tasks; may write failures of tasks whose process is gone."""

    def parts(self) -> list[Finding]:
        """Check the programs and packages that it uses."""
        return []

    def check(self, profile: ProfileFile | None) -> list[Finding]:
        """Check everything a job with this profile needs, without submitting one."""
        return self.parts()


def program(module: str) -> list[str]:
    """The command that runs one of our modules.

    The current folder stays off its import path: it may contain packages of the same names.
    """
    return [sys.executable, "-P", "-m", module]


def job_command(store: Store, *keys: str) -> list[str]:
    """The command that runs tasks of a store one after another (harness/jobs/loop.py)."""
    return [*program("harness.jobs"), str(store.path), *keys]


def publish_failure(store: Store, key: str, reason: str, message: str) -> None:
    """Write a failure for a task that could not write its own; an existing result is kept."""
    # A full disk, or an unreadable spec: the task stays unfinished for the next enqueue.
    with contextlib.suppress(OSError, StoreError):
        failure = Failure(reason=reason, message=message)
        here = {"host": socket.gethostname()}
        now = datetime.now(UTC)
        store.publish(build(store.task(key), failure, started=now, wall_seconds=0.0, provenance=here))
        # A killed process leaves a fresh heartbeat behind; a live one rewrites it.
        (store.folder(key) / "heartbeat").unlink(missing_ok=True)
