"""Records that a store keeps beside results: sweeps, heartbeats, purged artefacts."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from harness.spec import Json, Kind
from harness.store.outcomes import Frozen

KEY = re.compile(r"[0-9a-f]{32}")


def check_key(text: str) -> str:
    """The key of a task or cell, which cannot name a path outside the store; ValueError if it is none."""
    if KEY.fullmatch(text) is None:
        raise ValueError(f"a key has 32 hexadecimal digits, got {text[:40]!r}")
    return text


def _digest(text: str) -> str:
    if re.fullmatch(r"[0-9a-f]{8,64}", text) is None:
        raise ValueError(f"a fingerprint has 8 to 64 hexadecimal digits, got {text[:40]!r}")
    return text


class SweepEntry(Frozen):
    """One task of a sweep."""

    key: Annotated[str, AfterValidator(check_key)]
    """Validated, so that it cannot name a path outside the store."""
    kind: Kind
    cell: str | None
    """None for a bench."""


class Accepted(Frozen):
    """A change of code or data across which a user accepted to keep results together."""

    member: str
    """What changed: `workload NAME`, `method NAME`, `attack NAME`, `privbench` or `data of NAME`."""
    before: Annotated[str, AfterValidator(_digest)]
    """The fingerprint in the results."""
    after: Annotated[str, AfterValidator(_digest)]
    details: list[str] = Field(default=[])
    """Which files changed, or what of the data."""
    time: str = ""
    """When it was accepted, in UTC."""


class SweepRecord(Frozen):
    """What was enqueued under a name, to which backend and with which settings."""

    name: str = ""
    enqueued: str = ""
    """When, in UTC."""
    backend: str | None = None
    """None in old records: the local machine."""
    settings: Json = Field(default={})
    """How jobs are run; parsed by harness/backends/base.py."""
    cells: list[str] = Field(default=[])
    accepted: list[Accepted] = Field(default=[])
    """Changes of code or data between its results, accepted by the user."""
    tasks: list[SweepEntry]


class Heartbeat(Frozen):
    """The process that runs a task, and its progress; written once a second."""

    time: float
    pid: int | None = None
    host: str | None = None
    job: str | None = None
    """The scheduler's job id, if a scheduler started it."""
    phase: str
    done: int
    total: int
    started: float | None = None
    """When this process began the task; None in heartbeats of 0.1."""
    phase_started: float | None = None
    """When this process began the phase."""
    phase_done: int = 0
    """Steps of the phase that were done by then: a resumed task begins with some."""


class Purged(Frozen):
    """Artefacts of a task that were deleted on purpose."""

    files: list[str]
    purged: str = ""
    """When, in UTC."""


def parse_sweep(content: Mapping[str, Any]) -> SweepRecord:
    """Parse a file of `sweeps/`; ValueError if it is not a sweep record."""
    return SweepRecord(**content)


def parse_heartbeat(content: Any) -> Heartbeat:
    """Parse a heartbeat file; ValueError if it is not a heartbeat."""
    return Heartbeat.model_validate(content)
