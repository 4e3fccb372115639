"""The store: tasks with their results and artefacts, sweeps, the queue and the database.

    store.json                     the protocol it was created with
    tasks/<2 hex>/<key>/           spec.json, result.json, log.txt, heartbeat, checkpoint/, artefacts
    sweeps/<name>.json             what was enqueued under a name
    queue/, supervisor/            what runs on this machine (harness/backends/machine/queue.py)
    <backend>/                     a backend's own records
    given/<name>/                  records and programs of users (harness/programs)
    forgotten/<key>.json           results that no report shows (harness/store/forgotten.py)
    imports/, identity             results exported by others; the id of this store in a shared database
    sources/, accepted/, secret    what fingerprints of code and data need (fingerprints.py)
    privbench.duckdb, reports/     made from tasks/, can be rebuilt at any time

A task with a valid `result.json` has ended. Artefact names contain part of their hash and the result lists
them, so that two copies of a task running at once cannot mix files: the first to publish wins.
Nothing here loads torch.
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
    dump_checked,
    parse_checked,
    parse_json,
    sync_folder,
    write_atomic,
    write_synced,
)
from harness.store.journal import Heartbeat, SweepRecord, parse_heartbeat, parse_sweep
from harness.store.locks import locked
from harness.store.result import Artefact, Result, parse_result
from workloads.errors import StoreError

RERUN_REASONS = ("killed", "cancelled")
"""Failures that are not the task's fault: enqueueing its sweep again reruns it."""
HEARTBEAT_STALE_SECONDS = 30.0
"""A heartbeat older than this is stale: the process is gone."""
DATABASE = "privbench.duckdb"
MADE = {"tasks", "sweeps", "queue"}
"""The folders of a new store; backends add their own."""
REWRITE_HINT = "run or enqueue its sweep again to rewrite it"
"""What to do about a damaged file that is made from a sweep."""


