"""What was handed to SLURM: one record per job array, on disk before the array is submitted.

    slurm/<record>.json    the tasks of every element, what they need, how they are run
    slurm/<record>.sh      the batch script
    slurm/<record>-<n>.txt what element n printed
    slurm/<record>-<n>.end says that element n looks for no more work, though SLURM may still show it

The record's name is the job's name. So whoever looks later, from any machine and however the one who
submitted has ended, finds the array in the queue again, or finds that it was never submitted.
"""

import contextlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass as model

from harness.backends.base import PROFILE, Settings
from harness.backends.slurm.cluster import WHOLE, Word
from harness.backends.slurm.profile import Profile
from harness.store import Store
from harness.store.files import sealed, unsealed, write_atomic

BEGAN = "PRIVBENCH_JOB_BEGAN"
"""The variable in which a batch script leaves when it began, in seconds since 1970."""
NAME_LENGTH = 40
"""Of the sweep's name, as much as people need to recognise a job by."""


@model(frozen=True)
class Record:
    """One job array."""

    name: str
    """Of the file and the job; not in the file."""
    sweep: str
    packs: tuple[tuple[str, ...], ...]
    """The tasks of every element, in order."""
    needs: Mapping[str, tuple[str, ...]]
    """What a task reads, by its key; trainings need nothing."""
    settings: Settings
    made: float
    """When, in seconds since 1970: the last array a task was given to decides about it."""

    @property
    def profile(self) -> Profile:
        """What an element asks of the cluster."""
        return self.settings.profile_as(Profile)

    @property
    def tasks(self) -> list[str]:
        """Every task of the array."""
        return [key for pack in self.packs for key in pack]

    def write(self, store: Store) -> None:
        """Make it last, before anybody acts on it."""
        make_folder(store)
        content = _RECORD.dump_python(self, mode="json", exclude={"name"})
        write_atomic(folder(store) / f"{self.name}.json", sealed(content))


_RECORD = TypeAdapter(Record)


def new_name(sweep: str) -> str:
    """A name for a record that no other has."""
    return f"{sweep[:NAME_LENGTH]}.{uuid.uuid4().hex[:12]}"


def folder(store: Store) -> Path:
    """Where the records of a store are."""
    return store.path / "slurm"


def make_folder(store: Store) -> None:
    """Its owner's alone: what lies there is run on the cluster in the owner's name."""
    folder(store).mkdir(mode=0o700, exist_ok=True)


def read(file: Path) -> Record:
    """The record of a file; ValueError where it is damaged or none."""
    content = {**unsealed(file.read_bytes()), "name": file.stem}
    return _RECORD.validate_python(content, context={PROFILE: Profile})


def records(store: Store) -> list[Record]:
    """Every record that can be read, the oldest first."""
    found = []
    for file in folder(store).glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            found.append(read(file))
    return sorted(found, key=lambda record: record.made)


def tidy(store: Store, record: Record) -> None:
    """Take away a record all of whose tasks have ended; what its elements printed stays."""
    for ending in (".json", ".sh"):
        (folder(store) / f"{record.name}{ending}").unlink(missing_ok=True)
    for index in range(len(record.packs)):
        end_mark(store, record, index).unlink(missing_ok=True)


def end_mark(store: Store, record: Record, index: int) -> Path:
    """The file by which an element says that it looks for no more work.

    It is written before the last look: a task that is opened again either is seen in that look, or
    whoever opened it sees the mark and gives it to another array.
    """
    return folder(store) / f"{record.name}-{index}.end"


@dataclass(frozen=True)
class Element:
    """One element of a record's array and what SLURM says of it; None is no word."""

    record: Record
    index: int
    word: Word | None
    ending: bool = False
    """Whether it has said that it looks for no more work."""

    @property
    def alive(self) -> bool:
        """Whether it will do what is open of its tasks: not ended, forgotten, or never submitted."""
        return self.word is not None and not self.word.over and not self.ending

    @property
    def tasks(self) -> tuple[str, ...]:
        """Its tasks, in order."""
        return self.record.packs[self.index]


def elements(store: Store, words: list[Word]) -> list[Element]:
    """Every element of every record of a store, those of the oldest record first."""
    known = {(word.name, word.index): word for word in words}
    endings = {file.name for file in folder(store).glob("*.end")}
    found = []
    for record in records(store):
        for index in range(len(record.packs)):
            word = known.get((record.name, index)) or known.get((record.name, WHOLE))
            found.append(Element(record, index, word, end_mark(store, record, index).name in endings))
    return found
