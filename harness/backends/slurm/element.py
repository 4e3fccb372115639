"""One element of a job array, on its node: `python -m harness.backends.slurm.element STORE RECORD`.

It gives its tasks one after another to a worker process (harness.jobs, in the profile's container where
there is one) and never loads torch itself: a crash in a training costs that task and not its siblings.
SIGUSR1 comes before the time limit: the task saves its state and the job is requeued. SIGTERM comes
before a preemption, which SLURM requeues itself, and with scancel: the task saves its state.
"""

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import FrameType
from typing import Literal

from harness.backends.base import publish_failure
from harness.backends.gpus import VISIBLE
from harness.backends.machine.workers import JOB, Worker
from harness.backends.slurm import cluster
from harness.backends.slurm.array_record import BEGAN, Record, end_mark, folder, read
from harness.jobs import scheduler
from harness.jobs.cgroup import oom_kills
from harness.store import Store

TICK_SECONDS = 0.5
AGAIN_CODE = os.EX_TEMPFAIL
"""Exit code of an element that has saved its state and has more to do."""


class Element:
    """Works off the tasks of one pack."""

    def __init__(self, store: Store, record: Record, index: int) -> None:
        self.store, self.record = store, record
        self.pack = record.packs[index]
        self.mark = end_mark(store, record, index)
        self.order: Literal["", "requeue", "stop"] = ""
        self.warned = False
        # SLURM counts from the beginning of the batch script: its setup lines take time, too.
        spent = time.time() - float(os.environ.get(BEGAN) or time.time())
        limit = record.profile.time_seconds - record.profile.signal_seconds
        self._until = time.monotonic() + limit - spent
        self.worker: Worker | None = None

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """Remember what was asked; a stop is not taken back."""
        if signum == signal.SIGUSR1:
            self.warned = True
        else:
            self.order = "stop"

    def _heed(self) -> None:
        """Order a requeue when it is time.

        The profile tells when. SLURM's warning may come a minute early, or of a limit that was lowered
        since: then SLURM is asked.
        """
        if self.warned:
            self.warned = False
            left = cluster.seconds_left(os.environ["SLURM_JOB_ID"])
            self._until = min(self._until, time.monotonic() + left - self.record.profile.signal_seconds)
        if not self.order and time.monotonic() >= self._until:
            self.order = "requeue"

    def run(self) -> int:
        """0 when every task is done, 1 when one has failed, AGAIN_CODE when there is more to do."""
        hopeless: set[str] = set()
        self.mark.unlink(missing_ok=True)  # of its run before it was requeued
        try:
            while not self.order and (key := self._last_look(hopeless)) is not None:
                if self._can_run(key):
                    self._perform(key)
                if self.store.result(key) is None:
                    hopeless.add(key)  # not even a row could be written
                self._heed()
        finally:
            if self.worker is not None:
                self.worker.end()
        if self.order == "requeue" and self._next() is not None:
            self._requeue()
        if self._next() is not None:
            return AGAIN_CODE
        return 0 if all(self._done(key) for key in self.pack) else 1

    def _next(self, hopeless: Collection[str] = ()) -> str | None:
        """The next task without a result: also one whose failure a retry has taken away meanwhile."""
        left = (key for key in self.pack if key not in hopeless and self.store.result(key) is None)
        return next(left, None)

    def _last_look(self, hopeless: Collection[str]) -> str | None:
        """The next task; where there is none, say so before looking once more."""
        key = self._next(hopeless)
        if key is None:
            with contextlib.suppress(OSError):  # a full disk
                self.mark.touch()
            key = self._next(hopeless)
            if key is not None:
                self.mark.unlink(missing_ok=True)
        return key

    def _done(self, key: str) -> bool:
        result = self.store.result(key)
        return result is not None and result.done

    def _can_run(self, key: str) -> bool:
        """Whether everything a task reads is there; a task fails for want of what is missing."""
        lost = [need[:12] for need in self.record.needs.get(key, ()) if not self._done(need)]
        if lost:
            message = f"{len(lost)} tasks it needs have failed or have not run: {', '.join(lost)}"
            publish_failure(self.store, key, "upstream", message)
        return not lost

    def _perform(self, key: str) -> None:
        """Let the worker run one task; a worker that dies leaves a row with the reason."""
        worker = self._ready_worker()
        worker.give(key, self.record.settings.timeout_seconds)
        with selectors.DefaultSelector() as selector:
            selector.register(worker.answers, selectors.EVENT_READ)
            while worker.task is not None:
                selector.select(TICK_SECONDS)
                self._heed()
                if any(heard == key for heard, _ in worker.heard()):
                    worker.rest()
                elif worker.process.poll() is not None:
                    self._bury(worker, key)
                elif worker.overdue():
                    worker.kill("timed_out")
                elif self.order:
                    worker.ask_to_stop()

    def _bury(self, worker: Worker, key: str) -> None:
        reason, message = worker.epitaph(oom_kills())
        # One that was asked to stop and was killed for being deaf leaves its task open, for the next run.
        if not self.order or reason == "timed_out":
            publish_failure(self.store, key, reason, message)
        worker.rest()
        worker.end()
        self.worker = None

    def _ready_worker(self) -> Worker:
        if self.worker is not None and self.worker.process.poll() is not None:  # it died after its task
            self.worker.end()
            self.worker = None
        if self.worker is None:
            settings, profile = self.record.settings, self.record.profile
            # What the profile says of the environment holds against what follows from the GPUs.
            environment = {**place(), **settings.environment, **profile.environment}
            settings = replace(settings, environment=environment)
            self.worker = Worker(self.store, settings, self._gpu(), self._program())
        return self.worker

    def _gpu(self) -> str | None:
        """What SLURM gave this job, in its own words; where it says nothing, the first it lets us see."""
        return os.environ.get(VISIBLE, "0") if self.record.profile.gpus else None

    def _program(self) -> Sequence[str]:
        """The command that serves tasks: this Python's, or that of the container."""
        profile = self.record.profile
        if profile.container is None:
            return JOB
        inside = ["--bind", str(self.store.path), profile.container, "python", "-P", "-m", "harness.job"]
        return ["apptainer", "exec", *profile.apptainer_options, *inside]

    def _requeue(self) -> None:
        """Ask SLURM to run this element again, unless it has been often enough.

        It ends this process; what is open then runs again, from its checkpoint.
        """
        times = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        allowed = self.record.profile.requeues
        if times >= allowed:
            self._give_up(f"the time limit came after {times} requeues, and the profile allows {allowed}")
            return
        limit = self._until + self.record.profile.signal_seconds
        while (objection := cluster.requeue(os.environ["SLURM_JOB_ID"])) is not None:
            if self.order == "stop":
                return
            if time.monotonic() > limit:
                self._give_up(f"the time limit came, and SLURM does not requeue the job ({objection})")
                return
            time.sleep(TICK_SECONDS)  # a controller may be away for a moment

    def _give_up(self, reason: str) -> None:
        """A row for everything open, by whether it had begun."""
        for key in self.pack:
            if self.store.result(key) is None:
                begun = (self.store.folder(key) / "log.txt").exists()
                message = f"{reason}; it goes on from its checkpoint when the sweep is retried"
                publish_failure(self.store, key, "timed_out" if begun else "killed", message)


def place() -> dict[str, str]:
    """The variables by which a worker knows its job, as SLURM's commands take it, and its node."""
    job, array = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        job = f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    found = {scheduler.JOB: job, scheduler.NODE: os.environ.get("SLURMD_NODENAME")}
    return {name: value for name, value in found.items() if value}


def main(arguments: list[str]) -> int:
    """Run the element that SLURM's environment names."""
    store = Store.open(arguments[0])
    record = read(folder(store) / f"{arguments[1]}.json")
    element = Element(store, record, int(os.environ["SLURM_ARRAY_TASK_ID"]))
    for signum in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(signum, element.handle)
    return element.run()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
