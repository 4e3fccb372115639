"""Locks on a task, to run it or to change its result; released when the holder dies."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

RUN_LOCK = ".claim"
"""The lock file of the process that runs a task."""
RUN_LOCK_POLL_SECONDS = 0.2
"""How often a second copy of a task retries the lock."""


@contextlib.contextmanager
def run_lock(folder: Path, stop: Callable[[], bool]) -> Iterator[bool]:
    """Hold the lock on running a task; yield False if asked to stop while another copy held it.

    A requeued task may find its first copy alive on a node that the scheduler has lost. On a file system
    without locks both run, and the first to publish wins.
    """
    alone = True
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a full disk, or a file system without locks
            file = stack.enter_context((folder / RUN_LOCK).open("ab"))
            while not (alone := _locks(file.fileno())) and not stop():
                time.sleep(RUN_LOCK_POLL_SECONDS)
        yield alone


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a folder among the processes of this machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks; the callers are safe without
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _locks(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
