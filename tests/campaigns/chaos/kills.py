"""SIGKILL at random moments: of workers, collectors and enqueuers, of the command line and the supervisor.

    python -m tests.campaigns.chaos.kills --kills 500 [--real 120] [--slurm] [--docker] [--elsewhere 40]

Most victims are forked from this process, which has torch loaded: a kill every fraction of a second, with a
checkpoint after every step. The `real` ones are a user's processes: `privbench run`, `enqueue` and `collect`,
the detached supervisor, its workers. After every kill the sweep is enqueued again, and its rows must equal
those of an undisturbed run. With --slurm and --docker, --elsewhere more are killed on a cluster and an engine
that the campaign starts (tests/campaigns/chaos/elsewhere.py).
"""

import functools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import psutil

from harness.backends.machine import queue as local
from harness.jobs import train
from harness.jobs.run import Run
from harness.results.collect import collect
from harness.store import Store
from tests.campaigns.chaos import elsewhere
from tests.campaigns.chaos.campaign import (
    DIGITS,
    LAB,
    Fork,
    Rows,
    arguments,
    close,
    collected,
    count_open,
    faults,
    finish,
    forked,
    ground,
    plan_of,
    say,
    send,
    work,
)
from tests.harness.conftest import Lab

VICTIMS = ("worker", "worker", "worker", "collector", "enqueuer")
"""Workers are killed most often: they take most of a sweep's time."""
AT_ONCE = 8
"""Kills between two comparisons of all rows."""
PACED = LAB.replace("steps = 5", "steps = 10\npause = 0.05").replace("[1, 2]", "[1, 2, 3, 4, 5, 6]")
"""More and slower tasks, for processes that take seconds to start."""
Tally = tuple[Counter[str], Counter[str]]
"""Kills by kind, and the numbers of lost, duplicated and different rows."""
REAL = ("worker", "worker", "worker", "supervisor", "supervisor", "asking", "collecting", "enqueuing")


def struck(job: Callable[[], object], seconds: float) -> bool:
    """Kill a forked process after a delay; whether it was still running."""
    child = Fork(job)
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    os.close(child.reading)
    _, status = os.waitpid(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"a process that was not killed ended with {code}")
    return code == -signal.SIGKILL


