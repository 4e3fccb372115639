"""Disks that are full or read-only, and clocks that jump.

    python -m tests.campaigns.chaos.disk --seed 0 --rounds 12

A sweep runs without enough space: on a small file system if one can be mounted, else under a limit on file
sizes. What does not fit is reported, by a failed row or a BenchError, and with space the same command
completes the sweep. A store on a read-only file system can be inspected and queried. A clock that jumps by
days in both directions changes no row.
"""

import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from harness.backends.machine import queue as local
from harness.backends.status import Progress
from harness.cli.app import UNWRITABLE
from harness.results.collect import collect
from harness.results.query import query
from harness.store import Store
from tests.campaigns.chaos.campaign import (
    LAB,
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
    work,
)
from workloads.errors import BenchError

DAYS = 86400.0
ROOMY = "64m"


def mounted(folder: Path, size: str, *options: str) -> str:
    """Mount a file system of a size, or remount it with other options; return the error, if any."""
    folder.mkdir(exist_ok=True)
    settings = ",".join([f"size={size}", *options])
    command = ["mount", "-t", "tmpfs", "-o", settings, "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "there is no mount command"
    return done.stderr.strip() or (f"mount: exit code {done.returncode}" if done.returncode else "")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[str]:
    """Mount a small file system on a folder; yields the error, or nothing."""
    objection = mounted(folder, size)
    try:
        yield objection
    finally:
        if not objection:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def reported(job: Callable[..., object], *arguments: Any) -> str:
    """How a job ends without space: `fits`, or `reported` with an error of exit code 2."""
    try:
        job(*arguments)
    except BenchError:
        return "reported"
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        return "reported"
    return "fits"


def cramped(path: Path, file_bytes: int | None) -> list[str]:
    """Enqueue, run and collect with too little space; return how each ended, and whether tasks are open."""
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
    ends = [reported(send, LAB, path)]
    if Store(path).exists():
        ends += [reported(work, LAB, path), reported(collect, path)]
    return [*ends, "reported" if plan_of(LAB, path).todo else "fits"]


def fill(folder: Path, chance: random.Random, expected: Rows) -> tuple[str, Counter[str]]:
    """A full disk, then one with space."""
    # From too small for a store to enough for all but the database.
    kilobytes = int(2 ** chance.uniform(4, 9))
    disk = folder / f"disk-{kilobytes}"
    with small_disk(disk, f"{kilobytes}k") as objection:
        ends = forked(cramped, disk / "store", kilobytes * 16 if objection else None)
        if not objection:
            mounted(disk, ROOMY, "remount")
        found = forked(finish, LAB, disk / "store")
        kind = "file size limit" if objection else "full disk"
    return f"{kind}: {'reported' if 'reported' in ends else 'fits'}", faults(found, expected)


def read_only(folder: Path, expected: Rows, commands: bool) -> tuple[str, Counter[str]]:
    """A store on a read-only file system: reading works, writing is reported."""
    disk, wrong = folder / "dump_checked", Counter[str]()
    with small_disk(disk, ROOMY) as objection:
        if objection:
            return f"read-only: skipped, {objection}", wrong
        path = disk / "store"
        forked(finish, LAB, path)
        mounted(disk, ROOMY, "remount", "ro")
        tasks = len(expected["task"])
        wrong["different"] += forked(lambda: Progress.of(Store.open(path), "chaos").done) != tasks
        wrong["different"] += forked(lambda: query(path, "select count(*) from task").rows) != [[tasks]]
        wrong["silent"] += forked(reported, send, LAB, path) != "reported"
        wrong["silent"] += forked(reported, collect, path) != "reported"
        wrong["exit"] += sum(wrong_ends(folder, path) if commands else [])
    return "read-only: looked at", +wrong


def wrong_ends(folder: Path, path: Path) -> Iterator[bool]:
    """The number of commands with a wrong exit code on a read-only store."""
    sweep = folder / "dump_checked.toml"
    sweep.write_text(LAB)
    looks = [["status"], ["query", "select * from frontier"]]
    writes = [["collect"], ["enqueue", str(sweep)]]
    for words in [*looks, *writes]:
        command = [sys.executable, "-m", "harness.cli", *words, "--store", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        good = done.returncode == (0 if words in looks else 2) and "Traceback" not in done.stderr
        if not good:
            say(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
        yield not good


def jumping(seed: int) -> Callable[[], float]:
    """A clock that is set to another day from time to time."""
    chance, real, shift = random.Random(seed), time.time, [0.0]

    def now() -> float:
        if chance.random() < 0.3:
            shift[0] = chance.uniform(-400 * DAYS, 400 * DAYS)
        return real() + shift[0]

    return now


def jump(folder: Path, seed: int, expected: Rows) -> tuple[str, Counter[str]]:
    """Run a sweep while the clock jumps."""

    def all_of_it() -> Rows:
        with patch.object(time, "time", jumping(seed)):
            send(LAB, folder / f"clock-{seed}")
            work(LAB, folder / f"clock-{seed}")
            return collected(folder / f"clock-{seed}")

    return "clock: jumped", faults(forked(all_of_it), expected)


def main(words: list[str] | None = None) -> int:
    """Run the campaign."""
    asked = arguments(__doc__, words, rounds=12, commands=1)
    begin, chance = time.monotonic(), random.Random(asked.seed)
    counts: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    with ground() as folder, patch.object(local, "start_supervisor"):
        expected: Rows = forked(finish, LAB, folder / "peace")
        outcomes = [read_only(folder, expected, asked.commands > 0)]
        for number in range(asked.rounds):
            outcomes += [fill(folder, chance, expected), jump(folder, asked.seed + number, expected)]
        for name, wrong in outcomes:
            counts[name] += 1
            broken += wrong
            if wrong:
                say(f"{name}: {dict(wrong)}")
    return close("disk", begin, dict(counts), broken.total())


if __name__ == "__main__":
    raise SystemExit(main())
