"""What a store shows at this moment: its rows, collected before they are read, and how far its sweeps are."""

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
"""Between two looks for something new, at least."""
AGAIN_SECONDS = 30.0
"""After which what cannot be seen to change is asked again: databases, backends, a task sent again."""


@dataclass(frozen=True)
class Snapshot:
    """One reading of the database, as the page takes it."""

    reading: Reading

    @cached_property
    def data(self) -> bytes:
        """The page's data as JSON."""
        return encode_data(page_data(self.reading)).encode()

    @cached_property
    def tag(self) -> str:
        """Equal for equal data, as HTTP writes it."""
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'

    @cached_property
    def page(self) -> str:
        """The page itself, which goes on asking."""
        return render_page(self.reading, live=True)


class LiveRows:
    """The newest rows of a store, or of a database that somebody else fills.

    Whoever asks first after a pause collects what is new, reads the database and keeps what it found; whoever
    asks meanwhile gets what was found last. A database in use is no error, it is tried again.
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
        """Collect and read now; StoreError where that cannot be done."""
        with self._turn:
            self._refresh()
        return self.latest()

    def latest(self) -> Snapshot:
        """The newest snapshot to be had without waiting for others."""
        if time.monotonic() >= self._next_look and self._turn.acquire(blocking=False):
            try:
                self._refresh()
            except BenchError as error:
                log.warning("showing the last rows: %s", error)
            finally:
                self._next_look = time.monotonic() + PAUSE_SECONDS
                self._turn.release()
        if self._snapshot is None:
            raise StoreError("nothing was read yet: ask again")
        return self._snapshot

    def _refresh(self) -> None:
        if self.store is not None and (found := newest_result(self.store)) != self._collected:
            collect(self.store.path, self.database)
            self._collected = found
            self._seen = None
        version = self._version()  # before reading: what comes meanwhile is read the next time
        if version != self._seen:
            self._snapshot = Snapshot(read(self.source))
            self._seen = version

    def _version(self) -> float:
        """Another number when somebody else may have changed the database."""
        if self.store is None or self.database is not None:
            return time.monotonic() // AGAIN_SECONDS
        try:
            return self.store.database.stat().st_mtime_ns
        except FileNotFoundError:
            self._collected = None  # it is made again at the next look
            raise StoreError(f"{self.store.database} is gone") from None


def newest_result(store: Store) -> tuple[int, int]:
    """How many results a store has and when the last one was written: other when there is one to collect."""
    count = newest = 0
    for shard in os.scandir(store.tasks):
        if not shard.is_dir():
            continue
        for task in os.scandir(shard.path):
            try:
                # Paths as text: Path objects would take longer than the looks themselves.
                written = os.stat(f"{task.path}/result.json").st_mtime_ns  # noqa: PTH116
            except (FileNotFoundError, NotADirectoryError):
                continue
            count, newest = count + 1, max(newest, written)
    return count, newest


@dataclass
class Watched:
    """A sweep's progress, and when its record and it were looked at."""

    progress: Progress
    written: int
    made: float

    def stale(self, written: int) -> bool:
        """Whether to begin anew: enqueued again, or a failure may have been sent again."""
        final = self.progress.over and not self.progress.failures
        return written != self.written or (not final and time.monotonic() - self.made > AGAIN_SECONDS)


class LiveProgress:
    """How far the sweeps of a store are; only what was open before is read again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._turn = threading.Lock()
        self._watched: dict[str, Watched] = {}

    def look(self) -> Json:
        """Counts of every sweep, and every task that runs."""
        with self._turn:
            found = [each for name in self.store.sweep_names() if (each := self._progress(name))]
        running = {task.key: asdict(task) for progress in found for task in progress.running}
        return {"sweeps": [progress.summary() for progress in found], "running": list(running.values())}

    def _progress(self, name: str) -> Progress | None:
        """A sweep's progress; None where its record is damaged or gone."""
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