class Forked:
    """Kills of forked processes: several on one store, then a comparison."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.counts: Counter[str] = Counter()
        self.rounds = 0
        self.expected: dict[str, Rows] = {}
        self.spans: dict[tuple[str, str], float] = {}
        for text in (LAB, DIGITS):
            path = folder / f"peace-{len(self.expected)}"
            for name, job in self._jobs(text, path).items():
                begin = time.monotonic()
                forked(job)
                self.spans[text, name] = time.monotonic() - begin
            self.expected[text] = forked(collected, path)

    @staticmethod
    def _jobs(text: str, path: Path) -> dict[str, Callable[[], object]]:
        return {
            "enqueuer": lambda: send(text, path),
            "worker": lambda: work(text, path),
            "collector": lambda: collect(path),
        }

    def run(self, kills: int) -> Counter[str]:
        """Kill this many; return the numbers of lost, duplicated and different rows."""
        broken: Counter[str] = Counter()
        while sum(self.counts[name] for name in set(VICTIMS)) < kills:
            self.rounds += 1
            # Every fourth store holds a real cell instead of the lab's.
            broken += self._round(DIGITS if self.rounds % 4 == 0 else LAB)
        return broken

    def _round(self, text: str) -> Counter[str]:
        path = self.folder / f"store-{self.rounds}"
        jobs, broken = self._jobs(text, path), Counter[str]()
        for _ in range(AT_ONCE):
            name = self.chance.choice(VICTIMS) if path.exists() else "enqueuer"
            if name != "enqueuer":
                forked(send, text, path)
            if not struck(jobs[name], self.chance.uniform(0, self._span(text, name, path))):
                self.counts["ended first"] += 1
                continue
            self.counts[name] += 1
            if name == "worker":
                self._note(text, path)
            if name == "collector":
                broken += faults(forked(collected, path), self.expected[text], whole=False)
        found = forked(finish, text, path)
        return broken + faults(found, self.expected[text])

    def _span(self, text: str, name: str, path: Path) -> float:
        """Expected run time of a victim, so that its last moments are hit as often as any other."""
        span = self.spans[text, name]
        if name == "worker":
            plan = plan_of(text, path)
            return span * len(plan.todo) / len(plan.tasks)
        return span / 2 if Store(path).database.exists() else span

    def _note(self, text: str, path: Path) -> None:
        """Count the tasks that a kill left to resume or redo."""
        store = Store(path)
        for task in plan_of(text, path).todo:
            folder = store.folder(task.key)
            if any(folder.glob("checkpoint/*.safetensors")):
                self.counts["left to resume"] += 1
            elif (folder / "log.txt").exists():
                self.counts["left to redo"] += 1


class Real:
    """Kills of a user's processes."""

    def __init__(self, folder: Path, chance: random.Random, expected: Rows) -> None:
        self.folder, self.chance, self.expected = folder, chance, expected
        self.counts: Counter[str] = Counter()
        self.sweep = folder / "chaos.toml"
        self.sweep.write_text(PACED)
        self.stores = 0
        self.output = (folder / "output.txt").open("ab")

    def run(self, kills: int) -> Counter[str]:
        """Kill this many; return the numbers of lost, duplicated and different rows."""
        broken: Counter[str] = Counter()
        while sum(self.counts.values()) < kills:
            self.stores += 1
            lab = Lab(self.folder / f"real-{self.stores}")
            try:
                self._storm(lab, kills)
                broken += faults(forked(collected, lab.store.path), self.expected)
            finally:
                lab.end_all()
            say(f"real: {dict(self.counts)} on {self.stores} stores; broken: {dict(broken)}")
        return broken

    def _privbench(self, lab: Lab, *words: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "harness.cli", *words, "--store", str(lab.store.path)]
        return subprocess.Popen(command, stdout=self.output, stderr=self.output)

    def _ask(self, lab: Lab) -> "subprocess.Popen[bytes]":
        return self._privbench(lab, "run", str(self.sweep), "--slots", "2")

    def _storm(self, lab: Lab, kills: int) -> None:
        """Run one sweep with kills to its end, restarting the command whenever it is gone."""
        asking = self._ask(lab)
        while asking.poll() is None or forked(count_open, PACED, lab.store.path):
            if asking.poll() is not None:
                asking = self._ask(lab)
            if sum(self.counts.values()) < kills:
                self._strike(lab, asking)
            time.sleep(0.1)
        if asking.returncode != 0:
            self._ask(lab).wait()  # nothing is open: it only collects

    def _strike(self, lab: Lab, asking: "subprocess.Popen[bytes]") -> None:
        time.sleep(self.chance.uniform(0, 1.5))
        kind = self.chance.choice(REAL)
        if kind in ("collecting", "enqueuing"):
            words = ["collect"] if kind == "collecting" else ["enqueue", str(self.sweep), "--slots", "2"]
            short = self._privbench(lab, *words)
            time.sleep(self.chance.uniform(0.2, 8.0))
            short.kill()
            self.counts[f"real {kind}"] += short.wait() == -signal.SIGKILL
            return
        if kind == "asking":
            asking.kill()
            self.counts["real asking"] += asking.wait() == -signal.SIGKILL
            return
        found = lab.supervisors() if kind == "supervisor" else lab.workers()
        if not found:
            return
        victim = self.chance.choice(sorted(found, key=lambda process: int(process.pid)))
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            return
        self.counts[f"real {kind}"] += 1


def killed_elsewhere(where: str, folder: Path, expected: Rows, kills: int, chance: random.Random) -> Tally:
    """The same on a cluster or an engine; one that cannot be started is reported and counts as broken."""
    try:
        return elsewhere.run(where, folder, PACED, expected, kills, chance)
    except RuntimeError as error:
        say(f"{where}: {error}")
        return Counter(), Counter({f"{where} not tried": 1})


def main(words: list[str] | None = None) -> int:
    """Run the campaign."""
    asked = arguments(__doc__, words, kills=500, real=120, slurm=False, docker=False, elsewhere=40)
    begin, chance = time.monotonic(), random.Random(asked.seed)
    eager = functools.partial(Run, interval=0.0)
    places = [where for where in elsewhere.FIELDS if getattr(asked, where)]
    with ground() as folder:
        with patch.object(train, "Run", eager), patch.object(local, "start_supervisor"):
            quick = Forked(folder, chance)
            broken = quick.run(asked.kills - asked.real)
        say(f"forked: {dict(quick.counts)} on {quick.rounds} stores; broken: {dict(broken)}")
        with patch.object(local, "start_supervisor"):
            paced = forked(finish, PACED, folder / "paced") if asked.real or places else {}
        slow = Real(folder, chance, paced)
        broken += slow.run(asked.real)
        counts = quick.counts + slow.counts
        for where in places:
            more, wrong = killed_elsewhere(where, folder, paced, asked.elsewhere, chance)
            counts, broken = counts + more, broken + wrong
    alive = {"ended first", "left to resume", "left to redo"}
    total = {"kills": sum(number for name, number in counts.items() if name not in alive)}
    lost = {name: broken[name] for name in ("lost", "doubled", "different")}
    return close(
        "kills",
        begin,
        {**total, **counts, **lost, "local stores": quick.rounds + slow.stores},
        broken.total(),
    )


if __name__ == "__main__":
    raise SystemExit(main())
