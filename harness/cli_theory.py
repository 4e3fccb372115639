"""`privbench report pd-sgd-theory`: figures that need no store, and one that a store can add to."""

from pathlib import Path
from typing import Literal

from harness import console
from workloads.errors import SpecError


def pd_sgd_theory(path: Path, where: str | None, out: Path | None, columns: Literal["1", "2"] | None) -> None:
    """Write figure, data and tables; the experiment comes from the store's database, where there is one."""
    from harness.report.pd_sgd_theory import write_theory
    from harness.report.sheets import SHEETS
    from harness.store import Store

    if where:
        raise SpecError("--where selects rows of a view, and `report pd-sgd-theory` reads none: leave it out")
    store = Store(path)
    store.check()
    if out is None and not store.exists():
        raise SpecError(f"there is no store at {path} to put the report into: give --out DIR")
    measured = store.path if store.exists() and store.database.exists() else None
    for file in write_theory(out or store.reports, measured, SHEETS[columns]):
        console.say(str(file))
