"""From the store to the database: the only writer of the database.

The database is a function of the store and of the published numbers in this program, so a rebuild gives the
same rows as an update. A collection is one transaction: if it is killed, readers see the old rows.
"""

import contextlib
import hashlib
import logging
import os
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlalchemy as sa

import db
from harness.results.bench_matching import write_bench_matches
from harness.results.comparisons import write_comparisons
from harness.results.forgetting import write_records
from harness.results.fronts import write_fronts
from harness.results.matching import write_matches, write_published
from harness.results.rows import TABLES, Row, Rows, cell_row, is_outdated, remeasured, task_rows, to_arrow
from harness.results.sweep_tables import write_sweeps
from harness.results.tune_rows import write_searches
from harness.spec import Task
from harness.store import Store, read_result
from harness.store.forgotten import Forgotten, is_forgotten, read_forgotten
from harness.store.imports import Origin, origins
from harness.store.result import Result
from workloads.errors import StoreError

log = logging.getLogger(__name__)

BATCH = 500
"""Tasks whose rows are buffered before they are inserted."""
MANY = 5000
"""Keys in one statement; PostgreSQL allows 65,535."""
UNREAD = ("log.txt", "heartbeat", "checkpoint", "failures")
"""Files of a task's folder that no row depends on."""
TUNING = ("tried_before", "tuned_by", "tuned_on", "tuned_at", "tune", "trials", "studies", "study")
"""The columns of a cell that tell how its values were found."""
OF_A_TASK = {
    "task": "key",
    "model_run": "task",
    "attack_result": "task",
    "audit_result": "task",
    "attribute_result": "task",
    "reconstruction_result": "task",
    "bench_result": "task",
    "step_time": "task",
}
"""The tables that hold a task's rows, with the column that names it."""


@dataclass(frozen=True)
class Collected:
    """The outcome of a collection."""

    new: int
    """Tasks that are new in the database."""
    changed: int
    """Tasks whose result changed, e.g. failed and then retried."""
    gone: int
    """Tasks that are no longer in the store."""
    total: int
    """Tasks in the database now."""
    seconds: float
    broken: tuple[Path, ...] = ()
    """Unreadable files, which were skipped."""
    rebuilt: bool = False
    remeasured: int = 0
    """Attacks whose leakage was remeasured from their scores."""


def collect(store_path: Path | str, database: Path | str | None = None, rebuild: bool = False) -> Collected:
    """Update the database from the store; `rebuild` replaces it by a new one.

    A database is a path or a URL (db/address.py); the store's own by default. One of another version of
    privbench is rebuilt automatically. Damaged files are skipped and reported. StoreError if the database
    cannot be written.
    """
    begin = time.perf_counter()
    store = Store.open(store_path)
    target = database or store.database
    identity = _identity(store) if database else ""
    try:
        if not rebuild:
            try:
                return _update(db.open_database(target), store, begin, identity)
            except db.DatabaseOutdated:
                log.warning("%s is of another version: rebuilding it", db.database_name(target))
        url = db.server_url(target)
        if url is not None:
            return _update(db.connect_server(url), store, begin, identity, rebuilt=True)
        return _rebuild(db.database_path(target), store, begin, identity)
    except db.DatabaseError as error:
        raise StoreError(str(error)) from error
    except (sa.exc.DBAPIError, duckdb.Error) as error:  # damaged, or the disk is full
        raise StoreError(
            f"{db.database_name(target)} cannot be used: {str(error).strip().splitlines()[0]}. "
            "`privbench collect --rebuild` builds a new one from the store"
        ) from error


def _rebuild(path: Path, store: Store, begin: float, identity: str) -> Collected:
    _refuse_what_is_not_ours(path, store)
    aside = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        done = _update(db.open_database(aside), store, begin, identity, rebuilt=True)
        # A crashed writer's log is for the old file and would be replayed onto the new one.
        _log_of(path).unlink(missing_ok=True)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
        _log_of(aside).unlink(missing_ok=True)
    return done


