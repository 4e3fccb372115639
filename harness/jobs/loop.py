"""Run the tasks of one job: `python -m harness.jobs STORE KEY...`; it does not know where it runs.

With `-` instead of keys it reads keys from standard input, a line each, and answers every one with
a line `KEY STATUS` on standard output: so a worker is used for many tasks and imports torch once.
Its first line is `ready`.
STATUS is done, failed, or interrupted (asked to stop by SIGTERM; the state is saved and nothing is
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

from harness.jobs.attack import attack
from harness.jobs.bench.bench import bench
from harness.jobs.cgroup import memory_limit, oom_kills
from harness.jobs.device import accelerator, prepared
from harness.jobs.failures import failure, loses_device
from harness.jobs.provenance import provenance
from harness.jobs.run import Interrupted
from harness.jobs.scheduler import scheduler_job
from harness.jobs.train import Made, train, watched
from harness.plan.benches import ANY_DEVICE, Measure
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

BEAT_SECONDS = 1.0
STARVED = "the kernel killed a process of the task for want of memory"
OURS = ("harness", "methods", "workloads")
"""Loggers whose warnings belong into a result."""


class Stop:
    """Whether this process was asked to stop: by SIGTERM, or because the one who started it is gone."""

    def __init__(self, bound: bool = False) -> None:
        """Args: whether this process lives only as long as the one that started it."""
        self.asked = False
        self.spoilt = False
        """Whether its device failed: no further task may run in this process."""
        self.parent = os.getppid() if bound else None

    def __call__(self) -> bool:
        """True once asked."""
        return self.asked

    def handle(self, signum: int, frame: FrameType | None) -> None:
        """SIGTERM: finish the step, save, stop."""
        self.asked = True

    def look_for_parent(self) -> None:
        """An orphan stops too: the next supervisor will run its task again from the checkpoint."""
        if self.parent is not None and os.getppid() != self.parent:
            self.asked = True


def run_task(store: Store, key: str, stop: Stop) -> Status:
    """Run one task and publish its result, after any other copy of it that runs.

    A failure of the task is a result, not an exception.
    """
    folder = store.folder(key)
    with run_lock(folder, stop) as alone:
        status = _run_alone(store, key, stop) if alone else "interrupted"
    if status == "done":
        (folder / RUN_LOCK).unlink(missing_ok=True)  # whoever still waits for it finds the result
    return status


def _run_alone(store: Store, key: str, stop: Stop) -> Status:
    standing = store.result(key)
    if standing is not None and standing.done:
        return "done"
    try:
        task = store.task(key)
    except StoreError as error:
        sys.stderr.write(f"task {key} cannot run, its spec cannot be read: {error}\n")
        return "failed"  # without a row: nobody could say of what
    folder = store.folder(key)
    started, clock, kills = datetime.now(UTC), time.monotonic(), oom_kills()
    device: torch.device | None = None
    here = provenance(device)
    ended: Outcome | Failure
    artefacts: dict[str, Artefact] = {}
    with beating(folder, stop), logging_to(folder / "log.txt"), keeping_warnings() as warnings:
        try:
            device = device_of(task)
            with prepared(device, threads_of(task)):
                here = provenance(device)
                made = perform(store, task, device, stop)
            dump(figures_of(made.outcome))  # a number that JSON does not have fails the task, not the worker
            artefacts = {
                name.split(".")[0]: store.write_artefact(key, name, content)
                for name, content in made.artefacts.items()
            }
            ended = made.outcome
        except Interrupted:
            return "interrupted"
        except Exception as error:  # noqa: BLE001 - a failed task is a row, not a gap
            with contextlib.suppress(OSError):  # a full disk has no room for the log either
                traceback.print_exc()
            ended, artefacts = failure(error), {}
            stop.spoilt = loses_device(error)
            if oom_kills() > kills:  # of a child's: all that the task itself saw is that it was gone
                message = f"{STARVED} (limit: {memory_limit()}): {ended.message}"
                ended = ended.model_copy(update={"reason": "out_of_memory", "message": message})
        finally:
            if device is not None and not stop.spoilt:
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
        sys.stderr.write(f"the result of task {key} cannot be written, it will run again: {error}\n")
        return "failed"
    standing = store.result(key)  # another copy's, where that was first
    if standing is None or not standing.done:
        return "failed"
    clear(folder / "checkpoint")
    return "done"


def perform(store: Store, task: Task, device: torch.device, stop: Callable[[], bool]) -> Made:
    """The work of a task, by its kind."""
    task.refuse_other_protocol()
    if task.kind == "train":
        return train(task, device, store.folder(task.key), stop)
    if task.kind == "bench":
        return bench(task, device, stop)
    return attack(task, store)


def device_of(task: Task) -> torch.device:
    """Where the work is done: attacks are array work on the CPU, a bench may name a device."""
    if task.kind == "attack":
        return CPU
    if task.timing is not None and (named := Measure(**task.timing.settings).device) != ANY_DEVICE:
        return find_device(named)
    return best_device()


def threads_of(task: Task) -> int:
    """Threads of torch: a bench states its own, other tasks take what the worker was started with."""
    return torch.get_num_threads() if task.timing is None else Measure(**task.timing.settings).threads


def free_memory(device: torch.device) -> None:
    """Give back what a task held: a failed one's tensors are in cycles with its hooks."""
    gc.collect()
    accelerator(device).empty_cache()


