"""`privbench audit SCRIPT`, and `privbench.audit(train, data, models=16)`: audits of a training.

Give what is audited to the store, plan its sweep, run it on a backend, and read the result.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import workloads
from harness.audit.leakage_audit import LeakageAudit
from harness.audit.limits import check_resolved, read_limit
from harness.audit.program_result import DELTA, Beside, result_of
from harness.backends import DEFAULT, family
from harness.backends.base import Settings
from harness.enqueue import enqueue, refuse_absent_data
from harness.plan.changes.changed import check_plan
from harness.plan.plan import Plan
from harness.plan.program_audit import Extent, ProgramAudit, plan_audit
from harness.programs.ask import Given, take_functions
from harness.results.collect import collect
from harness.store import Store

LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Where:
    """Where the trainings run."""

    backend: str = DEFAULT
    settings: Settings = field(default_factory=Settings)


def audit_program(
    store: Store,
    given: Given,
    extent: Extent,
    beside: Beside,
    where: Where,
    follow: Callable[[Store, str, str], object],
    tell: Callable[[Plan], object] = bool,
) -> LeakageAudit:
    """Train, attack and read the result.

    Args:
        store: The store that was given the program.
        given: The names of the program and its records there.
        extent: How many models, canaries and attacks.
        beside: Limits, and the ledger that stands beside the figures.
        where: The backend and its settings.
        follow: Waits for a sweep of a store on a backend.
        tell: Sees the plan before anything runs.
    """
    asked = ProgramAudit(given, extent)
    plan = check_plan(plan_audit(asked, store), store, accept=False)
    cell = plan.cells[0]
    pool = len(workloads.family.get(cell.workload.name).pool())
    check_resolved(beside.limits, extent.models * (pool - cell.n_train))
    refuse_absent_data(plan, where.backend)
    tell(plan)
    enqueue(plan, store, where.backend, where.settings)
    follow(store, asked.name, where.backend)
    collect(store.path)
    return result_of(store, asked, plan, beside)


def audit_training(
    train: Callable[..., Any],
    data: Any,
    extent: Extent,
    store: str | Path,
    slots: int | None = None,
    further: Sequence[str | Path] = (),
    ledger: Any = None,
    delta: float = DELTA,
    fail_above: Sequence[str] = (),
) -> LeakageAudit:
    """Audit a training function on this machine; see harness/audit/door.py."""
    limits = [read_limit(each) for each in fail_above]
    opened = Store.open(store, create=True)
    given = take_functions(opened, train, data, [Path(each) for each in further])
    beside = Beside(limits, ledger, delta, asdict(extent))
    return audit_program(opened, given, extent, beside, Where(settings=Settings(slots)), wait)


def wait(store: Store, sweep: str, backend: str) -> None:
    """Wait for a sweep in silence."""
    member = family.get(backend)
    while member.attend(store, sweep):
        time.sleep(LOOK_SECONDS)
