"""Group jobs: stages by dependency, packs by run time, chunks by a cluster's limits."""

import math
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from harness.backends.base import Job
from harness.plan.estimate import START_SECONDS as START_SECONDS

FULL_SECONDS = 600.0
"""Run time beyond which a longer pack saves nothing."""
ROUNDS = 2
"""Minimum packs per slot, so that slots that finish early find more work."""


def stages(jobs: Sequence[Job]) -> list[list[Job]]:
    """Group jobs by depth in the dependency graph."""
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
    """Split jobs, in order, into packs that one process runs.

    Args:
        jobs: The jobs of one stage.
        size: Jobs per pack; auto balances packs by the jobs' run times.
        width: Processes that may run at a time.
        most: Maximum number of packs; they grow to fit it.
    """
    weights = lengths(jobs) if size == "auto" else [1.0] * len(jobs)
    full = good_length(jobs, width) if size == "auto" else float(size)
    if most is not None:
        full = max(full, math.fsum(weights) / most)
    found: list[list[Job]] = [[]]
    weight = 0.0
    for job, more in zip(jobs, weights, strict=True):
        # The tolerance keeps a sum of equal parts that rounds down from taking one part more.
        if weight >= full * (1 - 1e-9) and (most is None or len(found) < most):
            found.append([])
            weight = 0.0
        found[-1].append(job)
        weight += more
    return [pack for pack in found if pack]


def lengths(jobs: Sequence[Job]) -> list[float]:
    """Run time of every job; the median of the known ones if unknown."""
    known = [job.seconds for job in jobs if job.seconds is not None]
    usual = statistics.median(known) if known else 1.0
    return [usual if job.seconds is None else job.seconds for job in jobs]


def good_length(jobs: Sequence[Job], width: int) -> float:
    """Target run time of a pack: amortises start-up and keeps `width` slots busy."""
    share = math.fsum(lengths(jobs)) / (ROUNDS * width)
    if all(job.seconds is None for job in jobs):
        return share
    return min(FULL_SECONDS, max(START_SECONDS, share))


def chunks(count: int, size: int) -> Iterator[slice]:
    """Split `count` items into parts of about equal length, at most `size` each."""
    parts = math.ceil(count / size)
    ends = [round(count * part / parts) for part in range(parts + 1)] if parts else []
    for begin, end in pairwise(ends):
        yield slice(begin, end)
