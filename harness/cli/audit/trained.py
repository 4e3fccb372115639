"""`privbench audit SCRIPT`: what is trained, how much, and where, from options to a result."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli import output
from harness.cli.options import settings_for, store_path
from workloads.errors import SpecError

if TYPE_CHECKING:
    from harness.audit.leakage_audit import LeakageAudit
    from harness.audit.program_result import Beside
    from harness.backends.status import Progress
    from harness.plan.plan import Plan
    from harness.plan.program_audit import Extent
    from harness.programs.ask import Given
    from harness.store import Store


@dataclass(frozen=True)
class Trained:
    """What is trained: a script, or a command with a file of records."""

    script: Path | None
    command: str | None
    data: Path | None
    further: Sequence[Path]

    def __bool__(self) -> bool:
        """Whether anything of it was given."""
        return any(each for each in (self.script, self.command, self.data, self.further))

    def check(self) -> None:
        """SpecError unless exactly one thing is to be trained."""
        if (self.script is None) == (self.command is None):
            given = "both" if self.script else "neither"
            raise SpecError(
                f"{given} of SCRIPT and --command: give a script with data() and train(x, y, seed), or a "
                "command with --data",
                field="SCRIPT",
                value=str(self.script) if self.script else None,
            )
        if self.command is not None and self.data is None:
            raise SpecError(
                "--command needs --data FILE: an .npz with x, y, test_x and test_y, or a .csv with columns "
                "y, part (pool or test) and the features",
                field="--data",
                value=None,
                allowed=(".npz", ".csv"),
            )

    def give(self, store: "Store") -> "Given":
        """Give it to the store."""
        from harness.programs.ask import take_command, take_script

        if self.command is not None and self.data is not None:
            return take_command(store, self.command, self.data, self.further)
        return take_script(store, self.script or Path(), self.further, self.data)


@dataclass(frozen=True)
class Sent:
    """Where it is trained, as options say it."""

    backend: str
    profile: Path | None
    slots: int | None
    threads: int
    timeout: float | None
    store: Path | None
    on_interrupt: str


def audit_trained(
    trained: Trained, extent: "Extent", beside: "Beside", sent: Sent, quiet: bool
) -> "LeakageAudit":
    """Train, attack, and read the result; progress goes to standard error if the output is JSON."""
    from harness.audit.program_door import Where, audit_program
    from harness.cli.sweeps import follow
    from harness.store import Store

    trained.check()
    where = Where(
        sent.backend, settings_for(sent.backend, sent.profile, sent.slots, sent.threads, sent.timeout)
    )
    Store(store_path(sent.store)).check(writable=True)
    store = Store.open(store_path(sent.store), create=True)
    console = output.err if quiet else output.out

    def tell(plan: "Plan") -> None:
        tasks = f"{len(plan.tasks)} tasks, {len(plan.todo)} to run"
        console.print(f"{plan.sweep.name}: {tasks}, in {store.path}", highlight=False, soft_wrap=True)

    def watch(store: "Store", sweep: str, backend: str) -> "Progress":
        return follow(store, sweep, backend, sent.on_interrupt, console)

    return audit_program(store, trained.give(store), extent, beside, where, watch, tell)
