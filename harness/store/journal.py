"""Records that a store keeps beside results: sweeps, heartbeats, purged artefacts."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from harness.spec import Json, Kind
from harness.store.outcomes import Frozen

KEY = re.compile(r"[0-9a-f]{32}")


def _key(text: str) -> str:
    if KEY.fullmatch(text) is None:
        raise ValueError(f"a task's key has 32 hexadecimal digits, got {text[:40]!r}")
    return text


class SweepEntry(Frozen):
    """One task of a sweep."""

    key: Annotated[str, AfterValidator(_key)]
    """Validated, so that it cannot name a path outside the store."""
    kind: Kind
    cell: str | None
    """None for a bench."""


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
