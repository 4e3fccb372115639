"""How long a sweep takes on a cluster of N slots, simulated from what its tasks are likely to take.

The same stages and packs that would be submitted to a cluster go, in their order, to whichever slot is
free first. Queues, other users and failures are left out: what comes out is the best a cluster gives.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.backends.base import Job
from harness.backends.packing import START_SECONDS, lengths, packs, stages


@dataclass(frozen=True)
class Schedule:
    """What a simulation found."""

    slots: int
    jobs: int
    """Packs of tasks: processes that were started."""
    work_seconds: float
    """Of the tasks alone, on one slot."""
    makespan_seconds: float
    """From the first start to the last end."""
    critical_path_seconds: float
    """The longest chain of tasks that need each other: no number of slots is faster."""
    idle_share: float
    """Of the slots' time until the end, what is neither work nor start-up."""


def simulate(jobs: Sequence[Job], slots: int, start_seconds: float = START_SECONDS) -> Schedule:
    """Schedule jobs on slots; a job of unknown length is taken to be as long as the others."""
    jobs = [replace(job, seconds=each) for job, each in zip(jobs, lengths(jobs), strict=True)]
    now, count = 0.0, 0
    for stage in stages(jobs):
        free = [now] * slots  # a stage waits for the whole stage before, as its array does
        found = packs(stage, "auto", slots, None)
        for pack in found:
            begin = heapq.heappop(free)
            heapq.heappush(free, begin + start_seconds + math.fsum(lengths(pack)))
        now, count = max(free), count + len(found)
    work = math.fsum(lengths(jobs))
    busy = work + count * start_seconds
    idle = 1 - busy / (slots * now) if now else 0.0
    return Schedule(slots, count, work, now, critical_path(jobs, start_seconds), idle)


def critical_path(jobs: Sequence[Job], start_seconds: float = START_SECONDS) -> float:
    """Seconds of the longest chain of jobs, each started anew."""
    ends: dict[str, float] = {}
    length = {job.tasks: each for job, each in zip(jobs, lengths(jobs), strict=True)}
    for stage in stages(jobs):
        for job in stage:
            begin = max((ends.get(need, 0.0) for need in job.needs), default=0.0)
            ends |= dict.fromkeys(job.tasks, begin + start_seconds + length[job.tasks])
    return max(ends.values(), default=0.0)
