"""What a backend is: it takes jobs and returns handles. It knows keys, folders and processes, not privacy."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harness.store import Store


@dataclass(frozen=True)
class Job:
    """What a scheduler runs: tasks for one process, once every task in `needs` is done."""

    tasks: tuple[str, ...]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """How jobs are run; nothing here changes a number."""

    slots: int | None = None
    """Tasks at a time; None takes one per GPU, else one per share of the cores."""
    threads: int = 1
    timeout_seconds: float | None = None
    """A task that runs longer is ended as `timed_out`."""
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Handle:
    """A submission as its backend knows it."""

    backend: str
    id: str


class Backend(Protocol):
    """Takes jobs; returns at once."""

    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> Handle:
        """Hand the jobs over; they run whether or not this process lives on."""
        ...

    def stop(self, store: Store, sweep: str, cancel: bool) -> None:
        """Start nothing new of the sweep and let what runs save its state and stop.

        With `cancel` every unfinished task also gets a `cancelled` row.
        """
        ...
