"""The detached process that runs a store's queue: `python -m harness.backends.machine.supervisor STORE`.

It starts one worker (`python -m harness.jobs STORE -`, or the backend's wrapper of it) per slot, gives each
one task at a time, and replaces a worker that dies. It never loads torch: a crash in a training cannot
crash it.
"""

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from harness.backends.base import Settings, publish_failure
from harness.backends.machine.queue import (
    Submission,
    SupervisorState,
    only_one,
    queued_backend,
    read_submission,
    state_file,
    submissions,
)
from harness.backends.machine.workers import Worker, slots
from harness.jobs.cgroup import oom_kills
from harness.store import Store

TICK_SECONDS = 0.2
LINGER_SECONDS = 5.0
"""How long an idle supervisor keeps its workers, which saves the next sweep the import of torch."""
STATE_SECONDS = 2.0
TRIES = 3
"""How often a new supervisor tries the lock before it concludes that another runs."""


@dataclass
class Unfinished:
    """The unfinished part of a submission."""

    file: Path
    backend: str
    settings: Settings
    waiting: dict[str, tuple[str, ...]]
    """Dependencies by task, in order."""
    on_cpu: frozenset[str]
    """Tasks that never use a GPU."""
    alone: frozenset[str] = frozenset()
    """Tasks that run only when nothing else does."""
    running: set[str] = field(default_factory=set)

    def on_gpu(self, key: str) -> bool:
        """Whether a task gets a GPU."""
        return bool(self.settings.gpus) and key not in self.on_cpu