class Store:
    """A store at a path; `Store.open` checks or creates it."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self.tasks = self.path / "tasks"
        self.sweeps = self.path / "sweeps"
        self.queue = self.path / "queue"
        self.given = self.path / "given"
        self.reports = self.path / "reports"
        self.database = self.path / DATABASE

    @classmethod
    def open(cls, path: Path | str, create: bool = False) -> "Store":
        """Open the store at `path`, creating it if `create` is set; otherwise StoreError if it is missing."""
        store = cls(path)
        store.check()
        if not store.exists():
            if not create:
                raise StoreError(
                    f"no store at {path}: run or enqueue a sweep to create one",
                    field="--store",
                    value=store.path,
                )
            try:
                for folder in MADE:
                    (store.path / folder).mkdir(parents=True, exist_ok=True)
                write_atomic(store.path / "store.json", dump({"protocol": PROTOCOL}))
            except OSError as error:  # a full disk, a file system such as /proc
                raise store._refused(str(error.strerror or error)) from error
        return store

    def exists(self) -> bool:
        """Whether the path holds a store."""
        return (self.path / "store.json").is_file()

    def check(self, writable: bool = False) -> Path:
        """Raise StoreError if the path holds something else, or a store of a newer privbench.

        With `writable` also if no store can be written there. Returns the nearest folder that exists.
        """
        folder = self._nearest()
        if writable and not os.access(folder, os.W_OK | os.X_OK):
            raise self._refused(f"{folder} cannot be written to")
        if folder == self.path:
            self._check_content()
        return folder

    def _nearest(self) -> Path:
        """The nearest folder that exists; StoreError if the path is a file or below one."""
        try:
            found = next(each for each in (self.path, *self.path.parents) if each.exists())
            is_folder = found.is_dir()
        except OSError as error:  # a name that is too long, a folder without permission
            raise self._refused(str(error.strerror or error)) from error
        if is_folder:
            return found
        raise self._refused(f"{found} is a file, not a folder")

    def _refused(self, why: str) -> StoreError:
        return StoreError(
            f"{self.path} cannot be a store: {why}: give another --store", field="--store", value=self.path
        )

    def _check_content(self) -> None:
        if not self.exists():
            # An interrupted creation leaves some of these folders, a lost store.json all of them and more;
            # anything else is not ours to write to.
            held = {each.name for each in self.path.iterdir() if not each.name.startswith(".")}
            if not (held <= MADE or held >= MADE):
                raise StoreError(
                    f"{self.path} holds files but is not a privbench store: give an empty or new folder",
                    field="--store",
                    value=self.path,
                )
            return
        try:
            protocol = int(parse_json((self.path / "store.json").read_bytes())["protocol"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise StoreError(
                f"{self.path / 'store.json'} cannot be read: {error}; delete it and run or enqueue a sweep "
                "to rewrite it; results are kept"
            ) from error
        if protocol > PROTOCOL:
            raise StoreError(
                f"the store {self.path} has protocol {protocol}; this privbench supports up to "
                f"{PROTOCOL}: update privbench or give another --store",
                field="protocol",
                value=protocol,
                allowed=PROTOCOL,
            )

    # -- tasks ---------------------------------------------------------------------------------

    def folder(self, key: str) -> Path:
        """The folder of a task."""
        return self.tasks.joinpath(key[:2], key)

    def add(self, *tasks: Task) -> None:
        """Write the specs of tasks that have none, or a damaged or altered one.

        They are on disk when this returns. One sync of the file system, since an fsync per file would take
        minutes for thousands.
        """
        written = [task for task in tasks if self._write_spec(task)]
        if written:
            os.sync()

    def _write_spec(self, task: Task) -> bool:
        """Write the spec atomically if needed; whether it was."""
        file = self.folder(task.key) / "spec.json"
        if _describes(file, task.key):
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f".{file.name}-{uuid.uuid4().hex}")
        try:
            aside.write_bytes(dump_checked(task.file()))
            aside.replace(file)
        finally:
            aside.unlink(missing_ok=True)
        return True

    def task(self, key: str) -> Task:
        """Read a task of any protocol; StoreError if it is missing or damaged."""
        return read_task(self._spec(key))

    def _spec(self, key: str) -> Json:
        """Read and verify a task's spec.json."""
        file = self.folder(key) / "spec.json"
        try:
            spec = parse_checked(file.read_bytes())
            found = hash_of(spec["task"]) if is_spec(spec) else None
        except FileNotFoundError:
            raise StoreError(f"no task {key} in {self.path}") from None
        except ValueError as error:
            raise StoreError(f"{file} is damaged: {error}; {REWRITE_HINT}") from error
        if found is None:
            raise StoreError(f"{file} is not the spec of a task; {REWRITE_HINT}")
        if found != key:
            raise StoreError(f"{file} was altered: its task hashes to another key; {REWRITE_HINT}")
        return spec

    def find(self, prefix: str) -> str:
        """The key that begins with `prefix`; StoreError unless there is exactly one."""
        found: list[str] = []
        if len(prefix) >= 2 and all(each in "0123456789abcdef" for each in prefix):
            found = sorted(each.name for each in self.tasks.glob(f"{prefix[:2]}/{prefix}*"))
        if len(found) != 1:
            several = f"{len(found)} tasks begin" if found else "no task begins"
            raise StoreError(
                f"{several} with '{prefix}': give more of the key (see privbench status)",
                field="key",
                value=prefix,
                allowed=found,
            )
        return found[0]

    def result(self, key: str, verify: bool = True) -> Result | None:
        """Read a task's result, done or failed; None if it is missing or damaged.

        Without `verify` the checksum is not recomputed, which halves the time: enough for progress.
        """
        return read_result(f"{self.tasks}/{key[:2]}/{key}", verify)

    def keys(self) -> set[str]:
        """The keys of all tasks with a folder; every result is among them."""
        found: set[str] = set()
        for shard in os.scandir(self.tasks):
            if shard.is_dir():
                found.update(task.name for task in os.scandir(shard.path))
        return found

    def results(self) -> Iterator[tuple[Task, Result]]:
        """Every ended task and its result, in the order of keys."""
        for folder in self.folders():
            result = read_result(folder)
            if result is not None:
                with contextlib.suppress(StoreError):
                    yield self.task(folder.name), result

    def broken(self) -> list[Path]:
        """Damaged result files: they count as absent and their tasks are rerun."""
        files = (folder / "result.json" for folder in self.folders())
        return [file for file in files if file.exists() and read_result(file.parent) is None]

    def folders(self) -> list[Path]:
        """Every task's folder, in the order of keys."""
        return sorted(self.tasks.glob("??/*"))

    def artefact(self, result: Result, name: str) -> Path:
        """The path of an artefact of a result."""
        return self.folder(result.key) / result.artefacts[name].file

    def read_artefact(self, result: Result, name: str) -> bytes:
        """Read an artefact and verify its hash."""
        file = self.artefact(result, name)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            if file.name in purged_files(file.parent):
                raise StoreError(f"{file} was purged: run its sweep again to recreate it") from None
            raise StoreError(f"{file} is missing although a result lists it") from None
        if hashlib.sha256(content).hexdigest() != result.artefacts[name].sha256:
            raise StoreError(
                f"{file} is damaged: its content does not match the hash in its result; delete it and run "
                "the sweep again to recreate it"
            )
        return content

    def write_artefact(self, key: str, name: str, content: bytes) -> Artefact:
        """Write an artefact; the returned entry goes into the result as `artefacts[<stem of name>]`."""
        digest = hashlib.sha256(content).hexdigest()
        stem, suffix = name.rsplit(".", 1)
        file = f"{stem}-{digest[:12]}.{suffix}"
        write_atomic(self.folder(key) / file, content)
        return Artefact(file=file, bytes=len(content), sha256=digest)

    def publish(self, result: Result) -> bool:
        """Publish the result of a task; False if it already has one.

        A success replaces a failure; nothing else is replaced. Copies on one machine take turns. On a file
        system without locks `os.link` still fails on an existing name, so that of two copies publishing at
        once one wins.
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
            write_synced(aside, dump_checked(result.document()))
            if standing is not None:
                aside.replace(file)
            else:
                os.link(aside, file)
        except FileExistsError:
            if read_result(folder) is None and (half := _move_aside(folder)) is not None:
                half.unlink(missing_ok=True)  # left by a crash; the task is rerun
            return self._publish(result, folder)
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(folder)
        return True

    def reset(self, key: str) -> None:
        """Move a failure to `failures/`, so that the task is rerun.

        A success is never removed, even one that arrives during the call, unless it was purged.
        """
        folder = self.folder(key)
        with locked(folder):
            standing = read_result(folder)
            if standing is None or (standing.done and not purged_files(folder)):
                return
            archive = folder / "failures"
            archive.mkdir(exist_ok=True)
            taken = _move_aside(folder)
            if taken is not None:
                taken.rename(archive / f"{taken.stat().st_mtime_ns}.json")
            (folder / PURGED).unlink(missing_ok=True)

    # -- sweeps --------------------------------------------------------------------------------

    def write_sweep(self, record: SweepRecord) -> None:
        """Write the record of a sweep."""
        write_atomic(self.sweeps / f"{record.name}.json", dump_checked(record.model_dump()))

    def sweep(self, name: str) -> SweepRecord:
        """Read the record of a sweep; StoreError if it is unknown or damaged."""
        if name not in self.sweep_names():  # looked up, not opened: a name could be a path outside the store
            known = ", ".join(self.sweep_names()) or "none"
            raise StoreError(
                f"no sweep '{name}' in {self.path}. Known: {known}.",
                field="sweep",
                value=name,
                allowed=self.sweep_names(),
            )
        file = self.sweeps / f"{name}.json"
        try:
            return parse_sweep(parse_checked(file.read_bytes()))
        except ValidationError as error:
            raise StoreError(f"{file} is not the record of a sweep; {REWRITE_HINT}") from error
        except (OSError, ValueError) as error:
            raise StoreError(f"{file} is damaged: {error}; {REWRITE_HINT}") from error

    def sweep_names(self) -> list[str]:
        """The names of all enqueued sweeps."""
        return sorted(file.stem for file in self.sweeps.glob("*.json"))


def read_result(folder: Path | str, verify: bool = True, name: str = "result.json") -> Result | None:
    """Read a folder's result; None unless it parses, its checksum matches and its artefacts are complete."""
    folder = os.fspath(folder)  # strings: Path objects would take as long as reading the files
    try:
        with open(f"{folder}/{name}", "rb") as file:  # noqa: PTH123
            document: Json = parse_json(file.read())
        result = parse_result(document)
        whole = result.checksum is not None and (not verify or result.checksum == checksum(document))
        held = whole and all(_holds(folder, each) for each in result.artefacts.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return result if held else None


def _holds(folder: str, artefact: Artefact) -> bool:
    """Whether an artefact has its full size, or was deleted on purpose."""
    try:
        return os.stat(f"{folder}/{artefact.file}").st_size == artefact.bytes  # noqa: PTH116
    except FileNotFoundError:
        return artefact.file in purged_files(Path(folder))


def _move_aside(folder: Path) -> Path | None:
    """Rename the task's result to a temporary name; None if it has none.

    Without locks a success may have arrived since the caller looked: it is put back, and None returned.
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
    """Whether a spec.json is undamaged and its task hashes to the key of its folder."""
    try:
        return hash_of(parse_checked(file.read_bytes())["task"]) == key
    except (OSError, ValueError, KeyError):
        return False


def heartbeat(folder: Path) -> Heartbeat | None:
    """Read the heartbeat of a task; None if missing or stale."""
    try:
        found = parse_heartbeat(parse_json((folder / "heartbeat").read_bytes()))
    except (OSError, ValueError):
        return None
    # A clock that was set back leaves heartbeats in the future, which are stale, too.
    return found if abs(time.time() - found.time) < HEARTBEAT_STALE_SECONDS else None
