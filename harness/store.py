"""The folder that holds everything: atomic results, artefacts, sweeps, the queue and the database.

    store.json                     the protocol it was made with
    tasks/<2 hex>/<key>/           spec.json, result.json, log.txt, heartbeat, checkpoint/, artefacts
    sweeps/<name>.json             what was enqueued under a name
    queue/, supervisor/            the local backend's (harness/backends/local.py)
    slurm/                         the SLURM backend's (harness/backends/records.py)
    privbench.duckdb, reports/     made from tasks/ and replaceable at any time

A task that has a valid `result.json` has ended. Artefacts carry a piece of their own hash in their
name and the result lists them, so that two copies of a task running at once can never mix files:
whichever publishes first wins whole. Nothing here loads torch.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.spec import PROTOCOL, BenchTask, Json, Task, despelled, key_of
from workloads.errors import StoreError

AGAIN = ("killed", "cancelled")
"""Reasons that say nothing about the task itself: asking for the sweep again runs it again."""
BEAT_OLD_SECONDS = 30.0
"""A heartbeat older than this is of a process that is gone."""
CLAIM = ".claim"
"""The file that the one who runs a task holds a lock on."""
CLAIM_SECONDS = 0.2
"""Between two looks of a copy of a task that waits for another."""


class Store:
    """A store that exists. `Store.open` finds or makes one."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self.tasks = self.path / "tasks"
        self.sweeps = self.path / "sweeps"
        self.queue = self.path / "queue"
        self.reports = self.path / "reports"
        self.database = self.path / "privbench.duckdb"

    @classmethod
    def open(cls, path: Path | str, create: bool = False) -> "Store":
        """The store at `path`; StoreError where there is none, unless `create` makes it."""
        store = cls(path)
        store.check()
        if not store.exists():
            if not create:
                raise StoreError(f"there is no store at {path}: run or enqueue a sweep to make one")
            for folder in (store.tasks, store.sweeps, store.queue):
                folder.mkdir(parents=True, exist_ok=True)
            write_atomic(store.path / "store.json", dump({"protocol": PROTOCOL}))
        return store

    def exists(self) -> bool:
        """Whether a store was made here."""
        return (self.path / "store.json").is_file()

    def check(self) -> None:
        """Refuse a path that holds something else, or a store that a newer privbench made."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise StoreError(f"{self.path} is a file; a store is a folder: give another --store")
        if not self.exists():
            # An interrupted creation leaves only our own folders; anything else is not ours to fill.
            foreign = {each.name for each in self.path.iterdir()} - {"tasks", "sweeps", "queue"}
            if any(not name.startswith(".") for name in foreign):
                raise StoreError(
                    f"{self.path} holds files but is no privbench store: give an empty or new folder"
                )
            return
        try:
            protocol = int(json.loads((self.path / "store.json").read_text())["protocol"])
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.path / 'store.json'} cannot be read: {error}") from error
        if protocol > PROTOCOL:
            raise StoreError(
                f"the store {self.path} was made with protocol {protocol}; this privbench knows up to "
                f"{PROTOCOL}: update privbench or give another --store"
            )

    # -- tasks ---------------------------------------------------------------------------------

    def folder(self, key: str) -> Path:
        """Where a task lives."""
        return self.tasks.joinpath(key[:2], key)

    def add(self, *tasks: Task | BenchTask) -> None:
        """Write the tasks' specs, once; one that was damaged or altered is written again.

        They are on disk when this returns, by one sync of the file system: a wait for every file would
        take minutes where there are thousands.
        """
        written = [task for task in tasks if self._write_spec(task)]
        if written:
            os.sync()

    def _write_spec(self, task: Task | BenchTask) -> bool:
        """Whether the spec had to be written. A reader sees it whole or not at all."""
        file = self.folder(task.key) / "spec.json"
        if _describes(file, task.key):
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f".{file.name}-{uuid.uuid4().hex}")
        try:
            aside.write_bytes(dump(task.file()))
            aside.replace(file)
        finally:
            aside.unlink(missing_ok=True)
        return True

    def spec(self, key: str) -> Json:
        """The content of a task's spec.json; StoreError where there is none or it is not whole."""
        file = self.folder(key) / "spec.json"
        try:
            spec: Json = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise StoreError(f"no task {key} in {self.path}") from None
        except ValueError as error:
            raise StoreError(f"{file} is not whole: {error}") from error
        if not isinstance(spec, dict) or not {"task", "notes"} <= spec.keys() or "kind" not in spec["task"]:
            raise StoreError(f"{file} is not the spec of a task")
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

    def result(self, key: str, summed: bool = True) -> Json | None:
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

    def results(self) -> Iterator[tuple[Json, Json]]:
        """(spec.json, result) of every task that has ended, in the order of keys."""
        for folder in self.folders():
            result = read_result(folder)
            if result is not None:
                with contextlib.suppress(StoreError):
                    yield self.spec(folder.name), result

    def broken(self) -> list[Path]:
        """Result files that are there but not whole: they count as absent and their tasks run again."""
        files = (folder / "result.json" for folder in self.folders())
        return [file for file in files if file.exists() and read_result(file.parent) is None]

    def folders(self) -> list[Path]:
        """Every task's folder, in the order of keys."""
        return sorted(self.tasks.glob("??/*"))

    def artefact(self, result: Json, name: str) -> Path:
        """The path of an artefact a result lists."""
        return self.folder(result["key"]) / str(result["artefacts"][name]["file"])

    def read_artefact(self, result: Json, name: str) -> bytes:
        """The bytes of an artefact, checked against the hash in the result."""
        file = self.artefact(result, name)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            raise StoreError(f"{file} is missing though a result lists it") from None
        if hashlib.sha256(content).hexdigest() != result["artefacts"][name]["sha256"]:
            raise StoreError(
                f"{file} is damaged: its content does not match the hash in its result; delete it and run "
                "the sweep again to make it anew"
            )
        return content

    def write_artefact(self, key: str, name: str, content: bytes) -> Json:
        """Write an artefact; the answer goes into the result under `artefacts[<stem of name>]`."""
        digest = hashlib.sha256(content).hexdigest()
        stem, suffix = name.rsplit(".", 1)
        file = f"{stem}-{digest[:12]}.{suffix}"
        write_atomic(self.folder(key) / file, content)
        return {"file": file, "bytes": len(content), "sha256": digest}

    def publish(self, result: Json) -> bool:
        """Make a result the task's result; False where another copy's stands already.

        A success replaces a failure and nothing else replaces anything. Copies on one machine take
        turns; where the file system has no locks, `os.link` still refuses an existing name, so that
        of two copies publishing at once one wins whole.
        """
        folder = self.folder(result["key"])
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            return self._publish(result, folder)

    def _publish(self, result: Json, folder: Path) -> bool:
        file, aside = folder / "result.json", folder / f".result-{uuid.uuid4().hex}"
        standing = read_result(folder)
        if standing is not None and (standing["status"] == "done" or result["status"] != "done"):
            return False
        try:
            write_synced(aside, dump({**result, "checksum": checksum(result)}))
            if standing is not None:
                aside.replace(file)
            else:
                os.link(aside, file)
        except FileExistsError:
            if read_result(folder) is None:
                file.unlink(missing_ok=True)  # half a file of a crash, recognised and redone
            return self._publish(result, folder)
        finally:
            aside.unlink(missing_ok=True)
        sync_folder(folder)
        return True

    def forget(self, key: str) -> None:
        """Take a failure away so that the task runs again; the old reason stays in `failures/`.

        A success is never taken away, even if it came after the caller looked.
        """
        folder = self.folder(key)
        with locked(folder):
            standing = read_result(folder)
            if standing is None or standing["status"] == "done":
                return
            file, archive = folder / "result.json", folder / "failures"
            archive.mkdir(exist_ok=True)
            file.rename(archive / f"{file.stat().st_mtime_ns}.json")

    # -- sweeps --------------------------------------------------------------------------------

    def write_sweep(self, name: str, content: Json) -> None:
        """Remember what was enqueued under a name."""
        write_atomic(self.sweeps / f"{name}.json", dump(content))

    def sweep(self, name: str) -> Json:
        """What was enqueued under a name."""
        try:
            content: Json = json.loads((self.sweeps / f"{name}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = ", ".join(self.sweep_names()) or "none"
            raise StoreError(f"no sweep '{name}' in {self.path}. Known: {known}.") from None
        return content

    def sweep_names(self) -> list[str]:
        """The names of all sweeps that were enqueued."""
        return sorted(file.stem for file in self.sweeps.glob("*.json"))


def read_result(folder: Path | str, summed: bool = True) -> Json | None:
    """A folder's result if it is whole: JSON, its own checksum, and every artefact of the right size."""
    folder = os.fspath(folder)  # paths as text: Path objects would take as long as reading the files
    try:
        with open(f"{folder}/result.json", "rb") as file:  # noqa: PTH123
            result: Json = json.loads(file.read())
        stated = result.pop("checksum")
        if summed and stated != checksum(result):
            return None
        for artefact in result["artefacts"].values():
            if os.stat(f"{folder}/{artefact['file']}").st_size != artefact["bytes"]:  # noqa: PTH116
                return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return {**result, "checksum": stated}


def _describes(file: Path, key: str) -> bool:
    """Whether a spec.json is whole and its task hashes to the key of its folder."""
    try:
        task = json.loads(file.read_text(encoding="utf-8"))["task"]
        return key_of(despelled(task)) == key
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone among the processes of this machine while changing a task's result; let go by any death."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks; the callers are safe without
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def claimed(folder: Path, stop: Callable[[], bool]) -> Iterator[bool]:
    """True once alone in running a task; False where asked to stop while another copy ran.

    A requeued task may find its first copy alive, on a node that the scheduler has lost. Where the file
    system has no locks both run, and whichever publishes first wins.
    """
    alone = True
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a full disk, or a file system without locks
            file = stack.enter_context((folder / CLAIM).open("ab"))
            while not (alone := _locks(file.fileno())) and not stop():
                time.sleep(CLAIM_SECONDS)
        yield alone


def _locks(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def beat(folder: Path) -> Json | None:
    """The heartbeat of a task if it is recent: somebody runs it."""
    try:
        word: Json = json.loads((folder / "heartbeat").read_text())
    except (OSError, ValueError):
        return None
    return word if time.time() - word["time"] < BEAT_OLD_SECONDS else None


def checksum(result: Json) -> str:
    """The hash of a result without its own `checksum`."""
    body = {key: value for key, value in result.items() if key != "checksum"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def dump(content: Any) -> bytes:
    """Readable JSON; NaN and infinities are refused."""
    return json.dumps(content, indent=1, sort_keys=True, allow_nan=False).encode("ascii") + b"\n"


def write_atomic(file: Path, content: bytes) -> None:
    """Write aside, fsync, rename: a reader sees the old content or the new, whatever is killed."""
    aside = file.with_name(f".{file.name}-{uuid.uuid4().hex}")
    try:
        write_synced(aside, content)
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(file.parent)


def write_synced(file: Path, content: bytes) -> None:
    """Write and wait until the disk has it, so that a full disk is an error here and not later."""
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """Make a rename inside a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
