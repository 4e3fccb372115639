"""The control group of this process: its memory limit and out-of-memory kills."""

import contextlib
from pathlib import Path

import psutil

COUNTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))
"""Kill counters of control groups version 2 and 1, as seen from inside a container."""
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def oom_kills() -> int:
    """Number of processes killed so far, including children; 0 if unknown."""
    count = 0
    for file in COUNTS:
        with contextlib.suppress(OSError, ValueError):
            for line in file.read_text().splitlines():
                name, _, value = line.partition(" ")
                count += int(value) if name == "oom_kill" else 0
    return count


def memory_limit() -> str:
    """The memory limit of the group, for display."""
    for file in LIMITS:
        with contextlib.suppress(OSError, ValueError):
            limit = int(file.read_text())
            if limit < psutil.virtual_memory().total:  # version 1 reports no limit as a huge one
                return mebibytes(limit)
    return "all memory of the machine"


def mebibytes(count: float) -> str:
    """Format a number of bytes in MiB."""
    return f"{count / 2**20:.0f} MiB"
