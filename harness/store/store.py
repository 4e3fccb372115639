"""The folder that holds everything: atomic results, artefacts, sweeps, the queue and the database.

    store.json                     the protocol it was made with
    tasks/<2 hex>/<key>/           spec.json, result.json, log.txt, heartbeat, checkpoint/, artefacts
    sweeps/<name>.json             what was enqueued under a name
    queue/, supervisor/            what runs on this machine (harness/backends/machine/queue.py)
    <backend>/                     what a backend keeps beside its jobs
    imports/, identity             what others exported; by which a database elsewhere knows the store
    privbench.duckdb, reports/     made from tasks/ and replaceable at any time

A task that has a valid `result.json` has ended. Artefacts carry a piece of their own hash in their
name and the result lists them, so that two copies of a task running at once can never mix files:
whichever publishes first wins whole. Nothing here loads torch.
"""

import contextlib
import hashlib
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from harness.spec import PROTOCOL, Json, Task, hash_of, read_task
from harness.store.checks import PURGED, is_spec, purged_files
from harness.store.files import (
    checksum,
    dump,
    parse_json,
    sealed,
    sync_folder,
    unsealed,
    write_atomic,
    write_synced,
)
from harness.store.journal import Heartbeat, SweepRecord, parse_heartbeat, parse_sweep
from harness.store.locks import locked
from harness.store.result import Artefact, Result, parse_result
from workloads.errors import StoreError

AGAIN = ("killed", "cancelled")
"""Reasons that say nothing about the task itself: asking for the sweep again runs it again."""
BEAT_OLD_SECONDS = 30.0
"""A heartbeat older than this is of a process that is gone."""
DATABASE = "privbench.duckdb"
MADE = {"tasks", "sweeps", "queue"}
"""The folders that every store has from its creation on; backends add their own."""
MENDED = "run or enqueue its sweep again, which writes it anew"
"""What to do about a file that is made from a sweep."""


