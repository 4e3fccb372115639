"""Telling how far something long is."""

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""Called with what is being made, how much of it there is, and how much there will be."""
PATIENCE = 10.0
"""Seconds between two lines."""


class Lines:
    """A line now and then, in the log unless told otherwise, for where nobody watches a bar."""

    def __init__(self, say: Callable[[str], None] = log.info) -> None:
        self._say = say
        self._began: dict[str, float] = {}
        self._told = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say how far it is, at the end or when the last line is long ago; with 0 done its clock begins."""
        now = time.monotonic()
        began = self._began.setdefault(what, now)
        if done == 0 or (done < total and now - self._told < PATIENCE):
            return
        self._told, taken = now, now - began
        left = taken / done * (total - done)
        self._say(f"{what}: {done:,} of {total:,} in {taken:.0f} s, about {left:.0f} s left")
