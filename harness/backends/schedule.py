"""Simulate the makespan of a sweep on a cluster of N slots from the expected run times of its tasks.

The stages and packs that would be submitted go, in order, to the first free slot. Queueing, other users and
failures are ignored, so the makespan is a best case.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.backends.base import Job
from harness.backends.packing import START_SECONDS, lengths, packs, stages


@dataclass(frozen=True)
class Schedule:
    """The result of a simulation."""

    slots: int
    jobs: int
    """Packs of tasks: processes started."""
    work_seconds: float
    """Of the tasks alone, on one slot."""
    makespan_seconds: float
    """From the first start to the last end."""
    critical_path_seconds: float
    """Length of the longest dependency chain: the makespan with unlimited slots."""
    idle_share: float
    """Share of the slots' time that is neither work nor start-up."""


class LocalSpan(NamedTuple):
    """The run time of a sweep on this machine."""

    slots: int
    seconds: float


def simulate(jobs: Sequence[Job], slots: int, start_seconds: float = START_SECONDS) -> Schedule:
    """Schedule jobs on slots; unknown run times are taken as the median of the known ones."""
    jobs = [replace(job, seconds=each) for job, each in zip(jobs, lengths(jobs), strict=True)]
    now, count = 0.0, 0
    for stage in stages(jobs):
        free = [now] * slots  # a stage waits for the whole previous stage, as its array does
        found = packs(stage, "auto", slots, None)
        for pack in found:
            begin = heapq.heappop(free)
            heapq.heappush(free, begin + start_seconds + math.fsum(lengths(pack)))
        now, count = max(free), count + len(found)
    work = math.fsum(lengths(jobs))
    busy = work + count * start_seconds
    idle = 1 - busy / (slots * now) if now else 0.0
    return Schedule(slots, count, work, now, critical_path(jobs, start_seconds), idle)


def makespan(jobs: Sequence[Job], slots: int, start_seconds: float = START_SECONDS) -> float:
    """Run time of jobs on this machine: each slot starts once, and a free one takes the first job whose
    inputs exist, as the supervisor does (harness/backends/machine/supervisor.py)."""
    makes = {key: number for number, job in enumerate(jobs) for key in job.tasks}
    needs = [{makes[need] for need in job.needs if need in makes} - {n} for n, job in enumerate(jobs)]
    users: dict[int, list[int]] = defaultdict(list)
    for number, upstream in enumerate(needs):
        for each in upstream:
            users[each].append(number)
    length, left = lengths(jobs), [len(each) for each in needs]
    ready = [number for number, count in enumerate(left) if not count]
    running: list[tuple[float, int]] = []
    now = start_seconds if jobs else 0.0
    while ready or running:
        while ready and len(running) < slots:
            number = heapq.heappop(ready)
            heapq.heappush(running, (now + length[number], number))
        now, ended = heapq.heappop(running)
        for user in users[ended]:
            left[user] -= 1
            if not left[user]:
                heapq.heappush(ready, user)
    return now


def critical_path(jobs: Sequence[Job], start_seconds: float = START_SECONDS) -> float:
    """Run time of the longest chain of jobs, each with its own start-up."""
    ends: dict[str, float] = {}
    length = {job.tasks: each for job, each in zip(jobs, lengths(jobs), strict=True)}
    for stage in stages(jobs):
        for job in stage:
            begin = max((ends.get(need, 0.0) for need in job.needs), default=0.0)
            ends |= dict.fromkeys(job.tasks, begin + start_seconds + length[job.tasks])
    return max(ends.values(), default=0.0)
