"""Worker processes on this machine: one per slot, reused for many tasks."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

from harness.backends.base import Settings, program
from harness.backends.gpus import for_device
from harness.jobs.cgroup import oom_kills
from harness.store import Store
from workloads.threads import LIBRARIES, THREADS

JOB = program("harness.jobs")
STOP_SECONDS = 30.0
"""Grace period for saving a checkpoint before a worker is killed."""


class Worker:
    """A process that runs tasks one after another."""

    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """Kills it at once."""
    disposable: ClassVar[bool] = False
    """Whether it is replaced after a failed task."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        gpu: str | None,
        program: Sequence[str] = JOB,
    ) -> None:
        self.settings, self.gpu = settings, gpu
        self.backend = ""
        """The backend it belongs to; a supervisor may serve several."""
        self.task: str | None = None
        self.stopping = self.cancelled = False
        self.spent = False
        """Whether it gets no further task."""
        self._killed_for: str | None = None
        self._reported_cause: tuple[str, str] | None = None
        self._ready = False
        self._limit: float | None = None
        self._deadline: float | None = None
        self._stop_since: float | None = None
        self._oom_kills = oom_kills()
        threads = str(settings.threads)
        environment = {**for_device(os.environ, gpu), THREADS: threads, **settings.environment}
        for name in LIBRARIES:
            environment[name] = threads  # slots must not compete for cores
        self.process = subprocess.Popen(
            [*program, str(store.path), "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("a worker without pipes")
        self._keys, self.output = self.process.stdin, self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._partial = b""

    @property
    def on_gpu(self) -> bool:
        """Whether it has a GPU."""
        return self.gpu is not None

    def give(self, key: str, timeout_seconds: float | None) -> None:
        """Start a task."""
        self.task, self.stopping, self.cancelled = key, False, False
        self._limit = timeout_seconds
        self._set_deadline()
        self._oom_kills = oom_kills()
        with contextlib.suppress(BrokenPipeError):  # it has died; the caller will notice
            self._keys.write(f"{key}\n".encode())
            self._keys.flush()

    def rest(self) -> None:
        """Mark the worker as idle."""
        self.task, self._limit, self._deadline, self._stop_since = None, None, None, None
        self.stopping = False

    def ended_tasks(self) -> Iterator[tuple[str, str]]:
        """Yield (key, status) of every task that has ended since the last call."""
        self._partial += self.output.read() or b""
        *lines, self._partial = self._partial.split(b"\n")
        for line in lines:
            key, _, status = line.decode().partition(" ")
            if key == "exit_cause":  # from a keeper, which knows more than an exit code
                self._reported_cause = tuple(json.loads(status))
            elif status:
                self.spent |= self.disposable and status == "failed"
                yield key, status
            else:  # its first line, after loading torch: only now the time limit starts
                self._ready = True
                self._set_deadline()

    def _set_deadline(self) -> None:
        if self._ready and self._limit is not None:
            self._deadline = time.monotonic() + self._limit

    def overdue(self) -> bool:
        """Whether the task has run past its time limit."""
        return self._deadline is not None and time.monotonic() > self._deadline

    def ask_to_stop(self) -> None:
        """Send SIGTERM, at every call (one may arrive between two tasks), and SIGKILL after STOP_SECONDS."""
        self._stop_since = self._stop_since or time.monotonic()
        if time.monotonic() - self._stop_since > STOP_SECONDS:
            self.process.send_signal(self.kill_signal)
        else:
            self.process.send_signal(signal.SIGTERM)

    def kill(self, reason: str) -> None:
        """Kill the process and record why."""
        self._killed_for = reason
        self.process.send_signal(self.kill_signal)
        self.process.wait()

    def exit_cause(self, oom_kills_now: int) -> tuple[str, str]:
        """(reason, message) for the task of a dead worker."""
        code = self.process.returncode
        if self._killed_for == "timed_out":
            return "timed_out", f"ran longer than {self.settings.timeout_seconds:g} s"
        if self._reported_cause is not None:
            return self._reported_cause
        if code == -signal.SIGKILL and oom_kills_now > self._oom_kills:
            return "out_of_memory", "out of memory: the kernel killed the worker"
        if code < 0:
            name = signal.Signals(-code).name
            return "killed", f"the worker was killed by {name}; running the sweep again resumes it"
        return "killed", f"the worker ended with exit code {code}; see the supervisor's log"

    def let_go(self) -> None:
        """Ask the process to end: close its input, and send SIGTERM if it is busy."""
        with contextlib.suppress(OSError):
            self._keys.close()
        if self.task is not None:
            self.process.terminate()

    def end(self) -> None:
        """Ask the process to end and wait; kill it after STOP_SECONDS."""
        self.let_go()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(self.kill_signal)
            self.process.wait()
        self.output.close()


def slots(settings: Settings, on_gpu: bool = False) -> int:
    """Number of tasks at a time on this machine, with a GPU or without."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    shares = max(1, cores // settings.threads)
    if settings.gpus:
        trainings = settings.slots or len(settings.gpus)
        # Attacks take the cores that trainings leave.
        return trainings if on_gpu else max(1, shares - trainings)
    return 0 if on_gpu else settings.slots or shares
