"""The plan of an audit of a training: one cell of a program on its records, and one training more.

The further training has the members of model 0 and other seeds, which tells whether the program uses its seed
(harness/programs/doubts.py).
"""

from dataclasses import dataclass, replace
from typing import Any

from harness.members.manifest import attack_facts
from harness.plan.attack_choices import parse_attacks
from harness.plan.plan import Plan, make_plan, standing_of
from harness.plan.sweep_file import read_sweep
from harness.programs.ask import Given
from harness.programs.shelf import admit_names
from harness.spec import Cell, Task
from harness.store import Store
from workloads.errors import SpecError

ATTACKS = ("loss", "population", "lira", "rmia", "reference", "strongest")
AUDIT = "audit-one-run"
CANARY = "mislabelled"
"""The kind of canaries if none is named: it needs no gradient of the model's."""
REPETITION = "repetition"


@dataclass(frozen=True)
class Extent:
    """How much an audit of a training does."""

    models: int = 16
    canaries: int = 0
    canary: str = CANARY
    attack: str | None = None
    """As on the command line; None for those that fit the number of models."""
    n_train: int | None = None
    """None for half of the pool."""
    seed: int = 0


@dataclass(frozen=True)
class ProgramAudit:
    """What is asked about a program."""

    given: Given
    extent: Extent = Extent()

    @property
    def name(self) -> str:
        """The name of its sweep."""
        return f"audit-{self.given.method}"

    @property
    def attacks(self) -> list[Any]:
        """The attacks to run, with the audit where there are canaries."""
        fitting = [name for name in ATTACKS if attack_facts(name).shadows < self.extent.models]
        asked = fitting if self.extent.attack is None else parse_attacks(self.extent.attack)
        audited = any(name in (AUDIT, {"attack": AUDIT}) for name in asked)
        return [*asked, *([AUDIT] if self.extent.canaries and not audited else [])]

    def sweep(self) -> dict[str, Any]:
        """The content of its sweep file."""
        grid: dict[str, Any] = {"workload": self.given.workload, "method": self.given.method}
        if self.extent.n_train is not None:
            grid["n_train"] = self.extent.n_train
        if self.extent.canaries:
            grid |= {"canary": self.extent.canary, "canaries": self.extent.canaries}
        head = {"name": self.name, "models": self.extent.models, "seed": self.extent.seed}
        return {**head, "attacks": self.attacks, "grid": [grid]}


def plan_audit(asked: ProgramAudit, store: Store) -> Plan:
    """Plan an audit in a store that was given its program and records; SpecError with all problems."""
    admit_names(store, asked.given.workload, asked.given.method)
    made = make_plan(*read_sweep(asked.sweep(), asked.name), store)
    if len(made.cells) != 1:
        raise SpecError("an audit has one cell", field="cells", value=len(made.cells), allowed=1)
    further = repeated(made)
    done, failed = standing_of((further,), store)
    return replace(
        made,
        tasks=(*made.tasks, further),
        done=made.done | done.keys(),
        failed={**made.failed, **failed},
        recorded={**made.recorded, **done},
    )


def repeated(plan: Plan) -> Task:
    """The training with the members of model 0 and other seeds."""
    first = next(task for task in plan.tasks if task.kind == "train")
    return Task("train", again(first.cell), index=0, notes=first.notes)


def again(cell: Cell) -> Cell:
    """The cell with the same members and other seeds."""
    return replace(cell, params={**cell.params, REPETITION: 1})
