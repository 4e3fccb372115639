"""The same tasks in any order, packed in any way: the same bits.

    python -m tests.campaigns.chaos.order --seed 0 --rounds 12

The tasks of the lab's sweep and of a private cell run in random topological orders, in packs of random sizes,
each pack in its own process, some of them concurrently.
"""

import random
import time
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from harness.backends.machine import queue as local
from harness.jobs.loop import Stop, run_task
from harness.spec import Task
from harness.store import Store
from tests.campaigns.chaos.campaign import (
    DIGITS,
    LAB,
    Fork,
    Rows,
    arguments,
    close,
    collected,
    faults,
    finish,
    forked,
    ground,
    plan_of,
    say,
    send,
)

SLOTS = 3
"""Packs at the same time."""


def ordered(tasks: list[Task], chance: random.Random) -> list[Task]:
    """A random topological order of the tasks."""
    left, done, order = list(tasks), set[str](), []
    while left:
        ready = [task for task in left if done.issuperset(task.needs)]
        task = chance.choice(ready)
        left.remove(task)
        done.add(task.key)
        order.append(task)
    return order


def packed(tasks: list[Task], chance: random.Random) -> list[list[str]]:
    """Packs of random sizes, in order."""
    packs: list[list[str]] = []
    for task in tasks:
        if not packs or chance.random() < 0.4:
            packs.append([])
        packs[-1].append(task.key)
    return packs


def run_pack(path: Path, keys: list[str]) -> None:
    """Run one pack in this process."""
    for key in keys:
        run_task(Store.open(path), key, Stop())


def run_shuffled(text: str, path: Path, chance: random.Random) -> Rows:
    """Enqueue a sweep, run it shuffled, trainings before attacks; return its rows."""
    forked(send, text, path)
    order = ordered(list(plan_of(text, path).tasks), chance)
    for kind in ("train", "attack"):
        packs = packed([task for task in order if task.kind == kind], chance)
        for begin in range(0, len(packs), SLOTS):
            together = [Fork(run_pack, path, keys) for keys in packs[begin : begin + SLOTS]]
            for fork in together:
                fork.result()
    rows: Rows = forked(collected, path)
    return rows


def main(words: list[str] | None = None) -> int:
    """Run the campaign."""
    asked = arguments(__doc__, words, rounds=12)
    begin, chance = time.monotonic(), random.Random(asked.seed)
    broken: Counter[str] = Counter()
    with ground() as folder, patch.object(local, "start_supervisor"):
        for name, text in (("lab", LAB), ("digits", DIGITS)):
            expected: Rows = forked(finish, text, folder / name)
            for number in range(asked.rounds):
                wrong = faults(run_shuffled(text, folder / f"{name}-{number}", chance), expected)
                broken += wrong
                if wrong:
                    say(f"{name} {number}: {dict(wrong)}")
    return close("order", begin, {"orders": 2 * asked.rounds, **broken}, broken.total())


if __name__ == "__main__":
    raise SystemExit(main())
