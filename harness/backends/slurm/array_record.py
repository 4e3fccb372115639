"""Records of job arrays, each on disk before its array is submitted.

    slurm/<record>.json    the tasks of every element, their dependencies and settings
    slurm/<record>.sh      the batch script
    slurm/<record>-<n>.txt the output of element n
    slurm/<record>-<n>.end element n takes no more tasks, though SLURM may still list it

The record's name is the job's name. So any later process, on any machine, finds the array in the queue, or
finds that it was never submitted.
"""

import contextlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass as model

from harness.backends.base import PROFILE, Settings
from harness.backends.slurm.cluster import WHOLE, JobInfo
from harness.backends.slurm.profile import Profile
from harness.store import Store
from harness.store.files import dump_checked, parse_checked, write_atomic

BEGAN = "PRIVBENCH_JOB_BEGAN"
"""The environment variable with the start time of the batch script, in seconds since 1970."""
NAME_LENGTH = 40
"""How much of the sweep's name goes into the job's name."""


@model(frozen=True)
class Record:
    """One job array."""

    name: str
    """Name of the file and the job; not stored in the file."""
    sweep: str
    packs: tuple[tuple[str, ...], ...]
    """The tasks of every element, in order."""
    needs: Mapping[str, tuple[str, ...]]
    """Dependencies by task; trainings have none."""
    settings: Settings
    made: float
    """Creation time, in seconds since 1970: of several arrays with a task the newest counts."""

    @property
    def profile(self) -> Profile:
        """The resources of an element."""
        return self.settings.profile_as(Profile)

    @property
    def tasks(self) -> list[str]:
        """Every task of the array."""
        return [key for pack in self.packs for key in pack]

    def write(self, store: Store) -> None:
        """Write it to disk, before the array is submitted."""
        make_folder(store)
        content = _RECORD.dump_python(self, mode="json", exclude={"name"})
        write_atomic(folder(store) / f"{self.name}.json", dump_checked(content))


_RECORD = TypeAdapter(Record)


def new_name(sweep: str) -> str:
    """A unique name for a record."""
    return f"{sweep[:NAME_LENGTH]}.{uuid.uuid4().hex[:12]}"


def folder(store: Store) -> Path:
    """The folder of a store's records."""
    return store.path / "slurm"


def make_folder(store: Store) -> None:
    """Create the folder, accessible to the owner only: its scripts run on the cluster as the owner."""
    folder(store).mkdir(mode=0o700, exist_ok=True)


def read(file: Path) -> Record:
    """Parse a record; ValueError if it is damaged or not a record."""
    content = {**parse_checked(file.read_bytes()), "name": file.stem}
    return _RECORD.validate_python(content, context={PROFILE: Profile})


def records(store: Store) -> list[Record]:
    """Every readable record, oldest first."""
    found = []
    for file in folder(store).glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            found.append(read(file))
    return sorted(found, key=lambda record: record.made)


def tidy(store: Store, record: Record) -> None:
    """Delete a record whose tasks have all ended; the output of its elements stays."""
    for ending in (".json", ".sh"):
        (folder(store) / f"{record.name}{ending}").unlink(missing_ok=True)
    for index in range(len(record.packs)):
        end_mark(store, record, index).unlink(missing_ok=True)


def end_mark(store: Store, record: Record, index: int) -> Path:
    """The file that marks an element as taking no more tasks.

    It is written before the last look for tasks: a task that is reset by a retry is either seen in that look,
    or the retry sees the mark and submits the task in another array.
    """
    return folder(store) / f"{record.name}-{index}.end"


@dataclass(frozen=True)
class Element:
    """One element of a record's array and its state in SLURM, None if SLURM does not list it."""

    record: Record
    index: int
    info: JobInfo | None
    ending: bool = False
    """Whether it takes no more tasks."""

    @property
    def alive(self) -> bool:
        """Whether it will run its unfinished tasks: submitted, known to SLURM, and not ended."""
        return self.info is not None and not self.info.over and not self.ending

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, in order."""
        return self.record.packs[self.index]


def elements(store: Store, listed: list[JobInfo]) -> list[Element]:
    """List the elements of all records of a store, oldest record first."""
    known = {(info.name, info.index): info for info in listed}
    endings = {file.name for file in folder(store).glob("*.end")}
    found = []
    for record in records(store):
        for index in range(len(record.packs)):
            info = known.get((record.name, index)) or known.get((record.name, WHOLE))
            found.append(Element(record, index, info, end_mark(store, record, index).name in endings))
    return found