def _refuse_what_is_not_ours(path: Path, store: Store) -> None:
    if not path.exists():
        return
    try:
        db.open_database(path).dispose()
    except db.DatabaseOutdated:
        return
    except db.DatabaseBusy:
        raise
    except db.DatabaseError as error:
        if path != store.database:
            raise StoreError(
                f"{path} exists and is not a database of privbench: move it or give another path"
            ) from error


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _update(engine: sa.Engine, store: Store, begin: float, identity: str, rebuilt: bool = False) -> Collected:
    try:
        with engine.begin() as connection:
            db.begin_writing(connection, rebuild=rebuilt)
            _take_for(connection, store, identity)
            collector = Collector(connection, origins(store))
            for origin in collector.origins:
                for folder in origin.store.folders():
                    collector.take(origin, folder)
            collector.finish()
            write_sweeps(connection, store, collector.broken)
    finally:
        engine.dispose()
    counts = (collector.new, collector.changed, len(collector.gone), len(collector.seen))
    seconds = time.perf_counter() - begin
    return Collected(*counts, seconds, tuple(collector.broken), rebuilt, collector.remeasured)


class Collector:
    """One pass over the tasks of a store, inside the transaction of a connection.

    A task whose stamp (see `_stamp_of`) is unchanged is not re-read.
    """

    def __init__(self, connection: sa.Connection, origins: Sequence[Origin]) -> None:
        self.connection, self.origins = connection, origins
        self.broken: list[Path] = []
        self.forgotten: Mapping[str, Forgotten] = read_forgotten(origins[0].store, self.broken)
        """What the store itself has forgotten; imports have no records."""
        self.known = _pairs(connection, db.Task.key, db.Task.checksum)
        self.hidden = _pairs(connection, db.Task.key, db.Task.forgotten)
        self.stamps = _pairs(connection, db.TaskStamp.task, db.TaskStamp.stamp)
        self.homes = _pairs(connection, db.Task.key, db.Task.cell)
        """The cells of known tasks."""
        self.seen: dict[str, str] = {}
        """The stamps of all complete tasks."""
        self.same: list[tuple[Origin, str]] = []
        """Unchanged tasks, which were not re-read."""
        self.cells: dict[str, Row] = {}
        """The cells of tasks that were read."""
        self.pending: Rows = defaultdict(list)
        self.stale: list[str] = []
        self.new = self.changed = self.remeasured = 0

    @property
    def gone(self) -> list[str]:
        """Tasks that are no longer in the store."""
        return [key for key in self.known if key not in self.seen]

    def take(self, origin: Origin, folder: Path) -> None:
        """Add one task, if it has ended and is new or changed."""
        key, stamp = origin.key(folder.name), _stamp_of(folder)
        if stamp is None:
            return
        hides = not origin.name and (key in self.forgotten or self.homes.get(key) in self.forgotten)
        if self.stamps.get(key) == stamp and self.hidden.get(key) == hides:
            self.seen[key] = stamp
            self.same.append((origin, folder.name))
            return
        ended = _ended(origin, folder, self.broken)
        if ended is None:
            return
        task, result = ended
        hides = not origin.name and is_forgotten(self.forgotten, task)
        fresh = self.known.get(key) != result.checksum or self.hidden.get(key) != hides
        try:
            cell = cell_row(origin, task)
            if fresh and not hides and is_outdated(result):
                result = remeasured(origin, task, result)
                self.remeasured += 1
            rows = task_rows(origin, task, result, self.broken, hides) if fresh else {}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            log.warning("task %s cannot be read: %r", key, error)
            self.broken.append(folder / "result.json")
            return
        self.seen[key] = stamp
        _merge(self.cells, cell)
        if fresh:
            self._add(key, rows)

    def _add(self, key: str, rows: Rows) -> None:
        if key in self.known:
            self.changed += 1
            self.stale.append(key)
        else:
            self.new += 1
        for name, piece in rows.items():
            self.pending[name] += piece
        if len(self.pending["task"]) >= BATCH:
            self._flush()

    def finish(self) -> None:
        """Write pending rows, and the tables that depend on all tasks."""
        altered = bool(self.new or self.changed or self.gone)
        write_records(self.connection, self.forgotten)
        tuned = write_searches(self.connection, self.origins, self.broken)
        touched = self.cells.keys() | {self.homes[key] for key in self.gone}
        if altered:
            self.stale += self.gone
            self._flush()
        if touched:
            self._write_cells(touched)
        if self.seen != self.stamps:
            stamps = [{"task": key, "stamp": stamp} for key, stamp in self.seen.items()]
            self.connection.execute(sa.delete(TABLES["task_stamp"]))
            _insert(self.connection, "task_stamp", stamps)
        if write_published(self.connection) or altered or tuned:
            write_matches(self.connection)
        if altered or touched or tuned:
            write_fronts(self.connection)
        if altered:
            write_bench_matches(self.connection)
            write_comparisons(self.connection, self.origins)

    def _write_cells(self, touched: Set[str | None]) -> None:
        """Rebuild these cells from all of their tasks, reading the specs of unchanged ones."""
        for origin, key in self.same:
            if self.homes[origin.key(key)] in touched:
                _merge(self.cells, cell_row(origin, origin.store.task(key)))
        _delete(self.connection, "cell", "key", [key for key in touched if key is not None])
        _insert(self.connection, "cell", list(self.cells.values()))

    def _flush(self) -> None:
        """Delete the rows of stale tasks, insert pending rows, and clear both."""
        for name, column in OF_A_TASK.items():
            _delete(self.connection, name, column, self.stale)
        self.stale.clear()
        for name, pieces in self.pending.items():
            if pieces:
                db.insert_arrow(self.connection, TABLES[name], pa.concat_tables(pieces))
        self.pending.clear()


