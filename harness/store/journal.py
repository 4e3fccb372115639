"""What a store notes beside results, each a frozen model: sweeps, who runs a task, what was purged."""

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
    """A name in the store and nowhere else."""
    kind: Kind
    cell: str | None
    """None for a bench, which belongs to no cell."""


class SweepRecord(Frozen):
    """What was enqueued under a name, where, and how."""

    name: str = ""
    enqueued: str = ""
    """When, in UTC."""
    backend: str | None = None
    """None in a record from before there were several: the machine itself."""
    settings: Json = Field(default={})
    """How jobs are run, as the backend's room reads it (harness/backends/base.py)."""
    cells: list[str] = Field(default=[])
    tasks: list[SweepEntry]


class Heartbeat(Frozen):
    """Who runs a task, and how far it is; written once a second."""

    time: float
    pid: int | None = None
    host: str | None = None
    job: str | None = None
    """The scheduler's name for it, where a scheduler started it."""
    phase: str
    done: int
    total: int


class Purged(Frozen):
    """Artefacts of a task that were deleted on purpose."""

    files: list[str]
    purged: str = ""
    """When, in UTC."""


def parse_sweep(content: Mapping[str, Any]) -> SweepRecord:
    """The record that a file of `sweeps/` holds; ValueError where it holds none."""
    return SweepRecord(**content)


def parse_heartbeat(content: Any) -> Heartbeat:
    """The heartbeat that a file holds; ValueError where it holds none."""
    return Heartbeat.model_validate(content)
