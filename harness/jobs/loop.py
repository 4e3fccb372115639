"""The loop of a job, the same on every backend: `python -m harness.jobs STORE KEY...`.

With `-` instead of keys it reads keys from standard input, one per line, and replies to each with a line
`KEY STATUS` on standard output, so that a worker imports torch once for many tasks. Its first line is
`ready`. STATUS is done, failed, or interrupted (stopped by SIGTERM: a checkpoint is saved and no result
published). Everything a task prints goes to its `log.txt`.
"""

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Literal

import torch

from harness.jobs.cgroup import memory_limit, oom_kills
from harness.jobs.device import accelerator, prepared
from harness.jobs.failures import failure, loses_device
from harness.jobs.provenance import code_and_data, provenance
from harness.jobs.run import Interrupted
from harness.jobs.scheduler import scheduler_job
from harness.jobs.train import Made, train, watched
from harness.plan.measure import ANY_DEVICE, Measure
from harness.programs.shelf import admit
from harness.spec import Task
from harness.store import Store
from harness.store.files import dump
from harness.store.journal import Heartbeat
from harness.store.locks import RUN_LOCK, run_lock
from harness.store.outcomes import Outcome
from harness.store.result import Artefact, Failure, build, figures_of
from workloads.devices import CPU, best_device, find_device
from workloads.errors import StoreError

Status = Literal["done", "failed", "interrupted"]

HEARTBEAT_SECONDS = 1.0
OUT_OF_MEMORY = "out of memory: the kernel killed a process of the task"
OURS = ("harness", "methods", "workloads")
"""Loggers whose warnings are stored in the result."""


class Stop:
    """Whether this process should stop: after SIGTERM, or because its parent is gone."""

    def __init__(self, bound: bool = False) -> None:
        """Args: whether this process stops when its parent is gone."""
        self.asked = False
        self.device_lost = False
        """Whether no further task may run in this process because its device failed."""
        self.parent = os.getppid() if bound else None

    def __call__(self) -> bool:
        """Whether a stop was requested."""
        return self.asked

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """On SIGTERM: finish the step, save a checkpoint, stop."""
        self.asked = True

    def look_for_parent(self) -> None:
        """Stop an orphan: the next supervisor resumes its task from the checkpoint."""
        if self.parent is not None and os.getppid() != self.parent:
            self.asked = True


def run_task(store: Store, key: str, stop: Stop) -> Status:
    """Run one task and publish its result, after waiting for any running copy of it.

    A failure of the task is a result, not an exception.
    """
    folder = store.folder(key)
    with run_lock(folder, stop) as alone:
        status = _run_alone(store, key, stop) if alone else "interrupted"
    if status == "done":
        (folder / RUN_LOCK).unlink(missing_ok=True)  # a copy that still waits will find the result
    return status


def _run_alone(store: Store, key: str, stop: Stop) -> Status:
    standing = store.result(key)
    if standing is not None and standing.done:
        return "done"
    try:
        task = store.task(key)
    except StoreError as error:
        sys.stderr.write(f"task {key} cannot run because its spec cannot be read: {error}\n")
        return "failed"  # without a result, which needs the spec
    folder = store.folder(key)
    started, clock, kills = datetime.now(UTC), time.monotonic(), oom_kills()
    device: torch.device | None = None
    here = provenance(device)
    ended: Outcome | Failure
    artefacts: dict[str, Artefact] = {}
    with heartbeats(folder, stop), logging_to(folder / "log.txt"), keeping_warnings() as warnings:
        try:
            device, threads = place_of(task)
            with prepared(device, threads):
                here = provenance(device)
                made = perform(store, task, device, stop)
            here |= code_and_data(task, made.data, store)
            dump(figures_of(made.outcome))  # a NaN fails the task, not the worker
            artefacts = {
                name.split(".")[0]: store.write_artefact(key, name, content)
                for name, content in made.artefacts.items()
            }
            ended = made.outcome
        except Interrupted:
            return "interrupted"
        except Exception as error:  # noqa: BLE001 - a failed task is a result
            with contextlib.suppress(OSError):  # the disk may be full
                traceback.print_exc()
            ended, artefacts = failure(error), {}
            stop.device_lost = loses_device(error)
            if oom_kills() > kills:  # of a child process: the task itself saw only that it died
                message = f"{OUT_OF_MEMORY} (limit: {memory_limit()}): {ended.message}"
                ended = ended.model_copy(update={"reason": "out_of_memory", "message": message})
        finally:
            if device is not None and not stop.device_lost:
                free_memory(device)
    result = build(
        task,
        ended,
        started=started,
        wall_seconds=time.monotonic() - clock,
        provenance=here,
        artefacts=artefacts,
        warnings=warnings,
    )
    try:
        store.publish(result)
    except OSError as error:
        sys.stderr.write(f"the result of task {key} cannot be written, so it will be rerun: {error}\n")
        return "failed"
    standing = store.result(key)  # may be that of another copy
    if standing is None or not standing.done:
        return "failed"
    clear(folder / "checkpoint")
    return "done"


