"""The machine itself: submissions are files in the store's queue, a detached supervisor works them off.

    queue/<id>.json     a submission: jobs in order, what each needs, how to run them
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
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar, Literal

from harness.backends.base import Job, Settings, program
from harness.backends.gpus import placed
from harness.spec import Json
from harness.store import Store
from harness.store.files import sealed, unsealed, write_atomic
from workloads.errors import BackendError

FRESH_SECONDS = 60.0
"""A supervisor on another host that told its state within this time is taken to be alive."""

START_SECONDS = 1.0
"""What a new supervisor gets before anybody asks whether it lives."""


class Local:
    """Runs jobs in worker processes of this machine."""

    packs: ClassVar[bool] = False
    name: ClassVar[str] = "local"

    def device(self, settings: Settings) -> Literal["cpu", "cuda"]:
        """A GPU where this machine has some that may be used."""
        return "cuda" if placed(settings).gpus else "cpu"

    def submit(self, jobs: Sequence[Job], store: Store, sweep: str, settings: Settings) -> None:
        """Queue the jobs and make sure that a supervisor works on them."""
        other = supervisor_state(store)
        if other and other["host"] != socket.gethostname() and fresh(other):
            raise BackendError(
                f"the store is being worked on by host {other['host']} (process {other['pid']}); "
                "submit there, or wait until it has ended"
            )
        identity = f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}"
        content = {
            "sweep": sweep,
            "settings": asdict(placed(settings)),
            "jobs": [{"tasks": list(job.tasks), "needs": list(job.needs), "gpu": job.gpu} for job in jobs],
        }
        store.queue.mkdir(exist_ok=True)
        write_atomic(store.queue / f"{identity}.json", sealed(content))
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


def submissions(store: Store, sweep: str | None = None) -> list[Path]:
    """Queue files not yet worked off, oldest first; of one sweep where it is named.

    A damaged one is nobody's: the supervisor takes it away, and asking for the sweep again replaces it.
    """
    files = sorted(store.queue.glob("*.json"))
    if sweep is None:
        return files
    return [file for file in files if (read_submission(file) or {}).get("sweep") == sweep]


def read_submission(file: Path) -> Json | None:
    """The content of a queue file; None where it is damaged or worked off already."""
    try:
        content = unsealed(file.read_bytes())
    except (OSError, ValueError):
        return None
    return content if {"sweep", "settings", "jobs"} <= content.keys() else None


def supervisor_state(store: Store) -> Json | None:
    """What the last supervisor said of itself; it may be dead."""
    try:
        return unsealed((store.path / "supervisor" / "state.json").read_bytes())
    except (OSError, ValueError):
        return None


def fresh(state: Json) -> bool:
    """Whether a supervisor's word is recent; one of the future was told before the clock was set back."""
    return abs(time.time() - float(state["time"])) < FRESH_SECONDS


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
            [*program("harness.backends.local.supervisor"), str(store.path)],
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
