"""Worker processes on this machine: one per slot, used for many tasks."""

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

JOB = program("harness.jobs")
STOP_SECONDS = 30.0
"""How long a worker may take to save its state before it is killed."""


class Worker:
    """A process that runs tasks one after another."""

    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """What ends it at once."""
    disposable: ClassVar[bool] = False
    """Whether it is replaced when a task of its has failed."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        gpu: str | None,
        program: Sequence[str] = JOB,
    ) -> None:
        self.settings, self.gpu = settings, gpu
        self.backend = ""
        """Whose worker it is, where a supervisor works for several backends."""
        self.task: str | None = None
        self.stopping = self.cancelled = False
        self.spent = False
        """Whether it should get no further task."""
        self._killed_for: str | None = None
        self._last_words: tuple[str, str] | None = None
        self._ready = False
        self._limit: float | None = None
        self._deadline: float | None = None
        self._stop_since: float | None = None
        self._oom_kills = oom_kills()
        threads = str(settings.threads)
        environment = {**for_device(os.environ, gpu), "PRIVBENCH_THREADS": threads, **settings.environment}
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment[name] = threads  # slots must not fight for cores
        self.process = subprocess.Popen(
            [*program, str(store.path), "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("a worker without pipes")
        self._keys, self.answers = self.process.stdin, self.process.stdout
        os.set_blocking(self.answers.fileno(), False)
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
        with contextlib.suppress(BrokenPipeError):  # it died meanwhile; it is buried soon
            self._keys.write(f"{key}\n".encode())
            self._keys.flush()

    def rest(self) -> None:
        """The task has ended."""
        self.task, self._limit, self._deadline, self._stop_since = None, None, None, None
        self.stopping = False

    def heard(self) -> Iterator[tuple[str, str]]:
        """(key, status) of every task that has ended since the last call."""
        self._partial += self.answers.read() or b""
        *lines, self._partial = self._partial.split(b"\n")
        for line in lines:
            key, _, status = line.decode().partition(" ")
            if key == "epitaph":  # of a keeper, which knows more than its exit code tells
                self._last_words = tuple(json.loads(status))
            elif status:
                self.spent |= self.disposable and status == "failed"
                yield key, status
            else:  # its first word, when it has loaded torch: only now a task's time begins
                self._ready = True
                self._set_deadline()

    def _set_deadline(self) -> None:
        if self._ready and self._limit is not None:
            self._deadline = time.monotonic() + self._limit

    def overdue(self) -> bool:
        """Whether the task has run past its time limit."""
        return self._deadline is not None and time.monotonic() > self._deadline

    def ask_to_stop(self) -> None:
        """SIGTERM, again at every call (one may arrive between two tasks); SIGKILL if it does not obey."""
        self._stop_since = self._stop_since or time.monotonic()
        if time.monotonic() - self._stop_since > STOP_SECONDS:
            self.process.send_signal(self.kill_signal)
        else:
            self.process.send_signal(signal.SIGTERM)

    def kill(self, reason: str) -> None:
        """End the process now and remember why."""
        self._killed_for = reason
        self.process.send_signal(self.kill_signal)
        self.process.wait()

    def epitaph(self, oom_kills_now: int) -> tuple[str, str]:
        """(reason, message) for the task a dead worker leaves behind."""
        code = self.process.returncode
        if self._killed_for == "timed_out":
            return "timed_out", f"ran longer than {self.settings.timeout_seconds:g} s"
        if self._last_words is not None:
            return self._last_words
        if code == -signal.SIGKILL and oom_kills_now > self._oom_kills:
            return "out_of_memory", "the kernel killed the worker for want of memory"
        if code < 0:
            name = signal.Signals(-code).name
            return "killed", f"the worker was killed by {name}; running the sweep again resumes it"
        return "killed", f"the worker ended with exit code {code}; see the supervisor's log"

    def let_go(self) -> None:
        """Ask the process to end: an idle one when its input does, a busy one by SIGTERM."""
        with contextlib.suppress(OSError):
            self._keys.close()
        if self.task is not None:
            self.process.terminate()

    def end(self) -> None:
        """Let the process go and wait until it has ended, or make it."""
        self.let_go()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(self.kill_signal)
            self.process.wait()
        self.answers.close()


def slots(settings: Settings, on_gpu: bool = False) -> int:
    """Tasks at a time on this machine: of those that have a GPU, or of those that have none."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    shares = max(1, cores // settings.threads)
    if settings.gpus:
        trainings = settings.slots or len(settings.gpus)
        # An attack beside the trainings takes the cores that these leave over.
        return trainings if on_gpu else max(1, shares - trainings)
    return 0 if on_gpu else settings.slots or shares