class Store:
    """A store that exists. `Store.open` finds or makes one."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self.tasks = self.path / "tasks"
        self.sweeps = self.path / "sweeps"
        self.queue = self.path / "queue"
        self.reports = self.path / "reports"
        self.database = self.path / DATABASE

    @classmethod
    def open(cls, path: Path | str, create: bool = False) -> "Store":
        """The store at `path`; StoreError where there is none, unless `create` makes it."""
        store = cls(path)
        store.check()
        if not store.exists():
            if not create:
                raise StoreError(f"there is no store at {path}: run or enqueue a sweep to make one")
            for folder in MADE:
                (store.path / folder).mkdir(parents=True, exist_ok=True)
            write_atomic(store.path / "store.json", dump({"protocol": PROTOCOL}))
        return store

    def exists(self) -> bool:
        """Whether a store was made here."""
        return (self.path / "store.json").is_file()

    def check(self) -> None:
        """Refuse a path that holds something else, or a store that a newer privbench made."""
        try:
            present = self.path.exists()
        except OSError as error:  # a name too long, a folder that may not be looked into
            raise StoreError(f"{self.path} cannot be a store: {error}") from error
        if not present:
            return
        if not self.path.is_dir():
            raise StoreError(f"{self.path} is a file; a store is a folder: give another --store")
        if not self.exists():
            # An interrupted creation leaves some of these folders, a lost store.json all of them beside the
            # rest; anything else is not ours to fill.
            held = {each.name for each in self.path.iterdir() if not each.name.startswith(".")}
            if not (held <= MADE or held >= MADE):
                raise StoreError(
                    f"{self.path} holds files but is no privbench store: give an empty or new folder"
                )
            return
        try:
            protocol = int(parse_json((self.path / "store.json").read_bytes())["protocol"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise StoreError(
                f"{self.path / 'store.json'} cannot be read: {error}; delete it and run or enqueue a sweep: "
                "it is made anew and the results stay"
            ) from error
        if protocol > PROTOCOL:
            raise StoreError(
                f"the store {self.path} was made with protocol {protocol}; this privbench knows up to "
                f"{PROTOCOL}: update privbench or give another --store"
            )

    # -- tasks ---------------------------------------------------------------------------------

    def folder(self, key: str) -> Path:
        """Where a task lives."""
        return self.tasks.joinpath(key[:2], key)

    def add(self, *tasks: Task) -> None:
        """Write the tasks' specs, once; one that was damaged or altered is written again.

        They are on disk when this returns, by one sync of the file system: a wait for every file would
        take minutes where there are thousands.
        """
        written = [task for task in tasks if self._write_spec(task)]
        if written:
            os.sync()

    def _write_spec(self, task: Task) -> bool:
        """Whether the spec had to be written. A reader sees it whole or not at all."""
        file = self.folder(task.key) / "spec.json"
        if _describes(file, task.key):
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f".{file.name}-{uuid.uuid4().hex}")
        try:
            aside.write_bytes(sealed(task.file()))
            aside.replace(file)
        finally:
            aside.unlink(missing_ok=True)
        return True

    def task(self, key: str) -> Task:
        """The task of a key, of whatever protocol; StoreError where there is none or it is damaged."""
        return read_task(self._spec(key))

    def _spec(self, key: str) -> Json:
        """The content of a task's spec.json."""
        file = self.folder(key) / "spec.json"
        try:
            spec = unsealed(file.read_bytes())
            found = hash_of(spec["task"]) if is_spec(spec) else None
        except FileNotFoundError:
            raise StoreError(f"no task {key} in {self.path}") from None
        except ValueError as error:
            raise StoreError(f"{file} is not whole: {error}; {MENDED}") from error
        if found is None:
            raise StoreError(f"{file} is not the spec of a task; {MENDED}")
        if found != key:
            raise StoreError(f"{file} was altered: its task hashes to another key; {MENDED}")
        return spec

    def find(self, prefix: str) -> str:
        """The one task whose key begins with `prefix`; StoreError where there are none or several."""
        found: list[str] = []
        if len(prefix) >= 2 and all(each in "0123456789abcdef" for each in prefix):
            found = sorted(each.name for each in self.tasks.glob(f"{prefix[:2]}/{prefix}*"))
        if len(found) != 1:
            several = f"{len(found)} tasks begin" if found else "no task begins"
            raise StoreError(f"{several} with '{prefix}': give more of the key (privbench status)")
        return found[0]

    def result(self, key: str, summed: bool = True) -> Result | None:
        """The task's valid result, done or failed; None where there is none or it is damaged.

        Without `summed` its checksum is taken on trust, which is half of the time of reading it: enough
        to tell how far a sweep is.
        """
        return read_result(f"{self.tasks}/{key[:2]}/{key}", summed)

    def keys(self) -> set[str]:
        """The keys of all tasks that have a folder: what is not among them has no result either."""
        found: set[str] = set()
        for shard in os.scandir(self.tasks):
            if shard.is_dir():
                found.update(task.name for task in os.scandir(shard.path))
        return found

    def results(self) -> Iterator[tuple[Task, Result]]:
        """Every task that has ended and its result, in the order of keys."""
        for folder in self.folders():
            result = read_result(folder)
            if result is not None:
                with contextlib.suppress(StoreError):
                    yield self.task(folder.name), result

    def broken(self) -> list[Path]:
        """Result files that are there but not whole: they count as absent and their tasks run again."""
        files = (folder / "result.json" for folder in self.folders())
        return [file for file in files if file.exists() and read_result(file.parent) is None]

    def folders(self) -> list[Path]:
        """Every task's folder, in the order of keys."""
        return sorted(self.tasks.glob("??/*"))

    def artefact(self, result: Result, name: str) -> Path:
        """The path of an artefact a result lists."""
        return self.folder(result.key) / result.artefacts[name].file

    def read_artefact(self, result: Result, name: str) -> bytes:
        """The bytes of an artefact, checked against the hash in the result."""
        file = self.artefact(result, name)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            if file.name in purged_files(file.parent):
                raise StoreError(f"{file} was purged: run its sweep again to have it made anew") from None
            raise StoreError(f"{file} is missing though a result lists it") from None
        if hashlib.sha256(content).hexdigest() != result.artefacts[name].sha256:
            raise StoreError(
                f"{file} is damaged: its content does not match the hash in its result; delete it and run "
                "the sweep again to make it anew"
            )
        return content

    def write_artefact(self, key: str, name: str, content: bytes) -> Artefact:
        """Write an artefact; the answer goes into the result under `artefacts[<stem of name>]`."""
        digest = hashlib.sha256(content).hexdigest()
        stem, suffix = name.rsplit(".", 1)
        file = f"{stem}-{digest[:12]}.{suffix}"
        write_atomic(self.folder(key) / file, content)
        return Artefact(file=file, bytes=len(content), sha256=digest)

    def publish(self, result: Result) -> bool:
        """Make a result the task's result; False where another copy's stands already.

        A success replaces a failure and nothing else replaces anything. Copies on one machine take
        turns; where the file system has no locks, `os.link` still refuses an existing name, so that
        of two copies publishing at once one wins whole.
        """
        folder = self.folder(result.key)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            return self._publish(result, folder)

    def _publish(self, result: Result, folder: Path) -> bool:
        file, aside = folder / "result.json", folder / f".result-{uuid.uuid4().hex}"
        standing = read_result(folder)
        if standing is not None and (standing.done or not result.done):
            return False
        try:
            write_synced(aside, sealed(result.document()))
            if standing is not None:
                aside.replace(file)
            else:
                os.link(aside, file)
        except FileExistsError:
            if read_result(folder) is None and (half := _taken_away(folder)) is not None:
                half.unlink(missing_ok=True)  # of a crash, recognised and redone
            return self._publish(result, folder)
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(folder)
        return True

    def forget(self, key: str) -> None:
        """Take a failure away so that the task runs again; the old reason stays in `failures/`.

        A success is never taken away, even if it came after the caller looked, unless it was purged.
        """
        folder = self.folder(key)
        with locked(folder):
            standing = read_result(folder)
            if standing is None or (standing.done and not purged_files(folder)):
                return
            archive = folder / "failures"
            archive.mkdir(exist_ok=True)
            taken = _taken_away(folder)
            if taken is not None:
                taken.rename(archive / f"{taken.stat().st_mtime_ns}.json")
            (folder / PURGED).unlink(missing_ok=True)

    # -- sweeps --------------------------------------------------------------------------------

    def write_sweep(self, record: SweepRecord) -> None:
        """Remember what was enqueued under a name."""
        write_atomic(self.sweeps / f"{record.name}.json", sealed(record.model_dump()))

    def sweep(self, name: str) -> SweepRecord:
        """What was enqueued under a name."""
        if name not in self.sweep_names():  # looked up, not opened: a name may be a path to elsewhere
            known = ", ".join(self.sweep_names()) or "none"
            raise StoreError(f"no sweep '{name}' in {self.path}. Known: {known}.")
        file = self.sweeps / f"{name}.json"
        try:
            return parse_sweep(unsealed(file.read_bytes()))
        except ValidationError as error:
            raise StoreError(f"{file} is not the record of a sweep; {MENDED}") from error
        except (OSError, ValueError) as error:
            raise StoreError(f"{file} is not whole: {error}; {MENDED}") from error

    def sweep_names(self) -> list[str]:
        """The names of all sweeps that were enqueued."""
        return sorted(file.stem for file in self.sweeps.glob("*.json"))


