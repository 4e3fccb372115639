"""The rows that a report is limited to: an SQL condition on a view, and the cells of a sweep."""

from collections.abc import Sequence
from typing import Any

from harness.results.query import Reader
from harness.results.sweep_tables import cells_of_sweep
from workloads.errors import SpecError


def select(view: str, where: str | None, columns: str = "*") -> str:
    """The statement for a view and a condition."""
    # The newline keeps an SQL comment at the condition's end from swallowing the bracket.
    return f"select {columns} from {view}" + (f" where ({where}\n)" if where else "")


def both(*conditions: str | None) -> str | None:
    """All of these conditions that are given; None for none."""
    return " and ".join(f"({each}\n)" for each in conditions if each) or None


def narrow(
    reader: Reader, where: str | None, sweep: str | None, columns: Sequence[str] = ("cell",)
) -> str | None:
    """A condition, and that the cells of a row are part of the sweep; UnknownName for an unknown sweep."""
    if sweep is None:
        return where
    cells = cells_of_sweep(reader, sweep)
    parts = [f"({where}\n)"] if where else []
    return " and ".join([*parts, *(f"{column} in ({cells})" for column in columns)])


def refuse_nothing(rows: Sequence[Any], view: str, where: str | None, sweep: str | None) -> None:
    """SpecError if a condition or a sweep was given and has no rows."""
    if rows or not (where or sweep):
        return
    which = " and ".join(filter(None, [sweep and f"is part of sweep '{sweep}'", where and f"has {where}"]))
    raise SpecError(
        f'no row of the view {view} {which}: `privbench query "select * from {view}"` shows what there is',
        field="--where" if where else "--sweep",
        value=where or sweep,
    )


def refuse_absent_attack(rows: Sequence[Any], attack: str | None) -> None:
    """SpecError if an attack was given and rows are there, but none is of it."""
    there = sorted({row["attack"] for row in rows})
    if attack is None or not there or attack.partition(" ")[0] in there:
        return
    raise SpecError(
        f"no row of the view frontier is of attack '{attack}': give one of {', '.join(there)}",
        field="--attack",
        value=attack,
        allowed=tuple(there),
    )
