"""One element of a job array, run on its node: `python -m harness.backends.slurm.element STORE RECORD`.

It passes its tasks one by one to a worker process (harness.jobs, in the profile's container if any) and
never loads torch: a crash fails one task and not its siblings. SIGUSR1 precedes the time limit: the task
saves a checkpoint and the job is requeued. SIGTERM precedes a preemption, which SLURM requeues itself, and
comes with scancel: the task saves a checkpoint.
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
MORE_WORK_CODE = os.EX_TEMPFAIL
"""Exit code of an element that stopped with unfinished tasks."""


class Element:
    """Runs the tasks of one pack."""

    def __init__(self, store: Store, record: Record, index: int) -> None:
        self.store, self.record = store, record
        self.pack = record.packs[index]
        self.mark = end_mark(store, record, index)
        self.order: Literal["", "requeue", "stop"] = ""
        self.warned = False
        # SLURM counts from the start of the batch script, including its setup lines.
        spent = time.time() - float(os.environ.get(BEGAN) or time.time())
        limit = record.profile.time_seconds - record.profile.signal_seconds
        self._until = time.monotonic() + limit - spent
        self.worker: Worker | None = None

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """Record the request; a stop is final."""
        if signum == signal.SIGUSR1:
            self.warned = True
        else:
            self.order = "stop"

    def _check_time_limit(self) -> None:
        """Request a requeue when the time limit is near.

        The profile gives the limit. SLURM's warning may come a minute early, or follow a lowered limit: then
        SLURM is asked for the remaining time.
        """
        if self.warned:
            self.warned = False
            left = cluster.seconds_left(os.environ["SLURM_JOB_ID"])
            self._until = min(self._until, time.monotonic() + left - self.record.profile.signal_seconds)
        if not self.order and time.monotonic() >= self._until:
            self.order = "requeue"

    def run(self) -> int:
        """Run the pack; 0 if every task is done, 1 if one failed, MORE_WORK_CODE if some are unfinished."""
        unpublished: set[str] = set()
        self.mark.unlink(missing_ok=True)  # from the run before a requeue
        try:
            while not self.order and (key := self._last_look(unpublished)) is not None:
                if self._can_run(key):
                    self._perform(key)
                if self.store.result(key) is None:
                    unpublished.add(key)  # not even a failure could be written
                self._check_time_limit()
        finally:
            if self.worker is not None:
                self.worker.end()
        if self.order == "requeue" and self._next() is not None:
            self._requeue()
        if self._next() is not None:
            return MORE_WORK_CODE
        return 0 if all(self._done(key) for key in self.pack) else 1

    def _next(self, unpublished: Collection[str] = ()) -> str | None:
        """The next task without a result, including one that was reset by a retry."""
        left = (key for key in self.pack if key not in unpublished and self.store.result(key) is None)
        return next(left, None)

    def _last_look(self, unpublished: Collection[str]) -> str | None:
        """The next task; if there is none, write the end mark and look once more."""
        key = self._next(unpublished)
        if key is None:
            with contextlib.suppress(OSError):  # a full disk
                self.mark.touch()
            key = self._next(unpublished)
            if key is not None:
                self.mark.unlink(missing_ok=True)
        return key

    def _done(self, key: str) -> bool:
        result = self.store.result(key)
        return result is not None and result.done

    def _can_run(self, key: str) -> bool:
        """Whether all dependencies are done; if not, the task fails as `upstream`."""
        lost = [need[:12] for need in self.record.needs.get(key, ()) if not self._done(need)]
        if lost:
            message = f"{len(lost)} tasks it needs have failed or have not run: {', '.join(lost)}"
            publish_failure(self.store, key, "upstream", message)
        return not lost

    def _perform(self, key: str) -> None:
        """Run one task in the worker; if the worker dies, the task fails with the reason."""
        worker = self._ready_worker()
        worker.give(key, self.record.settings.timeout_seconds)
        with selectors.DefaultSelector() as selector:
            selector.register(worker.output, selectors.EVENT_READ)
            while worker.task is not None:
                selector.select(TICK_SECONDS)
                self._check_time_limit()
                if any(heard == key for heard, _ in worker.ended_tasks()):
                    worker.rest()
                elif worker.process.poll() is not None:
                    self._handle_exit(worker, key)
                elif worker.overdue():
                    worker.kill("timed_out")
                elif self.order:
                    worker.ask_to_stop()

    def _handle_exit(self, worker: Worker, key: str) -> None:
        reason, message = worker.exit_cause(oom_kills())
        # A worker that was asked to stop and had to be killed leaves its task unfinished, for the next run.
        if not self.order or reason == "timed_out":
            publish_failure(self.store, key, reason, message)
        worker.rest()
        worker.end()
        self.worker = None

    def _ready_worker(self) -> Worker:
        if self.worker is not None and self.worker.process.poll() is not None:  # died between tasks
            self.worker.end()
            self.worker = None
        if self.worker is None:
            settings, profile = self.record.settings, self.record.profile
            # The profile's environment overrides what follows from the GPUs.
            environment = {**place(), **settings.environment, **profile.environment}
            settings = replace(settings, environment=environment)
            self.worker = Worker(self.store, settings, self._gpu(), self._program())
        return self.worker

    def _gpu(self) -> str | None:
        """The GPUs that SLURM assigned, as it names them; the first visible one if it names none."""
        return os.environ.get(VISIBLE, "0") if self.record.profile.gpus else None

    def _program(self) -> Sequence[str]:
        """The worker command, with this Python or in the container."""
        profile = self.record.profile
        if profile.container is None:
            return JOB
        inside = ["--bind", str(self.store.path), profile.container, "python", "-P", "-m", "harness.job"]
        return ["apptainer", "exec", *profile.apptainer_options, *inside]

    def _requeue(self) -> None:
        """Requeue this element, up to the profile's number of requeues.

        SLURM ends this process; unfinished tasks resume from their checkpoints.
        """
        times = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        allowed = self.record.profile.requeues
        if times >= allowed:
            self._give_up(f"time limit reached after {times} requeues; the profile allows {allowed}")
            return
        limit = self._until + self.record.profile.signal_seconds
        while (objection := cluster.requeue(os.environ["SLURM_JOB_ID"])) is not None:
            if self.order == "stop":
                return
            if time.monotonic() > limit:
                self._give_up(f"time limit reached, and SLURM does not requeue the job ({objection})")
                return
            time.sleep(TICK_SECONDS)  # the controller may be briefly unavailable

    def _give_up(self, reason: str) -> None:
        """Write a failure for every unfinished task: `timed_out` if it had started, else `killed`."""
        for key in self.pack:
            if self.store.result(key) is None:
                begun = (self.store.folder(key) / "log.txt").exists()
                message = f"{reason}; retrying the sweep resumes it from its checkpoint"
                publish_failure(self.store, key, "timed_out" if begun else "killed", message)


def place() -> dict[str, str]:
    """Environment variables with the worker's job id, as SLURM's commands take it, and its node."""
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