class Supervisor:
    """Runs the queue of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.submissions: dict[str, Unfinished] = {}
        self.workers: list[Worker] = []
        self.selector = selectors.DefaultSelector()
        self.done: set[str] = set()
        self.ending = False
        self.state_written = 0.0

    def run(self) -> None:
        """Run until the queue has been empty for a while, or SIGTERM."""
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        idle_since = time.monotonic()
        try:
            while not self.ending:
                self._read_queue()
                self._dispatch()
                self._listen()
                self._watch_workers()
                self._finish_submissions()
                self._write_state()
                if self.submissions:
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since > LINGER_SECONDS:
                    break
        finally:
            for worker in self.workers:
                worker.let_go()  # all at once, then wait for each
            for worker in self.workers:
                worker.end()
            state_file(self.store).unlink(missing_ok=True)

    def _end(self, signum: int, frame: object) -> None:
        self.ending = True

    # -- the queue -----------------------------------------------------------------------------

    def _read_queue(self) -> None:
        for file in submissions(self.store):
            if file.stem in self.submissions:
                continue
            content = read_submission(self.store, file)
            if content is not None:
                self.submissions[file.stem] = self._read(file, content)
            elif file.exists():
                sys.stderr.write(f"{file} is damaged and was removed: enqueue its sweep again\n")
                file.unlink(missing_ok=True)
        for name, submission in list(self.submissions.items()):
            for ending in (".cancel", ".stop"):
                order = submission.file.with_suffix(ending)
                if order.exists():
                    self._stop(name, submission, cancel=ending == ".cancel")
                    order.unlink(missing_ok=True)

    def _read(self, file: Path, content: Submission) -> Unfinished:
        """The unfinished part of a submission: an earlier supervisor may have run some of its tasks."""
        every = {key: job.needs for job in content.jobs for key in job.tasks}
        waiting = {key: needs for key, needs in every.items() if self.store.result(key) is None}
        self.done -= waiting.keys()  # was done, but its result has been damaged or deleted
        on_cpu = frozenset(key for job in content.jobs if not job.gpu for key in job.tasks)
        alone = frozenset(key for job in content.jobs if job.alone for key in job.tasks)
        return Unfinished(file, content.backend, content.settings, waiting, on_cpu, alone)

    def _stop(self, name: str, submission: Unfinished, cancel: bool) -> None:
        """Drop waiting tasks; ask running ones that no other submission needs to save and stop."""
        elsewhere = {
            key
            for other, each in self.submissions.items()
            if other != name
            for key in [*each.waiting, *each.running]
        }
        dropped = [key for key in submission.waiting if key not in elsewhere]
        submission.waiting.clear()
        for worker in self.workers:
            if worker.task in submission.running and worker.task not in elsewhere:
                worker.stopping, worker.cancelled = True, cancel
                worker.ask_to_stop()
        if cancel:
            for key in dropped:
                publish_failure(self.store, key, "cancelled", "cancelled before it ran")

    def _finish_submissions(self) -> None:
        for name, submission in list(self.submissions.items()):
            if not submission.waiting and not submission.running:
                submission.file.unlink(missing_ok=True)
                del self.submissions[name]

    # -- work ----------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        if any(submission.alone & submission.running for submission in self.submissions.values()):
            return
        full: set[bool] = (
            set()
        )  # kinds of workers (with a GPU or not) without a free slot: first come, first served
        for submission in list(self.submissions.values()):
            full.discard(True)  # it may have other cards
            for key in self._ready(submission):
                on_gpu = submission.on_gpu(key)
                if on_gpu in full or self._runs(key) or (key in submission.alone and self._anything_runs()):
                    continue
                worker = self._free_worker(submission, on_gpu)
                if worker is None:
                    full.add(on_gpu)
                    continue
                del submission.waiting[key]
                submission.running.add(key)
                worker.give(key, submission.settings.timeout_seconds)
                if key in submission.alone:
                    return

    def _anything_runs(self) -> bool:
        return any(worker.task is not None for worker in self.workers)

    def _runs(self, key: str) -> bool:
        return any(worker.task == key for worker in self.workers)

    def _busy(self, settings: Settings, on_gpu: bool) -> int:
        """Number of busy workers on one of these GPUs, or on none."""
        kind = {*(settings.gpus or ())} if on_gpu else {None}
        return sum(worker.task is not None and worker.gpu in kind for worker in self.workers)

    def _ready(self, submission: Unfinished) -> list[str]:
        """Tasks that can start now. A task that needs a failed one fails; a done one is dropped."""
        ready: list[str] = []
        found = dict.fromkeys((False, bool(submission.settings.gpus)), 0)  # by whether they get a GPU
        for key, needs in list(submission.waiting.items()):
            if key in self.done:
                del submission.waiting[key]
                continue
            states = [self._state(need, submission) for need in needs]
            if "failed" in states:
                lost = [need[:12] for need, each in zip(needs, states, strict=True) if each == "failed"]
                del submission.waiting[key]
                publish_failure(
                    self.store, key, "upstream", f"{len(lost)} tasks it needs have failed: {', '.join(lost)}"
                )
            elif all(each == "done" for each in states):
                ready.append(key)
                found[submission.on_gpu(key)] += 1
            if min(found.values()) > len(self.workers) + 64:
                break  # enough for every slot; scanning all of a long queue would be slow
        return ready

    def _state(self, key: str, submission: Unfinished) -> str:
        if key in self.done:
            return "done"
        if key in submission.waiting or key in submission.running or self._runs(key):
            return "open"
        result = self.store.result(key)
        if result is not None and result.done:
            self.done.add(key)
            return "done"
        return "failed"

    def _free_worker(self, submission: Unfinished, on_gpu: bool) -> Worker | None:
        """An idle worker with these settings, or a new one if a slot, and a GPU if needed, is free."""
        settings = submission.settings
        if self._busy(settings, on_gpu) >= slots(settings, on_gpu):
            return None
        for worker in list(self.workers):
            if worker.task is None and (worker.backend, worker.settings) != (submission.backend, settings):
                self._remove(worker)
            elif worker.task is None and worker.on_gpu is on_gpu:
                return worker
        gpu = self._least_loaded(settings) if on_gpu else None
        if on_gpu and gpu is None:
            return None
        worker = queued_backend(submission.backend).worker(self.store, settings, gpu)
        worker.backend = submission.backend
        self.workers.append(worker)
        self.selector.register(worker.output, selectors.EVENT_READ, worker)
        return worker

    def _least_loaded(self, settings: Settings) -> str | None:
        """The GPU with the fewest workers; None if all are full."""
        allowed = Counter(settings.gpus)
        load = Counter(worker.gpu for worker in self.workers)
        free = [each for each in allowed if load[each] < allowed[each]]
        return min(free, key=load.__getitem__, default=None)

    def _listen(self) -> None:
        if not self.workers:
            time.sleep(TICK_SECONDS)
            return
        for event, _ in self.selector.select(TICK_SECONDS):
            worker: Worker = event.data
            for key, status in worker.ended_tasks():
                self._ended(worker, key, status)

    def _ended(self, worker: Worker, key: str, status: str) -> None:
        if status == "done":
            self.done.add(key)
        if status == "interrupted" and worker.cancelled:
            publish_failure(self.store, key, "cancelled", "cancelled while it ran; its checkpoint is kept")
        elif status == "interrupted" and not worker.stopping:
            publish_failure(
                self.store,
                key,
                "killed",
                "the worker received SIGTERM; running the sweep again resumes it",
            )
        worker.rest()
        for submission in self.submissions.values():
            submission.running.discard(key)
            if status != "interrupted":
                submission.waiting.pop(key, None)

    def _watch_workers(self) -> None:
        for worker in list(self.workers):
            if worker.overdue():
                worker.kill("timed_out")
            elif worker.stopping:
                worker.ask_to_stop()
            if worker.process.poll() is not None:
                self._handle_exit(worker)
            elif worker.spent and worker.task is None:
                self._remove(worker)

    def _handle_exit(self, worker: Worker) -> None:
        """Fail the task of a worker that died, with the reason; the next dispatch starts another worker."""
        for key, status in worker.ended_tasks():
            self._ended(worker, key, status)
        left = worker.task
        if left is not None:
            reason, message = worker.exit_cause(oom_kills())
            if not worker.stopping or worker.cancelled or reason == "timed_out":
                publish_failure(self.store, left, "cancelled" if worker.cancelled else reason, message)
            self._ended(worker, left, "interrupted" if worker.stopping else "failed")
        self._remove(worker)

    def _remove(self, worker: Worker) -> None:
        self.selector.unregister(worker.output)
        self.workers.remove(worker)
        worker.end()

    # -- state ---------------------------------------------------------------------------------

    def _write_state(self) -> None:
        if time.monotonic() - self.state_written < STATE_SECONDS:
            return
        self.state_written = time.monotonic()
        state = SupervisorState(
            pid=os.getpid(),
            host=socket.gethostname(),
            time=time.time(),
            running=tuple(worker.task for worker in self.workers if worker.task),
            waiting=sum(len(each.waiting) for each in self.submissions.values()),
        )
        with contextlib.suppress(OSError):
            state.write(self.store)


def main(arguments: list[str]) -> int:
    """Supervise until the queue is empty; return at once if another supervisor runs."""
    store = Store.open(arguments[0])
    refused = 0
    while refused < TRIES:
        with only_one(store) as alone:
            if alone:
                supervisor = Supervisor(store)
                supervisor.run()
        if not alone:
            # Another supervisor, or a process that holds the lock to check for one.
            refused += 1
            time.sleep(TICK_SECONDS)
        # A submission after our last look found us alive and started no other supervisor.
        elif supervisor.ending or not submissions(store):
            break
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
