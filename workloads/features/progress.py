"""Progress of long computations."""

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called with a name, the amount done and the total."""
PATIENCE = 10.0
"""Seconds between two lines."""


class Lines:
    """Progress as occasional lines, by default in the log, for output without a progress bar."""

    def __init__(self, write: Callable[[str], None] = log.info) -> None:
        self._write = write
        self._began: dict[str, float] = {}
        self._written = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report at the end, or if the last line was long ago; the clock starts when 0 are done."""
        now = time.monotonic()
        began = self._began.setdefault(what, now)
        if done == 0 or (done < total and now - self._written < PATIENCE):
            return
        self._written, taken = now, now - began
        left = taken / done * (total - done)
        self._write(f"{what}: {done:,} of {total:,} in {taken:.0f} s, about {left:.0f} s left")
