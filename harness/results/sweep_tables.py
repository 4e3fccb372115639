"""The tables `sweep` and `sweep_task`: which sweeps a task and a cell are part of."""

import logging
from pathlib import Path

import sqlalchemy as sa

import db
from harness.results.query import Reader
from harness.results.rows import TABLES, Row, as_moment, to_arrow
from harness.store import Store
from harness.store.journal import SweepRecord
from workloads.errors import StoreError, UnknownName

log = logging.getLogger(__name__)

SWEEP, PART = TABLES["sweep"], TABLES["sweep_task"]
MEMBERS = "select cell from sweep_task where sweep = {name} and cell is not null"


def write_sweeps(connection: sa.Connection, store: Store, broken: list[Path]) -> None:
    """Update both tables from the records of the store, of which each is a sweep's newest definition.

    A damaged record is added to `broken`: what its sweep contains is unknown until it is enqueued again.
    """
    known = {row[0]: row[1] for row in connection.execute(sa.select(SWEEP.c.name, SWEEP.c.stamp))}
    stamps = {name: _stamp(store, name) for name in store.sweep_names()}
    for name in known.keys() | stamps.keys():
        if known.get(name) != stamps.get(name):
            connection.execute(sa.delete(SWEEP).where(SWEEP.c.name == name))
            connection.execute(sa.delete(PART).where(PART.c.sweep == name))
            stamp = stamps.get(name)
            if stamp is not None:
                _insert(connection, store, name, stamp, broken)


def _insert(connection: sa.Connection, store: Store, name: str, stamp: str, broken: list[Path]) -> None:
    try:
        record = store.sweep(name)
        row = to_arrow("sweep", [_sweep_row(name, record, stamp)])
        tasks = to_arrow("sweep_task", _task_rows(name, record))
    except (StoreError, ValueError, OverflowError) as error:
        log.warning("%s", error)
        broken.append(store.sweeps / f"{name}.json")
        return
    db.insert_arrow(connection, SWEEP, row)
    if record.tasks:
        db.insert_arrow(connection, PART, tasks)


def _sweep_row(name: str, record: SweepRecord, stamp: str) -> Row:
    return {
        "name": name,
        "enqueued": as_moment(record.enqueued),
        "backend": record.backend,
        "tasks": len(record.tasks),
        "stamp": stamp,
    }


def _task_rows(name: str, record: SweepRecord) -> list[Row]:
    """A row per task. Cells that only lend their models to attacks as shadows are not the sweep's."""
    own: set[str | None] = {*record.cells} or {entry.cell for entry in record.tasks}
    return [
        {"sweep": name, "task": key, "cell": cell if cell in own else None}
        for key, cell in {entry.key: entry.cell for entry in record.tasks}.items()
    ]


def _stamp(store: Store, name: str) -> str | None:
    try:
        found = (store.sweeps / f"{name}.json").stat()
    except FileNotFoundError:  # deleted meanwhile
        return None
    return f"{found.st_ino} {found.st_mtime_ns} {found.st_size}"


def cells_of_sweep(reader: Reader, name: str) -> str:
    """The statement for the cells of a sweep; UnknownName if the database holds no such sweep."""
    known = [str(each) for (each,) in reader.execute("select name from sweep order by name").rows]
    if name not in known:
        raise UnknownName("sweep", name, known)
    return MEMBERS.format(name="'" + name.replace("'", "''") + "'")
