"""Eight processes enqueue, run, collect and query one store at once, with file locks and without.

    python -m tests.campaigns.chaos.crowd --seed 0 --rounds 6 --real 1

A network file system may have no locks: `flock` then fails with ENOLCK, as simulated here. Forked processes
act in random order; in the `real` rounds eight `privbench` commands do. The rows must equal those of one
process that does everything in order, and every query on the way must see a subset of them.
"""

import errno
import fcntl
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from harness.backends.machine import queue as local
from harness.results.collect import collect
from harness.results.query import query
from harness.store import Store
from tests.campaigns.chaos.campaign import (
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
    send,
    work,
)
from tests.harness.conftest import Lab
from workloads.errors import BenchError

PROCESSES = 8
COUNT = "select (select count(*) from task) as tasks, (select count(distinct key) from task) as keys"
UNLOCKED = """
import errno, fcntl
def flock(handle, operation):
    raise OSError(errno.ENOLCK, "No locks available")
fcntl.flock = flock
"""
"""A `sitecustomize.py` under which no process has file locks."""
COMMANDS = (
    ["run", "SWEEP", "--slots", "2"],
    ["run", "SWEEP", "--slots", "2"],
    ["run", "SWEEP", "--slots", "2"],
    ["enqueue", "SWEEP", "--slots", "2"],
    ["enqueue", "SWEEP", "--slots", "2"],
    ["collect"],
    ["collect"],
    ["query", COUNT],
)
BUSY = ("in use", "Could not set lock", "no database", "no store", "no sweep")
"""Parts of our messages for a command that came too early: retry it."""


@contextmanager
def no_locks() -> Iterator[None]:
    """A file system without locks, for this process and what it forks."""
    with patch.object(fcntl, "flock", side_effect=OSError(errno.ENOLCK, "No locks available")):
        yield


@contextmanager
def locks() -> Iterator[None]:
    """A local disk."""
    yield


def ask(path: Path) -> None:
    """Check that every task has one row, at any time."""
    ((tasks, keys),) = query(path, COUNT).rows
    if tasks != keys:
        raise AssertionError(f"{tasks} rows of {keys} tasks")


def busy(path: Path, seed: int, turns: int) -> int:
    """Act in random order; return how often the database was in use by another process."""
    chance, refused = random.Random(seed), 0
    things: list[Callable[[Path], object]] = [
        lambda path: send(LAB, path),
        lambda path: work(LAB, path),
        collect,
        ask,
    ]
    for _ in range(turns):
        thing = chance.choice(things)
        try:
            thing(path)
        except BenchError as error:
            if not any(word in str(error) for word in BUSY):
                raise
            refused += 1
    return refused


def together(path: Path, seed: int, turns: int) -> int:
    """Run eight forked processes at once; return how often one had to retry."""
    crowd = [Fork(busy, path, seed * PROCESSES + each, turns) for each in range(PROCESSES)]
    return sum(each.result() for each in crowd)


def commands(folder: Path, path: Path, locked: bool) -> Counter[str]:
    """Run eight real commands at once, each retried while another is in the way; return their exit codes."""
    sweep = folder / "crowd.toml"
    sweep.write_text(LAB)
    environment = dict(os.environ)
    if not locked:
        (folder / "site").mkdir(exist_ok=True)
        (folder / "site" / "sitecustomize.py").write_text(UNLOCKED)
        environment["PYTHONPATH"] = f"{folder / 'site'}{os.pathsep}{environment['PYTHONPATH']}"
    lab = Lab(path)
    head = [sys.executable, "-m", "harness.cli"]
    running = []
    try:
        for words in COMMANDS:
            line = [*head, *(str(sweep) if word == "SWEEP" else word for word in words), "--store", str(path)]
            running.append(
                subprocess.Popen(
                    line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
                )
            )
        codes: Counter[str] = Counter()
        for process in running:
            output, _ = process.communicate(timeout=600)
            early = process.returncode == 2 and any(word in output for word in BUSY)
            codes["asked to retry" if early else f"exit {process.returncode}"] += 1
            if process.returncode and not early:
                sys.stdout.write(output)
        lab.wait(lambda: not plan_of(LAB, path).todo)
    finally:
        lab.end_all()
    return codes


def main(words: list[str] | None = None) -> int:
    """Run the campaign."""
    asked = arguments(__doc__, words, rounds=6, turns=6, real=1)
    begin = time.monotonic()
    counts: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    with ground() as folder:
        with patch.object(local, "start_supervisor"):
            expected: Rows = forked(finish, LAB, folder / "serial")
            for number in range(asked.rounds):
                for name, disk in (("locks", locks), ("no locks", no_locks)):
                    path = folder / f"{name}-{number}"
                    Store.open(path, create=True)
                    with disk():
                        counts["asked again"] += together(path, asked.seed + number, asked.turns)
                        found = forked(finish, LAB, path)
                    broken += faults(found, expected)
                    counts[name] += PROCESSES
        for number in range(asked.real):
            for locked in (True, False):
                path = folder / f"real-{number}-{locked}"
                codes = commands(folder, path, locked)
                counts += Counter(
                    {f"real, {'locks' if locked else 'no locks'}: {k}": v for k, v in codes.items()}
                )
                broken["exit"] += codes["exit 1"] + codes["exit 2"]
                broken += faults(forked(collected, path), expected)
    return close("crowd", begin, dict(counts), broken.total())


if __name__ == "__main__":
    raise SystemExit(main())
