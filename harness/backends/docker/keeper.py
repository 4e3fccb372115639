"""The process beside a container: `python -m harness.backends.docker.keeper ORDER STORE -`.

To the supervisor it is a worker like any other (harness/backends/local/workers.py): keys go in on standard
input, answers come out, SIGTERM asks the task to save and stop. It makes the container, stands between
the two, and leaves none behind: when the container has ended, or when whoever started the keeper is gone,
it is stopped, looked at and removed. In place of SIGKILL, which no process could pass on, it takes SIGUSR1.

Its last line is `epitaph` with why the container ended, as JSON: the exit code alone does not tell. A
keeper that is itself killed leaves a container that ends with its task; the next keeper of the store
removes what is left of it.
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
Epitaph = tuple[str, str]
"""(reason, message) for the task that a container leaves behind."""


class Keeper:
    """Keeps one container."""

    def __init__(self, store: Store, order: Order) -> None:
        self.store, self.told = store, order
        self.name = f"privbench-{uuid.uuid4().hex[:12]}"
        self.order: signal.Signals | None = None
        self.let_go_at: float | None = None

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """SIGTERM: let the task save and stop. SIGUSR1: kill it."""
        self.order = signal.SIGKILL if signum == signal.SIGUSR1 else signal.SIGTERM

    def run(self) -> Epitaph | None:
        """From the container's making to its removal; None where it ended as it was asked to."""
        if not daemon.await_answer():
            return "killed", "the engine does not answer; start it and run the sweep again"
        try:
            daemon.sweep(self.store)
            daemon.ask(*create_command(self.store, self.told.settings, self.told.gpu, self.name))
            with subprocess.Popen(["docker", "start", "--attach", "--interactive", self.name]) as client:
                while client.poll() is None:
                    self._attend()
            return self._epitaph(client.returncode)
        except BackendError as error:
            return "killed", f"its container cannot be made: {error}; mend that and run the sweep again"
        finally:
            daemon.remove(self.name)

    def _attend(self) -> None:
        """For one tick: pass orders on; end what nobody listens to any more."""
        pipe = select.poll()
        pipe.register(sys.stdin, 0)  # asks for nothing but whether the other end is closed
        if pipe.poll(TICK_SECONDS * 1000) and self.let_go_at is None:
            self.let_go_at, self.order = time.monotonic(), signal.SIGTERM
        if self.let_go_at is not None:
            time.sleep(TICK_SECONDS)  # a closed input does not wait
            if time.monotonic() - self.let_go_at > STOP_SECONDS:
                self.order = signal.SIGKILL
        if self.order is not None:
            with contextlib.suppress(BackendError):  # it has not started yet: again in the next tick
                daemon.ask("kill", f"--signal={self.order.name}", self.name)
                self.order = None

    def _epitaph(self, code: int) -> Epitaph | None:
        """Why the container ended, whatever its client says."""
        if not daemon.await_answer():
            return "killed", "the engine went away while it ran; start it and run the sweep again"
        end = daemon.end_of(self.name)
        if end is not None and end.running:  # the client was killed; the task can still save
            with contextlib.suppress(BackendError):
                wait = daemon.ANSWER_SECONDS + STOP_SECONDS
                daemon.ask("stop", f"--time={STOP_SECONDS:.0f}", self.name, seconds=wait)
            return "killed", "its container lost its client; running the sweep again resumes it"
        if end is None:
            return "killed", "somebody removed its container; running the sweep again resumes it"
        if end.error:
            return "killed", f"its container could not start: {end.error}; mend that and run the sweep again"
        if end.code == 0:
            return None
        if end.out_of_memory:
            limit = mebibytes(size_bytes(self.told.container.memory or "0"))
            return "out_of_memory", f"the kernel killed it for want of memory (limit: {limit})"
        if end.code == KILLED_CODE and code != KILLED_CODE:
            return "killed", "the engine was restarted while it ran; running the sweep again resumes it"
        if end.code == KILLED_CODE:
            return "killed", "its container was killed by SIGKILL; running the sweep again resumes it"
        return "killed", f"its container ended with exit code {end.code}; see the supervisor's log"


def main(arguments: list[str]) -> int:
    """Keep a container for the store until it ends."""
    order, store = read_order(arguments[0]), Store.open(arguments[1])
    if order.container.engine:
        daemon.use(order.container.engine)
    keeper = Keeper(store, order)
    for signum in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(signum, keeper.handle)
    epitaph = keeper.run()
    with contextlib.suppress(BrokenPipeError):  # the supervisor is gone: nobody asks
        if epitaph is not None:
            sys.stdout.write(f"epitaph {json.dumps(epitaph)}\n")
            sys.stdout.flush()
    return 0 if epitaph is None else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
