"""A queue on this machine: submissions are files in the store, a detached supervisor works them off.

    queue/<id>.json     a submission: jobs in order, what each needs, how and by which backend to run them
    queue/<id>.stop     asks to stop it; `.cancel` also writes `cancelled` rows
    supervisor/         state.json (who supervises, what runs) and log.txt

One supervisor per store. It survives the terminal, ends when the queue is empty, and is started
again by whoever submits next; a killed one leaves the queue as it was.
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
from harness.store.files import sealed, unsealed, write_atomic
from workloads.errors import BackendError, BenchError, StoreError

FRESH_SECONDS = 60.0
"""A supervisor on another host that told its state within this time is taken to be alive."""

START_SECONDS = 1.0
"""What a new supervisor gets before anybody asks whether it lives."""


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
    """Whose workers run the jobs."""
    settings: Settings
    jobs: tuple[QueuedJob, ...]

    def write(self, store: Store) -> None:
        """Queue it behind those that are there."""
        store.queue.mkdir(exist_ok=True)
        file = store.queue / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.json"
        write_atomic(file, sealed(self.model_dump(mode="json")))


class SupervisorState(BaseModel):
    """What a supervisor last reported of itself."""

    model_config = ConfigDict(frozen=True)

    pid: int
    host: str
    time: float
    running: tuple[str, ...] = ()
    """The tasks of its workers."""
    waiting: int = 0
    """How many tasks no worker has yet."""

    def write(self, store: Store) -> None:
        """Replace what was reported before."""
        write_atomic(state_file(store), sealed(self.model_dump(mode="json")))

    @property
    def fresh(self) -> bool:
        """Whether it is recent; one of the future was written before the clock was set back."""
        return abs(time.time() - self.time) < FRESH_SECONDS


class Queued(Backend):
    """Runs jobs in worker processes of this machine; what a worker is, its subclass says."""

    def worker(self, store: Store, settings: Settings, gpu: str | None) -> Worker:
        """A new worker process, on this GPU where one is named; called in the supervisor."""
        return Worker(store, settings, gpu)

    def device(self, settings: Settings) -> Literal["cpu", "cuda"]:
        """A GPU where this machine has some that may be used."""
        return "cuda" if placed(settings).gpus else "cpu"

    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> None:
        """Queue the jobs and make sure that a supervisor works on them."""
        other = supervisor_state(store)
        if other and other.host != socket.gethostname() and other.fresh:
            raise BackendError(
                f"the store is being worked on by host {other.host} (process {other.pid}); "
                "submit there, or wait until it has ended"
            )
        queued = tuple(
            QueuedJob(tasks=job.tasks, needs=job.needs, gpu=job.gpu, alone=job.alone) for job in jobs
        )
        Submission(sweep=sweep, backend=self.name, settings=placed(settings), jobs=queued).write(store)
        start_supervisor(store)

    def stop(self, store: Store, sweep: str, cancel: bool) -> None:
        """Ask the supervisor to stop the sweep's submissions; where none lives, it starts to do so."""
        for file in submissions(store, sweep):
            write_atomic(file.with_suffix(".cancel" if cancel else ".stop"), b"")
        if submissions(store, sweep):
            start_supervisor(store)

    def attend(self, store: Store, sweep: str) -> bool:
        """Whether the sweep is queued or a supervisor lives; a killed one is replaced."""
        if supervised(store):
            return True
        if not submissions(store, sweep):
            return False
        start_supervisor(store)
        time.sleep(START_SECONDS)
        return True

    def status(self, store: Store, sweep: str, tasks: Set[str]) -> Standing:
        """Whether a submission of the sweep is left, and whether a supervisor works on it."""
        queued = bool(submissions(store, sweep))
        if supervised(store):
            state = supervisor_state(store)
            return Standing(queued, (f"supervisor runs as process {state.pid if state else '?'}",))
        idle = "work is queued but nobody works on it: `privbench run` or `privbench enqueue` goes on"
        return Standing(queued, ("no supervisor runs", *([idle] if queued else [])))


def submissions(store: Store, sweep: str | None = None) -> list[Path]:
    """Queue files not yet worked off, oldest first; of one sweep where it is named.

    A damaged one is nobody's: the supervisor takes it away, and asking for the sweep again replaces it.
    """
    files = sorted(store.queue.glob("*.json"))
    if sweep is None:
        return files
    read = ((file, read_submission(store, file)) for file in files)
    return [file for file, submission in read if submission is not None and submission.sweep == sweep]


def read_submission(store: Store, file: Path) -> Submission | None:
    """The content of a queue file; None where it is damaged, worked off already or of no backend here."""
    try:
        content = unsealed(file.read_bytes())
        content.setdefault("backend", _backend_before(store, content))
        profile = queued_backend(content["backend"]).Profile
        return Submission.model_validate(content, context={PROFILE: profile})
    except (OSError, ValueError, TypeError, BenchError):
        return None


def queued_backend(name: str) -> Queued:
    """The backend of a submission, which builds on this queue; BackendError where it does not."""
    member = family.get(name)
    if not isinstance(member, Queued):
        raise BackendError(f"the backend {name} has workers of its own and takes nothing from this queue")
    return member


def _backend_before(store: Store, content: dict[str, Any]) -> str:
    """Of a submission older than its `backend`: where its sweep was sent."""
    try:
        return sent_backend(store.sweep(str(content.get("sweep"))))
    except StoreError:
        return DEFAULT


def state_file(store: Store) -> Path:
    """Where a supervisor reports; absent while none runs."""
    return store.path / "supervisor" / "state.json"


def supervisor_state(store: Store) -> SupervisorState | None:
    """What the last supervisor reported of itself; it may be dead."""
    try:
        return SupervisorState.model_validate(unsealed(state_file(store).read_bytes()))
    except (OSError, ValueError):
        return None


def supervisor_summary(store: Store) -> dict[str, Any]:
    """Whether a supervisor runs here, and what it reported last, for programs."""
    state = supervisor_state(store)
    return {"alive": supervised(store), **(state.model_dump(mode="json") if state else {})}


def supervised(store: Store) -> bool:
    """Whether a supervisor of this store lives on this machine."""
    with only_one(store) as alone:
        return not alone


started: list[subprocess.Popen[bytes]] = []
"""Supervisors this process started and that may still live: kept so that the dead are reaped."""


def start_supervisor(store: Store) -> None:
    """Start one that outlives this process; it ends at once if another is there."""
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
    """True for one process per store and machine at a time; released by the kernel however it ends.

    On Linux the lock is an abstract socket name: it lives in the kernel, so it holds on network file
    systems, where flock may not, and leaves nothing behind. Elsewhere it is a lock on a file.
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
