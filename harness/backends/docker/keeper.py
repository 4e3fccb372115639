"""The process beside a container: `python -m harness.backends.docker.keeper ORDER STORE -`.

To the supervisor it is a worker like any other (harness/backends/machine/workers.py): it reads keys from
standard input, writes their status to standard output, and on SIGTERM asks the task to save and stop. It
creates the container and always removes it: after it has ended, or when the supervisor is gone. SIGUSR1
stands for SIGKILL, which a process cannot pass on.

Its last line is `exit_cause` with the reason as JSON, since the exit code is not enough. The container of
a keeper that is killed ends with its task; the next keeper of the store removes it.
"""

import contextlib
import json
import select
import signal
import subprocess
import sys
import time
import uuid
from types import FrameType

from harness.backends.docker import daemon
from harness.backends.docker.containers import Order, create_command, read_order, size_bytes
from harness.backends.machine.workers import STOP_SECONDS
from harness.jobs.cgroup import mebibytes
from harness.store import Store
from workloads.errors import BackendError

TICK_SECONDS = 0.2
KILLED_CODE = 128 + signal.SIGKILL
ExitCause = tuple[str, str]
"""(reason, message) of the failed task."""


class Keeper:
    """Manages one container."""

    def __init__(self, store: Store, order: Order) -> None:
        self.store, self.spec = store, order
        self.name = f"privbench-{uuid.uuid4().hex[:12]}"
        self.order: signal.Signals | None = None
        self.let_go_at: float | None = None

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """On SIGTERM let the task save and stop; on SIGUSR1 kill it."""
        self.order = signal.SIGKILL if signum == signal.SIGUSR1 else signal.SIGTERM

    def run(self) -> ExitCause | None:
        """Create, watch and remove the container; None if it ended normally."""
        if not daemon.await_engine():
            return "killed", "the engine does not respond; start it and run the sweep again"
        try:
            daemon.sweep(self.store)
            daemon.ask(*create_command(self.store, self.spec.settings, self.spec.gpu, self.name))
            with subprocess.Popen(["docker", "start", "--attach", "--interactive", self.name]) as client:
                while client.poll() is None:
                    self._attend()
            return self._exit_cause(client.returncode)
        except BackendError as error:
            return "killed", f"its container cannot be created: {error}; fix that and run the sweep again"
        finally:
            daemon.remove(self.name)

    def _attend(self) -> None:
        """Wait one tick: forward signals, and stop the container if the supervisor is gone."""
        pipe = select.poll()
        pipe.register(sys.stdin, 0)  # only detects that the other end is closed
        if pipe.poll(TICK_SECONDS * 1000) and self.let_go_at is None:
            self.let_go_at, self.order = time.monotonic(), signal.SIGTERM
        if self.let_go_at is not None:
            time.sleep(TICK_SECONDS)  # polling a closed input returns at once
            if time.monotonic() - self.let_go_at > STOP_SECONDS:
                self.order = signal.SIGKILL
        if self.order is not None:
            with contextlib.suppress(BackendError):  # not started yet: retried in the next tick
                daemon.ask("kill", f"--signal={self.order.name}", self.name)
                self.order = None

    def _exit_cause(self, code: int) -> ExitCause | None:
        """Why the container ended, as the engine reports it."""
        if not daemon.await_engine():
            return "killed", "the engine stopped while it ran; start it and run the sweep again"
        end = daemon.end_of(self.name)
        if end is not None and end.running:  # the client was killed; the task can still save
            with contextlib.suppress(BackendError):
                wait = daemon.ANSWER_SECONDS + STOP_SECONDS
                daemon.ask("stop", f"--time={STOP_SECONDS:.0f}", self.name, seconds=wait)
            return "killed", "its container lost its client; running the sweep again resumes it"
        if end is None:
            return "killed", "its container was removed; running the sweep again resumes it"
        if end.error:
            return "killed", f"its container could not start: {end.error}; fix that and run the sweep again"
        if end.code == 0:
            return None
        if end.out_of_memory:
            limit = mebibytes(size_bytes(self.spec.container.memory or "0"))
            return "out_of_memory", f"out of memory: the kernel killed it (limit: {limit})"
        if end.code == KILLED_CODE and code != KILLED_CODE:
            return "killed", "the engine was restarted while it ran; running the sweep again resumes it"
        if end.code == KILLED_CODE:
            return "killed", "its container was killed by SIGKILL; running the sweep again resumes it"
        return "killed", f"its container ended with exit code {end.code}; see the supervisor's log"


def main(arguments: list[str]) -> int:
    """Run a container for the store until it ends."""
    order, store = read_order(arguments[0]), Store.open(arguments[1])
    if order.container.engine:
        daemon.use(order.container.engine)
    keeper = Keeper(store, order)
    for signum in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(signum, keeper.handle)
    exit_cause = keeper.run()
    with contextlib.suppress(BrokenPipeError):  # the supervisor is gone
        if exit_cause is not None:
            sys.stdout.write(f"exit_cause {json.dumps(exit_cause)}\n")
            sys.stdout.flush()
    return 0 if exit_cause is None else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