def _identity(store: Store) -> str:
    """A unique name of the store, independent of its path; created on first use."""
    file = store.path / "identity"
    aside = file.with_name(f".identity-{uuid.uuid4().hex}")
    try:
        if not file.exists():
            aside.write_text(uuid.uuid4().hex)
            with contextlib.suppress(FileExistsError):  # another collector was faster
                os.link(aside, file)
            aside.unlink()
        return file.read_text()
    except OSError as error:
        raise StoreError(f"{file}, the identity of the store, cannot be created: {error}") from error


def _take_for(connection: sa.Connection, store: Store, identity: str) -> None:
    """StoreError if a database outside the store mirrors another one, whose rows would be deleted."""
    standing = connection.scalar(sa.select(db.Schema.store))
    if identity and not standing:
        connection.execute(sa.update(db.Schema).values(store=identity))
    elif identity and standing != identity:
        raise StoreError(
            f"the database holds the results of another store than {store.path}: give another --database, "
            "combine the results by `privbench export` and `import`, or replace them with --rebuild"
        )


def _pairs(connection: sa.Connection, key: Any, value: Any) -> dict[str, Any]:
    return {row[0]: row[1] for row in connection.execute(sa.select(key, value))}


def _stamp_of(folder: Path) -> str | None:
    """A hash of name, inode, time and size of the files that rows depend on; None before the task has ended.

    Files are written aside and renamed, so other content has another stamp; silent corruption on disk is
    found by `--rebuild`.
    """
    stamps = []
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - a Path for every file would double the time
    except (FileNotFoundError, NotADirectoryError):  # a foreign file, or a task that was just deleted
        return None
    for name in names:
        if name in UNREAD or name.startswith("."):
            continue
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile: the stamp differs
            found = os.stat(f"{folder}/{name}")  # noqa: PTH116
            stamps.append(f"{name} {found.st_ino} {found.st_mtime_ns} {found.st_size}")
    return hashlib.sha256("\n".join(stamps).encode()).hexdigest()[:32] if "result.json" in names else None


def _ended(origin: Origin, folder: Path, broken: list[Path]) -> tuple[Task, Result] | None:
    """A task and its result; damaged files are added to `broken`."""
    result = read_result(folder)
    if result is None or result.key != folder.name:
        broken.append(folder / "result.json")
        return None
    try:
        return origin.store.task(folder.name), result
    except StoreError:
        broken.append(folder / "spec.json")
        return None


def _merge(cells: dict[str, Row], cell: Row | None) -> None:
    """Merge cells of tasks planned at different times: the highest count of tries holds, with its origin."""
    if cell is None:
        return
    standing = cells.setdefault(cell["key"], cell)
    most = max(standing, cell, key=_tries)
    standing |= {name: most[name] for name in TUNING}


def _tries(cell: Row) -> tuple[int, str]:
    """What orders cells by the tries behind them; a total order, so that a rebuild has the same."""
    return -1 if cell["tried_before"] is None else cell["tried_before"], repr([cell[name] for name in TUNING])


def _delete(connection: sa.Connection, name: str, column: str, keys: Sequence[str]) -> None:
    """Delete the rows whose column holds one of the keys."""
    table = TABLES[name]
    for start in range(0, len(keys), MANY):
        some = keys[start : start + MANY]
        connection.execute(sa.delete(table).where(table.c[column].in_(some)))


def _insert(connection: sa.Connection, name: str, rows: list[Row]) -> None:
    if rows:
        db.insert_arrow(connection, TABLES[name], to_arrow(name, rows))
