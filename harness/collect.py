"""From the store to the database: the only writer of the database.

The database is made from the store and from the published numbers that come with this program, and
from nothing else, so building it anew gives the same rows as keeping it up to date. A collection is
one transaction: whatever is killed, a reader sees the old rows or the new.
"""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

import db
from harness.reproduction import write_matches, write_published
from harness.rows import TABLES, Rows, cell_row, task_rows, to_arrow
from harness.spec import Json
from harness.store import Store, read_result
from workloads.errors import StoreError

log = logging.getLogger(__name__)

BATCH = 500
"""Tasks whose rows are held in memory before they are inserted."""
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
    """What a collection did."""

    new: int
    """Tasks the database did not have."""
    changed: int
    """Tasks whose result was another, e.g. failed and then retried."""
    gone: int
    """Tasks the database had and the store no longer has."""
    total: int
    """Tasks in the database now."""
    seconds: float
    broken: tuple[Path, ...] = ()
    """Files that could not be read and were left out."""
    rebuilt: bool = False


def collect(store_path: Path | str, database: Path | str | None = None, rebuild: bool = False) -> Collected:
    """Bring the database up to the store; `rebuild` makes it from nothing and replaces it.

    A database of another version of privbench is rebuilt without being asked. Damaged files are
    left out and reported. StoreError where the database cannot be written.
    """
    begin = time.perf_counter()
    store = Store.open(store_path)
    try:
        path = db.database_path(database or store.database)
        if not rebuild:
            try:
                return _update(db.open_database(path), store, begin)
            except db.DatabaseOutdated:
                log.warning("%s was made by another version of privbench: rebuilding it", path)
        return _rebuild(path, store, begin)
    except db.DatabaseError as error:
        raise StoreError(str(error)) from error


def _rebuild(path: Path, store: Store, begin: float) -> Collected:
    _refuse_what_is_not_ours(path, store)
    aside = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        done = _update(db.open_database(aside), store, begin, rebuilt=True)
        # A crashed writer's log belongs to the old file and would be replayed onto the new one.
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
                f"{path} is there and is no database of privbench: move it or give another path"
            ) from error


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _update(engine: sa.Engine, store: Store, begin: float, rebuilt: bool = False) -> Collected:
    broken: list[Path] = []
    cells: dict[str, Json] = {}
    seen: set[str] = set()
    new = changed = 0
    pending: Rows = defaultdict(list)
    stale: list[str] = []
    try:
        with engine.begin() as connection:
            known = _known(connection)
            for spec, result in _ended(store, broken):
                key = result["key"]
                try:
                    cell = cell_row(spec)
                    fresh = known.get(key) != result["checksum"]
                    rows = task_rows(store, spec, result, broken) if fresh else {}
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    log.warning("task %s cannot be read: %r", key, error)
                    broken.append(store.folder(key) / "result.json")
                    continue
                seen.add(key)
                _merge(cells, cell)
                if not fresh:
                    continue
                new, changed = new + (key not in known), changed + (key in known)
                stale += [key] if key in known else []
                for name, piece in rows.items():
                    pending[name] += piece
                if len(pending["task"]) >= BATCH:
                    _flush(connection, stale, pending)
            gone = [key for key in known if key not in seen]
            if new or changed or gone:
                _flush(connection, stale + gone, pending)
                _replace_cells(connection, cells)
            if write_published(connection) or new or changed or gone:
                write_matches(connection)
    finally:
        engine.dispose()
    seconds = time.perf_counter() - begin
    return Collected(new, changed, len(gone), len(seen), seconds, tuple(broken), rebuilt)


def _known(connection: sa.Connection) -> dict[str, str]:
    rows = connection.execute(sa.select(db.Task.key, db.Task.checksum))
    return {row.key: row.checksum for row in rows}


def _ended(store: Store, broken: list[Path]) -> Iterator[tuple[Json, Json]]:
    """(spec, result) of every task that has ended; what is damaged goes to `broken`."""
    for folder in store.folders():
        file = folder / "result.json"
        result = read_result(folder)
        if result is None:
            if file.exists():
                broken.append(file)
            continue
        try:
            spec = store.spec(folder.name)
        except StoreError:
            broken.append(folder / "spec.json")
            continue
        if result.get("key") != folder.name:
            broken.append(file)
            continue
        yield spec, result


def _flush(connection: sa.Connection, stale: list[str], pending: Rows) -> None:
    """Delete the rows of stale tasks, insert what is pending, and empty both."""
    if stale:
        for name, column in OF_A_TASK.items():
            table = TABLES[name]
            connection.execute(sa.delete(table).where(table.c[column].in_(stale)))
    for name, pieces in pending.items():
        if pieces:
            db.insert_arrow(connection, TABLES[name], pa.concat_tables(pieces))
    stale.clear()
    pending.clear()


def _merge(cells: dict[str, Json], cell: Json | None) -> None:
    """Tasks of one cell may be planned at different times: the highest count of tries holds."""
    if cell is None:
        return
    standing = cells.setdefault(cell["key"], cell)
    tries = [each["tuned"] for each in (standing, cell) if each["tuned"] is not None]
    standing["tuned"] = max(tries, default=None)


def _replace_cells(connection: sa.Connection, cells: dict[str, Json]) -> None:
    connection.execute(sa.delete(TABLES["cell"]))
    if cells:
        db.insert_arrow(connection, TABLES["cell"], to_arrow("cell", list(cells.values())))
