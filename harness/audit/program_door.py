"""`privbench audit SCRIPT`, and `privbench.audit(train, data)`: audits of a training.

Give what is audited to the store, plan its sweep, run it on a backend, and read the result.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.audit.leakage_audit import LeakageAudit
from harness.audit.program_result import result_of
from harness.backends import DEFAULT, family
from harness.backends.base import Settings
from harness.enqueue import enqueue, refuse_absent_data
from harness.plan.changes.changed import check_plan
from harness.plan.plan import Plan
from harness.plan.program_audit import CANARY, ProgramAudit, plan_audit
from harness.programs.ask import take_functions
from harness.results.collect import collect
from harness.store import Store

LOOK_SECONDS = 0.5
MODELS = 16
"""Models of an audit if no number is given."""


@dataclass(frozen=True)
class Where:
    """Where the trainings run."""

    backend: str = DEFAULT
    settings: Settings = field(default_factory=Settings)


Follow = Callable[[Store, str, str], object]
"""Waits for a sweep of a store on a backend."""


def audit_training(
    train: Callable[..., Any],
    data: Callable[[], Any] | Mapping[str, Any] | Sequence[Any],
    *,
    models: int = MODELS,
    canaries: int = 0,
    canary: str = CANARY,
    attack: str | None = None,
    n_train: int | None = None,
    seed: int = 0,
    store: Path | str = "privbench-store",
    slots: int | None = None,
    further: Sequence[Path] = (),
) -> LeakageAudit:
    """Audit a training function by training it many times on this machine.

    Args:
        train: `train(x, y, seed)`, at the top level of a file: a child process imports it.
        data: x, y, test_x and test_y, or the function that returns them.
        models: Models to train; each is attacked once, with the others as shadows.
        canaries: Records made to be memorised; they give a lower bound on epsilon.
        canary: Their kind.
        attack: Attacks, as on the command line; by default those that fit.
        n_train: Members of each model; half of the pool by default.
        seed: Of members, models and canaries.
        store: The folder that keeps trainings; the same audit trains nothing again.
        slots: Trainings at a time.
        further: Files beside the script that the training reads.
    """
    opened = Store.open(store, create=True)
    given = take_functions(opened, train, data, further)
    asked = ProgramAudit(given, models, canaries, canary, attack, n_train, seed)
    return run_audit(opened, asked, Where(settings=Settings(slots)), wait)


def run_audit(
    store: Store, asked: ProgramAudit, where: Where, follow: Follow, tell: Callable[[Plan], object] = bool
) -> LeakageAudit:
    """Plan, send, wait and read the result; `tell` sees the plan before anything runs."""
    plan = check_plan(plan_audit(asked, store), store, accept=False)
    refuse_absent_data(plan, where.backend)
    tell(plan)
    enqueue(plan, store, where.backend, where.settings)
    follow(store, asked.name, where.backend)
    collect(store.path)
    return result_of(store, asked, plan)


def wait(store: Store, sweep: str, backend: str) -> None:
    """Wait for a sweep without a word."""
    member = family.get(backend)
    while member.attend(store, sweep):
        time.sleep(LOOK_SECONDS)