def clear(checkpoint: Path) -> None:
    """Take the checkpoints of a finished task away."""
    for file in checkpoint.glob("*"):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # gone, or another copy of the task has just written one more
        checkpoint.rmdir()


@contextlib.contextmanager
def beating(folder: Path, stop: Stop) -> Iterator[None]:
    """While the task runs, write a heartbeat once a second: who runs it and how far it is."""
    file, over = folder / "heartbeat", threading.Event()

    def beat() -> None:
        while True:
            stop.look_for_parent()
            phase, done, total = watched[0].position if watched else ("", 0, 0)
            now = Heartbeat(
                time=time.time(),
                pid=os.getpid(),
                host=os.uname().nodename,
                job=scheduler_job(),
                phase=phase,
                done=done,
                total=total,
            )
            aside = file.with_name(f".heartbeat-{os.getpid()}")
            with contextlib.suppress(OSError):  # a full disk must not stop a training
                aside.write_text(now.model_dump_json())
                aside.replace(file)
            if over.wait(BEAT_SECONDS):
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
    """Send everything this process prints, C libraries included, to a file."""
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
    """Keeps each different warning once, and prints it."""

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
    """What the task's own code warns of, for its result: a sweep's user does not read every log."""
    keeper, loggers = WarningKeeper(), [logging.getLogger(name) for name in OURS]
    for logger in loggers:
        logger.addHandler(keeper)
    try:
        yield keeper.texts
    finally:
        for logger in loggers:
            logger.removeHandler(keeper)


def flush() -> None:
    """Write out what was printed so far; what a full disk has no room for is lost."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()


def serve(store: Store, stop: Stop) -> None:
    """Take keys from standard input until it ends; answer each on the original standard output."""
    # A second descriptor keeps the answers apart from what tasks print to standard output.
    # A broken pipe means that the supervisor is gone: there is nobody to answer and nothing more to do.
    with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(1), "w", buffering=1) as answers:
        answers.write("ready\n")
        for line in sys.stdin:
            key = line.strip()
            stop.asked = False
            status = run_task(store, key, stop)
            if stop.spoilt:
                return  # without an answer: the row stands, and whoever finds us gone starts another process
            answers.write(f"{key} {status}\n")


def main(arguments: list[str]) -> int:
    """Exit code 0 if every task is done, 1 if one failed or was interrupted."""
    store, keys = Store.open(arguments[0]), arguments[1:]
    gc.freeze()  # what was imported stays: looking for garbage among it would take longer than a small task
    torch.set_num_threads(int(os.environ.get("PRIVBENCH_THREADS", "1")))
    stop = Stop(bound=keys == ["-"])
    signal.signal(signal.SIGTERM, stop.handle)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if keys == ["-"]:
        serve(store, stop)
        return int(stop.spoilt)
    statuses = []
    for key in keys:
        statuses.append(run_task(store, key, stop))
        if stop.spoilt:
            sys.stderr.write(f"the device failed in task {key}: run what is left in a new process\n")
            break
    return 0 if statuses == ["done"] * len(keys) else 1