def read_result(folder: Path | str, summed: bool = True, name: str = "result.json") -> Result | None:
    """A folder's result if it is whole: JSON, its own checksum, and every artefact of the right size."""
    folder = os.fspath(folder)  # paths as text: Path objects would take as long as reading the files
    try:
        with open(f"{folder}/{name}", "rb") as file:  # noqa: PTH123
            document: Json = parse_json(file.read())
        result = parse_result(document)
        whole = result.checksum is not None and (not summed or result.checksum == checksum(document))
        held = whole and all(_holds(folder, each) for each in result.artefacts.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return result if held else None


def _holds(folder: str, artefact: Artefact) -> bool:
    """Whether an artefact is there in full length, or was deleted on purpose."""
    try:
        return os.stat(f"{folder}/{artefact.file}").st_size == artefact.bytes  # noqa: PTH116
    except FileNotFoundError:
        return artefact.file in purged_files(Path(folder))


def _taken_away(folder: Path) -> Path | None:
    """The task's result under another name; None where there was none.

    Where nothing locks, a success may have come since the caller looked: it is put back, and None.
    """
    file, aside = folder / "result.json", folder / f".result-{uuid.uuid4().hex}"
    try:
        file.rename(aside)
    except FileNotFoundError:
        return None
    taken = read_result(folder, name=aside.name)
    if taken is None or not taken.done or purged_files(folder):
        return aside
    aside.replace(file)
    return None


def _describes(file: Path, key: str) -> bool:
    """Whether a spec.json is whole and its task hashes to the key of its folder."""
    try:
        return hash_of(unsealed(file.read_bytes())["task"]) == key
    except (OSError, ValueError, KeyError):
        return False


def heartbeat(folder: Path) -> Heartbeat | None:
    """The heartbeat of a task if it is recent: somebody runs it."""
    try:
        found = parse_heartbeat(parse_json((folder / "heartbeat").read_bytes()))
    except (OSError, ValueError):
        return None
    # A clock that was set back leaves heartbeats of the future: those are as stale as any other.
    return found if abs(time.time() - found.time) < BEAT_OLD_SECONDS else None
