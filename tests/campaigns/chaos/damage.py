"""Files of every kind in a store, truncated or with a bit flipped, at random places.

    python -m tests.campaigns.chaos.damage --seed 0 --harms 12

Each damage is done to a copy of a store whose sweep is half done, and to one whose sweep is done. Then the
store is used: status, collection, a rebuilt database, the sweep enqueued again. Either the rows equal those
of an undisturbed run, or an error or a failed row names the file and what to do; after deleting the file as
instructed, a rerun gives the undisturbed rows. Never a traceback, never a silently different number.
"""

import functools
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from harness.backends import status
from harness.backends.machine import queue as local
from harness.backends.machine import supervisor
from harness.jobs import train
from harness.jobs.loop import Stop, run_task
from harness.jobs.run import Run
from harness.results.collect import collect
from harness.spec import Json
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
)
from workloads.errors import BenchError

KINDS = {
    "spec": "tasks/*/*/spec.json",
    "result": "tasks/*/*/result.json",
    "signals": "tasks/*/*/signals-*",
    "model": "tasks/*/*/model-*",
    "scores": "tasks/*/*/scores-*",
    "steps": "tasks/*/*/steps-*",
    "checkpoint": "tasks/*/*/checkpoint/*",
    "heartbeat": "tasks/*/*/heartbeat",
    "log": "tasks/*/*/log.txt",
    "sweep": "sweeps/*.json",
    "queue": "queue/*.json",
    "supervisor": "supervisor/state.json",
    "store": "store.json",
    "database": "privbench.duckdb",
}


def flip(content: bytes, chance: random.Random) -> bytes:
    """Flip one bit."""
    place = chance.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]


def truncate(content: bytes, chance: random.Random) -> bytes:
    """Cut off the end."""
    return content[: chance.randrange(len(content))]


Harm = Callable[[bytes, random.Random], bytes]
HARMS: dict[str, Harm] = {"flip": flip, "truncate": truncate}


def half_done(path: Path) -> None:
    """Trainings done, one interrupted between steps, attacks open, and the leftovers of a killed worker."""
    send(LAB, path)
    store, trainings = Store.open(path), [task for task in plan_of(LAB, path).tasks if task.kind == "train"]
    for task in trainings[:-1]:
        run_task(store, task.key, Stop())
    left = iter(range(7))
    stop = Stop()
    with patch.object(Stop, "__call__", lambda self: next(left) == 6):
        run_task(store, trainings[-1].key, stop)
    beat = '{"pid": 1, "host": "a", "job": null, "time": %r, "phase": "main", "done": 1, "total": 5}'
    (store.folder(trainings[-1].key) / "heartbeat").write_text(beat % time.time())
    (path / "supervisor").mkdir(exist_ok=True)
    supervisor.Supervisor(store)._write_state()
    collect(path)


def use(path: Path) -> list[str]:
    """Use a store in every way; return what was reported. Anything but a BenchError is raised."""
    reports: list[str] = []

    def attempt(work: Callable[..., object], *arguments: Any) -> None:
        try:
            work(*arguments)
        except BenchError as error:
            reports.append(str(error))

    def gather(rebuild: bool) -> None:
        reports.extend(map(str, collect(path, rebuild=rebuild).broken))

    attempt(lambda: status.Progress.of(Store.open(path), "chaos").summary())
    attempt(lambda: local.supervisor_summary(Store.open(path)))
    attempt(read_queue, path)
    attempt(gather, False)
    attempt(gather, True)
    return reports


def read_queue(path: Path) -> None:
    """Read the queue as a new supervisor does."""
    supervisor.Supervisor(Store.open(path))._read_queue()


def outcome(path: Path, harmed: Path, expected: Rows) -> Json:
    """The outcome of damage: equal rows, or a report and equal rows after following it."""
    reported = use(path)
    broken: Counter[str] = Counter()
    try:
        broken += faults(collected(path), expected, whole=False)
        broken -= failures(path)
        found = finish(LAB, path)
        reported += messages(path)
        wrong = faults(found, expected)
    except BenchError as error:
        reported.append(str(error))
        wrong = Counter(reported=1)
    if not wrong:
        return {"outcome": "equal", "broken": broken}
    if not any(harmed.name in each or str(harmed.parent) in each for each in reported):
        return {"outcome": "silent", "broken": broken + wrong, "reported": reported}
    harmed.unlink(missing_ok=True)
    for task in plan_of(LAB, path).failed:
        Store(path).reset(task)
    return {
        "outcome": "reported",
        "broken": broken + faults(finish(LAB, path), expected),
        "reported": reported,
    }


def failures(path: Path) -> Counter[str]:
    """Rows of failed tasks, which differ from those of a correct run openly."""
    failed = sum(result.status == "failed" for _, result in Store.open(path).results())
    return Counter(different=failed)


def messages(path: Path) -> list[str]:
    """The messages of failed tasks."""
    return [str(result.message) for _, result in Store.open(path).results() if result.message]


def harmed(
    folder: Path, source: Path, chosen: Path, harm: Harm, chance: random.Random, expected: Rows
) -> Json:
    """The outcome of damage to one file in a copy of a store."""
    path = folder / "harmed"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, path)
    file = path / chosen.relative_to(source)
    file.write_bytes(harm(file.read_bytes(), chance))
    try:
        came: Json = forked(outcome, path, file, expected)
    except RuntimeError as error:
        return {"outcome": "traceback", "broken": {"error": 1}, "reported": [str(error)]}
    return came


def main(words: list[str] | None = None) -> int:
    """Run the campaign."""
    asked = arguments(__doc__, words, harms=12, every=1)
    begin, chance = time.monotonic(), random.Random(asked.seed)
    counts: Counter[str] = Counter()
    broken = 0
    with ground() as folder, patch.object(local, "start_supervisor"):
        expected: Rows = forked(finish, LAB, folder / "whole")
        with patch.object(train, "Run", functools.partial(Run, interval=0.0)):
            forked(half_done, folder / "half")
        cases = [(kind, source) for kind in KINDS for source in ("half", "whole")] * asked.harms
        for kind, source in cases[:: asked.every]:
            files = sorted((folder / source).glob(KINDS[kind]))
            if not files:
                continue
            harm, chosen = chance.choice(sorted(HARMS)), chance.choice(files)
            came = harmed(folder, folder / source, chosen, HARMS[harm], chance, expected)
            counts[f"{kind}: {came['outcome']}"] += 1
            if any(came["broken"].values()):
                broken += 1
                say(f"{kind} {harm} {chosen.relative_to(folder)}: {came}")
    return close("damage", begin, dict(counts), broken)


if __name__ == "__main__":
    raise SystemExit(main())
