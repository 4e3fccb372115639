"""The queue of this machine: submissions are files in the store, run by a detached supervisor.

    queue/<id>.json     a submission: ordered jobs, their dependencies, backend and settings
    queue/<id>.stop     request to stop it; `.cancel` also writes `cancelled` rows
    supervisor/         state.json (process, running tasks) and log.txt

One supervisor per store. It outlives the terminal, ends when the queue is empty, and is restarted by the next
submission; a killed one leaves the queue as it was.
"""

import contextlib
import fcntl
import hashlib
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from harness.backends import DEFAULT, family
from harness.backends.base import PROFILE, Backend, Job, Settings, Standing, program
from harness.backends.gpus import placed
from harness.backends.machine.workers import Worker
from harness.backends.sent import sent_backend
from harness.store import Store
from harness.store.files import dump_checked, parse_checked, write_atomic
from workloads.errors import BackendError, BenchError, StoreError

FRESH_SECONDS = 60.0
"""A supervisor on another host whose state is younger than this counts as alive."""

START_SECONDS = 1.0
"""Grace period of a new supervisor before it is checked."""


class QueuedJob(BaseModel):
    """A job of a submission."""

    model_config = ConfigDict(frozen=True)

    tasks: tuple[str, ...]
    needs: tuple[str, ...] = ()
    gpu: bool = True
    alone: bool = False


class Submission(BaseModel):
    """A queue file: the jobs of a sweep, and how they are run."""

    model_config = ConfigDict(frozen=True)

    sweep: str
    backend: str
    """The backend whose workers run the jobs."""
    settings: Settings
    jobs: tuple[QueuedJob, ...]

    def write(self, store: Store) -> None:
        """Append it to the queue."""
        store.queue.mkdir(exist_ok=True)
        file = store.queue / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
        write_atomic(file, dump_checked(self.model_dump(mode="json")))


class SupervisorState(BaseModel):
    """The last reported state of a supervisor."""

    model_config = ConfigDict(frozen=True)

    pid: int
    host: str
    time: float
    running: tuple[str, ...] = ()
    """The tasks of its workers."""
    waiting: int = 0
    """Number of tasks that are not yet running."""

    def write(self, store: Store) -> None:
        """Replace the stored state."""
        write_atomic(state_file(store), dump_checked(self.model_dump(mode="json")))

    @property
    def fresh(self) -> bool:
        """Whether it is recent; one in the future was written before the clock was set back."""
        return abs(time.time() - self.time) < FRESH_SECONDS


class Queued(Backend):
    """Runs jobs in worker processes of this machine; subclasses define the worker."""

    def worker(self, store: Store, settings: Settings, gpu: str | None) -> Worker:
        """Start a worker process, on this GPU if given; called in the supervisor."""
        return Worker(store, settings, gpu)

    def device(self, settings: Settings) -> Literal["cpu", "cuda"]:
        """`cuda` if this machine has usable GPUs."""
        return "cuda" if placed(settings).gpus else "cpu"

    def width(self, settings: Settings) -> int | None:
        """The slots that were asked for; None if none were: to look for GPUs would start a process."""
        return settings.slots or len(settings.gpus or ()) or None

    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> None:
        """Queue the jobs and make sure that a supervisor runs."""
        other = supervisor_state(store)
        if other and other.host != socket.gethostname() and other.fresh:
            raise BackendError(
                f"a supervisor on host {other.host} (process {other.pid}) uses this store: "
                "submit there, or wait until it has ended"
            )
        queued = tuple(
            QueuedJob(tasks=job.tasks, needs=job.needs, gpu=job.gpu, alone=job.alone) for job in jobs
        )
        Submission(sweep=sweep, backend=self.name, settings=placed(settings), jobs=queued).write(store)
        start_supervisor(store)

    def stop(self, store: Store, sweep: str, cancel: bool) -> None:
        """Ask the supervisor, started if needed, to stop the sweep's submissions."""
        for file in submissions(store, sweep):
            write_atomic(file.with_suffix(".cancel" if cancel else ".stop"), b"")
        if submissions(store, sweep):
            start_supervisor(store)

    def attend(self, store: Store, sweep: str) -> bool:
        """Whether the sweep is queued or a supervisor runs; a killed one is restarted."""
        if supervised(store):
            return True
        if not submissions(store, sweep):
            return False
        start_supervisor(store)
        time.sleep(START_SECONDS)
        return True

    def status(self, store: Store, sweep: str, tasks: Set[str]) -> Standing:
        """Whether submissions of the sweep are left, and whether a supervisor runs."""
        queued = bool(submissions(store, sweep))
        if supervised(store):
            state = supervisor_state(store)
            return Standing(queued, (f"supervisor runs as process {state.pid if state else '?'}",))
        idle = "tasks are queued but no supervisor runs: `privbench run` or `privbench enqueue` resumes them"
        return Standing(queued, ("no supervisor runs", *([idle] if queued else [])))