def perform(store: Store, task: Task, device: torch.device, stop: Callable[[], bool]) -> Made:
    """Run a task by its kind. Attacks load statistics of scipy, which other kinds can do without."""
    task.refuse_other_protocol()
    admit(store, [task.cell] if task.shadows is None else [task.cell, task.shadows])
    if task.kind == "train":
        return train(task, device, store.folder(task.key), stop)
    if task.kind == "bench":
        from harness.jobs.bench.bench import bench

        return bench(task, device, stop)
    from harness.jobs.attack import attack

    return attack(task, store)


def place_of(task: Task) -> tuple[torch.device, int]:
    """The device of a task and its number of torch threads.

    Attacks run on the CPU. A bench sets its own threads and may name a device; other tasks take the best
    device and the worker's threads.
    """
    threads = torch.get_num_threads()
    if task.kind == "attack":
        return CPU, threads
    if task.timing is None:
        return best_device(), threads
    measure = Measure(**task.timing.settings)
    named = measure.device != ANY_DEVICE
    return find_device(measure.device) if named else best_device(), measure.threads


def free_memory(device: torch.device) -> None:
    """Free a task's memory; tensors of a failed one are in reference cycles with its hooks."""
    gc.collect()
    accelerator(device).empty_cache()


def clear(checkpoint: Path) -> None:
    """Delete the checkpoints of a finished task."""
    for file in checkpoint.glob("*"):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # gone, or another copy of the task has just written to it
        checkpoint.rmdir()


@contextlib.contextmanager
def heartbeats(folder: Path, stop: Stop) -> Iterator[None]:
    """Write a heartbeat once a second while the task runs: its process and progress."""
    file, over = folder / "heartbeat", threading.Event()

    def beat() -> None:
        began = time.time()
        seen, seen_time, seen_done = "", began, 0
        while True:
            stop.look_for_parent()
            phase, done, total = watched[0].position if watched else ("", 0, 0)
            moment = time.time()
            if phase != seen:
                seen, seen_time, seen_done = phase, moment, done
            now = Heartbeat(
                time=moment,
                pid=os.getpid(),
                host=os.uname().nodename,
                job=scheduler_job(),
                phase=phase,
                done=done,
                total=total,
                started=began,
                phase_started=seen_time,
                phase_done=seen_done,
            )
            aside = file.with_name(f".heartbeat-{os.getpid()}")
            with contextlib.suppress(OSError):  # a full disk must not stop a training
                aside.write_text(now.model_dump_json())
                aside.replace(file)
            if over.wait(HEARTBEAT_SECONDS):
                return

    folder.mkdir(parents=True, exist_ok=True)
    watched.clear()
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def logging_to(file: Path) -> Iterator[None]:
    """Redirect all output of this process, C libraries included, to a file."""
    flush()
    kept = os.dup(1), os.dup(2)
    with file.open("ab", buffering=0) as log:
        with contextlib.suppress(OSError):  # a full disk must not stop a training
            log.write(f"--- {datetime.now(UTC).isoformat()} pid {os.getpid()}\n".encode())
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        flush()
        for number, saved in zip((1, 2), kept, strict=True):
            os.dup2(saved, number)
            os.close(saved)


class WarningKeeper(logging.Handler):
    """Keeps each distinct warning once, and prints it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        text = record.getMessage()
        if text not in self.texts:
            self.texts.append(text)
            with contextlib.suppress(OSError):  # a full disk must not stop a training
                sys.stderr.write(f"warning: {text}\n")


@contextlib.contextmanager
def keeping_warnings() -> Iterator[list[str]]:
    """Collect warnings of the task's own code for its result: users do not read every log."""
    keeper, loggers = WarningKeeper(), [logging.getLogger(name) for name in OURS]
    for logger in loggers:
        logger.addHandler(keeper)
    try:
        yield keeper.texts
    finally:
        for logger in loggers:
            logger.removeHandler(keeper)


def flush() -> None:
    """Flush standard output and error; lost if the disk is full."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()


def serve(store: Store, stop: Stop) -> None:
    """Run the keys from standard input until it ends; report each on the original standard output."""
    # A second descriptor keeps the reports apart from what tasks print to standard output.
    # A broken pipe means that the supervisor is gone.
    with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(1), "w", buffering=1) as reports:
        reports.write("ready\n")
        imported = len(sys.modules)
        for line in sys.stdin:
            key = line.strip()
            stop.asked = False
            status = run_task(store, key, stop)
            if len(sys.modules) > imported:  # by the first tasks: what stays need not be visited again
                imported = len(sys.modules)
                gc.freeze()
            if stop.device_lost:
                return  # without a report: the result is published, and the supervisor starts another worker
            reports.write(f"{key} {status}\n")


def main(arguments: list[str]) -> int:
    """Run the tasks; exit code 0 if every one is done, 1 if one failed or was interrupted."""
    store, keys = Store.open(arguments[0]), arguments[1:]
    gc.freeze()  # imports stay: collecting garbage among them would take longer than a small task
    torch.set_num_threads(int(os.environ.get("PRIVBENCH_THREADS", "1")))
    stop = Stop(bound=keys == ["-"])
    signal.signal(signal.SIGTERM, stop.handle)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if keys == ["-"]:
        serve(store, stop)
        return int(stop.device_lost)
    statuses = []
    for key in keys:
        statuses.append(run_task(store, key, stop))
        if stop.device_lost:
            sys.stderr.write(f"the device failed in task {key}: run the remaining tasks in a new process\n")
            break
    return 0 if statuses == ["done"] * len(keys) else 1
