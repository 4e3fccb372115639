"""The cost of attacks: scaled from recorded ones, or assumed by kind, models and records."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.spec import Task

ATTACK_BYTES = 2**30
FIXED_SECONDS = 0.15
"""Of every task besides its own work: a heartbeat, garbage collection, synced files."""
SIGNAL_SECONDS = 1e-5
"""Assumed for a (record, model) pair of an attack on stored signals: scores, halves, intervals."""
PAIR_SECONDS = {"label-only": 1e-3, "salem": 1.1e-3, "shokri": 1.4e-3, "strongest": 3e-5, "white-box": 3.7e-3}
"""The same of attacks that train classifiers or query models; measured at 4 models of 718 members."""
SEARCH_SECONDS = 0.01
"""Assumed for one step of a gradient inversion on one picture."""


@dataclass(frozen=True)
class Cost:
    """Cost of one task, and its source."""

    seconds: float
    memory_bytes: int
    source: str


class PastAttack(NamedTuple):
    """The cost of one recorded attack."""

    workload: str
    params: Mapping[str, Any]
    pairs: int
    seconds: float


def attack_pairs(task: Task) -> int:
    """The size of an attack: members of a model times models, which is known without loading data."""
    return task.cell.n_train * max(1, task.models)


def attack_cost(task: Task, past: Sequence[PastAttack]) -> Cost:
    """The cost of an attack from recorded ones of its name, or assumed if there is none.

    Those of the same workload and parameters are preferred; what exceeds the fixed part scales with the
    number of pairs.
    """
    if not past:
        return assumed_attack(task)
    alike = [
        (row.params == dict(task.attack_params)) + 2 * (row.workload == task.cell.workload.name)
        for row in past
    ]
    chosen = [row for row, rank in zip(past, alike, strict=True) if rank == max(alike)]
    pairs = attack_pairs(task)
    seconds = statistics.median(_scaled(row, pairs) for row in chosen)
    return Cost(seconds, ATTACK_BYTES, f"recorded, {len(chosen)} attacks")


def _scaled(row: PastAttack, pairs: int) -> float:
    fixed = min(FIXED_SECONDS, row.seconds)
    return fixed + (row.seconds - fixed) * pairs / max(1, row.pairs)


def assumed_attack(task: Task) -> Cost:
    """The assumed cost of an attack of which none was recorded."""
    params = task.attack_params
    if {"images", "steps"} <= params.keys():  # a gradient inversion searches for every picture
        searched = float(params["images"]) * float(params["steps"])
        return Cost(FIXED_SECONDS + SEARCH_SECONDS * searched, ATTACK_BYTES, "assumed for an inversion")
    each = PAIR_SECONDS.get(task.attack.name if task.attack else "", SIGNAL_SECONDS)
    return Cost(FIXED_SECONDS + each * attack_pairs(task), ATTACK_BYTES, "assumed for an attack")
