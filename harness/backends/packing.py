"""From jobs to packs: stages by what needs what, packs by time, chunks by a cluster's limits."""

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from harness.backends.base import Job

START_SECONDS = 10.0
"""What starting a process costs at most (importing torch); a pack should work at least as long."""
FULL_SECONDS = 600.0
"""Work after which a pack gains nothing more from being longer."""
ROUNDS = 2
"""Packs per slot at least, so that slots that are done early find more."""


def stages(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs by depth: those that need none of the others, then those that need only such, and so on."""
    makes = {key: number for number, job in enumerate(jobs) for key in job.tasks}
    depths: dict[int, int] = {}

    def depth(number: int) -> int:
        if number not in depths:
            upstream = {makes[need] for need in jobs[number].needs if need in makes} - {number}
            depths[number] = 1 + max(map(depth, upstream), default=-1)
        return depths[number]

    found: list[list[Job]] = [[] for _ in range(max(map(depth, range(len(jobs))), default=-1) + 1)]
    for number, job in enumerate(jobs):
        found[depths[number]].append(job)
    return found


def packs(jobs: Sequence[Job], size: int | Literal["auto"], width: int, most: int | None) -> list[list[Job]]:
    """Cut jobs, in their order, into what one process does.

    Args:
        jobs: What is to be done.
        size: Jobs of a pack; auto makes packs of a good length by the jobs' times.
        width: Processes that may run at a time.
        most: Packs at most; they grow until that holds.
    """
    weights = lengths(jobs) if size == "auto" else [1.0] * len(jobs)
    full = good_length(jobs, width) if size == "auto" else float(size)
    if most is not None:
        full = max(full, math.fsum(weights) / most)
    found: list[list[Job]] = [[]]
    weight = 0.0
    for job, more in zip(jobs, weights, strict=True):
        # The tolerance keeps a sum of equal parts, which may round down, from needing one part more.
        if weight >= full * (1 - 1e-9) and (most is None or len(found) < most):
            found.append([])
            weight = 0.0
        found[-1].append(job)
        weight += more
    return [pack for pack in found if pack]


def lengths(jobs: Sequence[Job]) -> list[float]:
    """Seconds of every job; one of unknown length is taken to be as long as the others."""
    known = [job.seconds for job in jobs if job.seconds is not None]
    usual = statistics.median(known) if known else 1.0
    return [usual if job.seconds is None else job.seconds for job in jobs]


def good_length(jobs: Sequence[Job], width: int) -> float:
    """How much work makes a good pack for `width` slots: start-up is paid once, and no slot waits long."""
    share = math.fsum(lengths(jobs)) / (ROUNDS * width)
    if all(job.seconds is None for job in jobs):
        return share
    return min(FULL_SECONDS, max(START_SECONDS, share))


def chunks(count: int, size: int) -> Iterator[slice]:
    """Cut `count` things into parts of `size` at most, all about as long."""
    parts = math.ceil(count / size)
    ends = [round(count * part / parts) for part in range(parts + 1)] if parts else []
    for begin, end in pairwise(ends):
        yield slice(begin, end)
