"""Alone in running a task, or in changing its result: locks that any death lets go."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

CLAIM = ".claim"
"""The file that the one who runs a task holds a lock on."""
CLAIM_SECONDS = 0.2
"""Between two looks of a copy of a task that waits for another."""


@contextlib.contextmanager
def claimed(folder: Path, stop: Callable[[], bool]) -> Iterator[bool]:
    """True once alone in running a task; False where asked to stop while another copy ran.

    A requeued task may find its first copy alive, on a node that the scheduler has lost. Where the file
    system has no locks both run, and whichever publishes first wins.
    """
    alone = True
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a full disk, or a file system without locks
            file = stack.enter_context((folder / CLAIM).open("ab"))
            while not (alone := _locks(file.fileno())) and not stop():
                time.sleep(CLAIM_SECONDS)
        yield alone


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone among the processes of this machine while changing a task's result; let go by any death."""
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
