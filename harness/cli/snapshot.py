"""The current state of a store: its rows, collected before they are read, and the progress of its sweeps."""

import hashlib
import logging
import os
import threading
import time
from dataclasses import asdict, dataclass
from functools import cached_property

from harness.backends.status import Progress
from harness.report.page.html import encode_data, page_data, render_page
from harness.report.reading import Reading, read
from harness.results.collect import collect
from harness.results.query import Source
from harness.spec import Json
from harness.store import Store
from workloads.errors import BenchError, StoreError

log = logging.getLogger(__name__)

PAUSE_SECONDS = 2.0
"""Seconds between two checks for new results, at least."""
AGAIN_SECONDS = 30.0
"""Seconds after which undetectable changes are checked: databases, backends, a task resubmitted."""


@dataclass(frozen=True)
class Snapshot:
    """One reading of the database, for the page."""

    reading: Reading

    @cached_property
    def data(self) -> bytes:
        """The page's data as JSON."""
        return encode_data(page_data(self.reading)).encode()

    @cached_property
    def tag(self) -> str:
        """The ETag: equal for equal data."""
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'

    @cached_property
    def page(self) -> str:
        """The page itself, which keeps polling."""
        return render_page(self.reading, live=True)


class LiveRows:
    """The newest rows of a store, or of a database filled by other processes.

    The first request after a pause collects new results, reads the database and caches the snapshot; requests
    meanwhile get the last snapshot. A database in use is not an error but retried.
    """

    def __init__(self, store: Store | None, database: str | None = None) -> None:
        self.store, self.database = store, database
        self.source: Source
        if database is not None:
            self.source = database
        elif store is not None:
            self.source = store.path
        else:
            raise ValueError("rows come from a store or from a database: give one of them")
        self._turn = threading.Lock()
        self._next_look = 0.0
        self._collected: tuple[int, int] | None = None
        self._seen: float | None = None
        self._snapshot: Snapshot | None = None

    def first(self) -> Snapshot:
        """Collect and read now; StoreError if that fails."""
        with self._turn:
            self._refresh()
        return self.latest()

    def latest(self) -> Snapshot:
        """The newest snapshot available without waiting."""
        if time.monotonic() >= self._next_look and self._turn.acquire(blocking=False):
            try:
                self._refresh()
            except BenchError as error:
                log.warning("showing the last rows: %s", error)
            finally:
                self._next_look = time.monotonic() + PAUSE_SECONDS
                self._turn.release()
        if self._snapshot is None:
            raise StoreError("nothing was read yet: retry")
        return self._snapshot

    def _refresh(self) -> None:
        if self.store is not None and (found := newest_result(self.store)) != self._collected:
            collect(self.store.path, self.database)
            self._collected = found
            self._seen = None
        version = self._version()  # before reading: later changes are read the next time
        if version != self._seen:
            self._snapshot = Snapshot(read(self.source))
            self._seen = version

    def _version(self) -> float:
        """A number that differs when another process may have changed the database."""
        if self.store is None or self.database is not None:
            return time.monotonic() // AGAIN_SECONDS
        try:
            return self.store.database.stat().st_mtime_ns
        except FileNotFoundError:
            self._collected = None  # it is rebuilt at the next check
            raise StoreError(f"{self.store.database} is missing") from None


def newest_result(store: Store) -> tuple[int, int]:
    """The number of results and the time of the last one, which differ when there are new results."""
    count = newest = 0
    for shard in os.scandir(store.tasks):
        if not shard.is_dir():
            continue
        for task in os.scandir(shard.path):
            try:
                # Paths as text: Path objects would take longer than the checks themselves.
                written = os.stat(f"{task.path}/result.json").st_mtime_ns  # noqa: PTH116
            except (FileNotFoundError, NotADirectoryError):
                continue
            count, newest = count + 1, max(newest, written)
    return count, newest


@dataclass
class Watched:
    """A sweep's progress, and when its record and it were last read."""

    progress: Progress
    written: int
    made: float

    def stale(self, written: int) -> bool:
        """Whether to start over: enqueued again, or a failure may have been resubmitted."""
        final = self.progress.over and not self.progress.failures
        return written != self.written or (not final and time.monotonic() - self.made > AGAIN_SECONDS)


class LiveProgress:
    """The progress of a store's sweeps; only unfinished tasks are re-read."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._turn = threading.Lock()
        self._watched: dict[str, Watched] = {}

    def look(self) -> Json:
        """Counts of every sweep, and every running task."""
        with self._turn:
            found = [each for name in self.store.sweep_names() if (each := self._progress(name))]
        running = {task.key: asdict(task) for progress in found for task in progress.running}
        return {"sweeps": [progress.summary() for progress in found], "running": list(running.values())}

    def _progress(self, name: str) -> Progress | None:
        """A sweep's progress; None if its record is damaged or missing."""
        try:
            written = (self.store.sweeps / f"{name}.json").stat().st_mtime_ns
            known = self._watched.get(name)
            if known is not None and not known.stale(written):
                known.progress.look()
                return known.progress
            self._watched[name] = Watched(Progress.of(self.store, name), written, time.monotonic())
            return self._watched[name].progress
        except (StoreError, FileNotFoundError) as error:
            log.warning("sweep %s is left out: %s", name, error)
            return None
