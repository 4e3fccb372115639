"""Forget results: find those to take out of the database and the reports, and record it in the store.

A cell is forgotten with all of its models and attacks, an attack or a bench alone. A single model is not, nor
the blind check of a cell: whoever could drop them could choose the seeds that suit a method.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

import db
from harness.results.query import Reader, open_reader
from harness.results.rows import TABLES, as_moment, to_arrow
from harness.results.sweep_tables import cells_of_sweep
from harness.store import Store
from harness.store.forgotten import Forgotten, delete_forgotten, write_forgotten
from workloads.errors import SpecError

CELLS = """
    (select c.key as cell, c.workload, c.method, c.label, c.params, c.epsilon_asked, c.delta, c.n_train,
        c.batch_size, c.seed, c.canary, c.workload_version, c.method_version, c.protocol, s.sweep, n.finished
    from cell c
    join (select cell, max(finished) as finished from task group by cell) n on n.cell = c.key
    left join cell_sweep s on s.cell = c.key
    where c.origin = '') cell
"""
"""The relation that a condition selects from: our own cells. It has no results, so that none is a reason."""
HELD = """
    select 'cell' as kind, c.key, c.key as cell, c.workload, c.label, null as attack, n.tasks, n.failed
    from cell c
    join (
        select cell, count(*) as tasks, sum(case when status = 'failed' then 1 else 0 end) as failed
        from task group by cell
    ) n on n.cell = c.key
    where c.origin = ''
    union all
    select t.kind, t.key, t.cell, t.workload, c.label, t.attack, 1,
        case when t.status = 'failed' then 1 else 0 end
    from task t
    left join cell c on c.key = t.cell
    where t.origin = ''
"""
"""Our own cells and tasks."""
BLIND = "blind"


@dataclass(frozen=True)
class Held:
    """A cell, or a task alone, whose results can be forgotten."""

    key: str
    kind: str
    """`cell`, `train`, `attack` or `bench`."""
    cell: str | None
    workload: str
    label: str | None
    attack: str | None
    tasks: int
    failed: int
    """Failed ones among them, which stay in the view `failures`."""


def write_records(connection: sa.Connection, records: Mapping[str, Forgotten]) -> None:
    """Rebuild the table `forgotten_result` from the records of the store."""
    connection.execute(sa.delete(TABLES["forgotten_result"]))
    rows = [{**each.model_dump(), "forgotten": as_moment(each.forgotten)} for each in records.values()]
    if rows:
        db.insert_arrow(connection, TABLES["forgotten_result"], to_arrow("forgotten_result", rows))


def find_results(
    store: Store,
    keys: Sequence[str] = (),
    where: str | None = None,
    sweep: str | None = None,
    undo: bool = False,
) -> list[Held]:
    """The results that keys (or their first digits), a condition on CELLS or a sweep select.

    Those to forget, or with `undo` those that are forgotten. The database must be up to date. SpecError if
    nothing is selected, or what cannot be forgotten.
    """
    if bool(keys) + bool(where) + bool(sweep) != 1:
        raise SpecError("give what to forget: the key of a CELL, --where or --sweep, and only one of them")
    with open_reader(store.path) as reader:
        forgotten = {str(key) for (key,) in reader.execute("select key from forgotten_result").rows}
        if keys:
            found = [_by_key(reader, prefix, forgotten, undo) for prefix in dict.fromkeys(keys)]
        else:
            among = cells_of_sweep(reader, sweep) if sweep else f"select cell from {CELLS} where ({where}\n)"
            found = _read(reader, f"cell in ({among}) and kind in ('cell', 'attack')")
            # A cell stands for its attacks, unless one of them was forgotten alone.
            found = [each for each in found if each.kind == "cell" or (undo and each.key in forgotten)]
    able = [each for each in found if (each.key in forgotten) is undo]
    if not able:
        field = "CELL" if keys else "--where" if where else "--sweep"
        given = ", ".join(keys) or where or sweep
        state = "is not forgotten" if undo else "is forgotten already"
        raise SpecError(
            f"{field} {given} {state if found else 'matches no cell of this store'}: `privbench query "
            '"select * from forgotten"` lists what is forgotten',
            field=field,
            value=given,
            allowed=tuple(sorted(forgotten)) if undo else None,
        )
    return able


def forget_results(store: Store, found: Iterable[Held], why: str = "") -> None:
    """Record these as forgotten; the next collection takes them out of the database."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    why = why.encode("utf-8", "replace").decode()  # bytes of the command line that are not text
    for each in found:
        record = {"key": each.key, "kind": each.kind, "forgotten": now, "why": why}
        write_forgotten(store, Forgotten.model_validate(record))


def recall_results(store: Store, found: Iterable[Held]) -> None:
    """Undo: the next collection takes these into the database again."""
    for each in found:
        delete_forgotten(store, each.key)


def _by_key(reader: Reader, prefix: str, forgotten: set[str], undo: bool) -> Held:
    """The one cell or task whose key begins with `prefix`; SpecError if it cannot be forgotten alone."""
    well_formed = len(prefix) >= 2 and all(each in "0123456789abcdef" for each in prefix)
    found = _read(reader, f"key like '{prefix}%'") if well_formed else []
    if len(found) != 1:
        matches = [f"{each.kind} {each.key}" for each in found]
        several = f"{len(found)} cells and tasks begin" if found else "no cell or task of this store begins"
        raise SpecError(
            f"{several} with '{prefix}'{': ' if found else ''}{', '.join(matches[:10])}: give more of the "
            "key (`privbench plan` and the views show keys of cells)",
            field="CELL",
            value=prefix,
            allowed=tuple(each.key for each in found),
        )
    held = found[0]
    whole = held.cell in forgotten and held.kind == "attack" and held.key not in forgotten
    if held.kind == "train" or held.attack == BLIND or whole:
        what = "forgotten with" if whole else "the blind check of" if held.attack else "one of the models of"
        raise SpecError(
            f"{held.kind} {prefix} is {what} cell {held.cell}, and "
            f"{'brought back' if undo else 'forgotten'} only with it: give the key of the cell",
            field="CELL",
            value=prefix,
            allowed=(held.cell,),
        )
    return held


def _read(reader: Reader, where: str) -> list[Held]:
    rows: list[dict[str, Any]] = reader.execute(
        f"select * from ({HELD}) held where {where} order by kind, workload, label, key"
    ).arrow.to_pylist()
    return [Held(**{**row, "tasks": int(row["tasks"]), "failed": int(row["failed"])}) for row in rows]