def submissions(store: Store, sweep: str | None = None) -> list[Path]:
    """Queue files, oldest first; of one sweep if named.

    A damaged one belongs to no sweep: the supervisor removes it, and enqueueing the sweep again replaces it.
    """
    files = sorted(store.queue.glob("*.json"))
    if sweep is None:
        return files
    read = ((file, read_submission(store, file)) for file in files)
    return [file for file, submission in read if submission is not None and submission.sweep == sweep]


def read_submission(store: Store, file: Path) -> Submission | None:
    """Parse a queue file; None if it is damaged, gone, or its backend is not installed."""
    try:
        content = parse_checked(file.read_bytes())
        content.setdefault("backend", _backend_before(store, content))
        profile = queued_backend(content["backend"]).Profile
        return Submission.model_validate(content, context={PROFILE: profile})
    except (OSError, ValueError, TypeError, BenchError):
        return None


def queued_backend(name: str) -> Queued:
    """The backend of a submission; BackendError if it does not use this queue."""
    member = family.get(name)
    if not isinstance(member, Queued):
        raise BackendError(f"the backend {name} does not use this queue")
    return member


def _backend_before(store: Store, content: dict[str, Any]) -> str:
    """The backend of an old submission without one, from the record of its sweep."""
    try:
        return sent_backend(store.sweep(str(content.get("sweep"))))
    except StoreError:
        return DEFAULT


def state_file(store: Store) -> Path:
    """The state file of the supervisor; absent while none runs."""
    return store.path / "supervisor" / "state.json"


def supervisor_state(store: Store) -> SupervisorState | None:
    """The state of the last supervisor, which may be gone."""
    try:
        return SupervisorState.model_validate(parse_checked(state_file(store).read_bytes()))
    except (OSError, ValueError):
        return None


def supervisor_summary(store: Store) -> dict[str, Any]:
    """Whether a supervisor runs here, and its last state, for JSON."""
    state = supervisor_state(store)
    return {"alive": supervised(store), **(state.model_dump(mode="json") if state else {})}


def supervised(store: Store) -> bool:
    """Whether a supervisor of this store runs on this machine."""
    with only_one(store) as alone:
        return not alone


started: list[subprocess.Popen[bytes]] = []
"""Supervisors started by this process, kept so that ended ones are reaped."""


def start_supervisor(store: Store) -> None:
    """Start a supervisor that outlives this process; it exits at once if another runs."""
    folder = store.path / "supervisor"
    folder.mkdir(exist_ok=True)
    started[:] = [each for each in started if each.poll() is None]
    with (folder / "log.txt").open("ab") as log:
        supervisor = subprocess.Popen(
            [*program("harness.backends.machine.supervisor"), str(store.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    started.append(supervisor)


@contextlib.contextmanager
def only_one(store: Store) -> Iterator[bool]:
    """Lock the store for one supervisor per machine; released by the kernel when the holder dies.

    On Linux the lock is an abstract socket name, which also works on network file systems, where flock may
    not, and leaves no file. Elsewhere it is a file lock.
    """
    if sys.platform == "linux":
        where = store.path.stat()
        text = f"{os.getuid()}/{where.st_dev}/{where.st_ino}"
        name = "\0privbench-" + hashlib.sha256(text.encode()).hexdigest()[:32]
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
            try:
                lock.bind(name)
            except OSError:
                yield False
                return
            yield True
        return
    with (store.path / "supervisor.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
