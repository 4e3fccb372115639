"""The control group of this process: its memory, and how often the kernel killed for want of it."""

import contextlib
from pathlib import Path

import psutil

COUNTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))
"""Where version 2 and version 1 of control groups tell, as a container sees its own."""
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def oom_kills() -> int:
    """Processes killed so far, children's too; 0 where that is not told."""
    count = 0
    for file in COUNTS:
        with contextlib.suppress(OSError, ValueError):
            for line in file.read_text().splitlines():
                name, _, value = line.partition(" ")
                count += int(value) if name == "oom_kill" else 0
    return count


def memory_limit() -> str:
    """What the group may use, for people."""
    for file in LIMITS:
        with contextlib.suppress(OSError, ValueError):
            limit = int(file.read_text())
            if limit < psutil.virtual_memory().total:  # version 1 tells no limit as a huge one
                return mebibytes(limit)
    return "all memory of the machine"


def mebibytes(count: float) -> str:
    """A number of bytes for people."""
    return f"{count / 2**20:.0f} MiB"
