"""A store of a hundred thousand tasks: time and memory of every command.

    python -m tests.campaigns.chaos.scale --tasks 100000

The tasks are planned like any sweep's; their results are copies of one small cell's under the other keys.
Every command runs in its own process. Limits are in CPU seconds per hundred thousand tasks, since the machine
may be shared, and in bytes of resident memory.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from harness.backends.machine import queue as local
from harness.spec import Json, Task
from harness.store import Store
from harness.store.files import dump_checked
from tests.campaigns.chaos.campaign import arguments, close, finish, forked, ground, plan_of, say
from tests.harness.simulated import sweep_record

CELL = """
name = "scale"
models = 8
attacks = ["loss", "population", "reference", "lira"]
[[grid]]
workload = "digits-linear"
method = "sgd"
steps = 4
batch_size = 64
learning_rate = [RATES]
"""
PER_CELL = 13
"""Eight trainings, four attacks and the blind check."""
MEMORY_BYTES = 2e9
START_SECONDS = 20.0
"""CPU seconds for imports, independent of the size of the store."""
LIMITS: dict[str, tuple[list[str], float]] = {
    "plan": (["plan", "SWEEP", "--no-probe"], 200.0),
    "enqueue": (["enqueue", "SWEEP"], 200.0),
    "status": (["status", "scale"], 40.0),
    "collect": (["collect"], 400.0),
    "collect again": (["collect"], 150.0),
    "query": (["query", "select count(*), avg(auc) from frontier"], 20.0),
    "report": (["report", "all"], 300.0),
}
"""Arguments of a command, and its limit in CPU seconds for a hundred thousand tasks."""


def sweep(cells: int) -> str:
    """A sweep of this many cells."""
    return CELL.replace("RATES", ", ".join(f"{0.0001 * (each + 1):.6g}" for each in range(cells)))


def simulate(text: str, path: Path, pattern: Path) -> int:
    """Fill a store with a pattern cell's results under every key of a sweep; return the number of tasks."""
    plan = plan_of(text, path)
    store = Store.open(path, create=True)
    by_kind = patterns(Store.open(pattern))
    for task in plan.tasks:
        folder = store.folder(task.key)
        folder.mkdir(parents=True)
        (folder / "spec.json").write_bytes(dump_checked(task.file()))
        result = {**by_kind[kind_of(task)], "key": task.key, "artefacts": {}}
        (folder / "result.json").write_bytes(dump_checked(result))
    store.write_sweep(sweep_record("scale", *plan.tasks))
    return len(plan.tasks)


def patterns(store: Store) -> dict[str, Json]:
    """A result of every kind of task."""
    found = {}
    for task, result in store.results():
        found[kind_of(task)] = result.document()
    return found


def kind_of(task: Task) -> str:
    return task.attack.name if task.attack else "train"


@dataclass(frozen=True)
class Cost:
    """Time and memory of a command."""

    code: int
    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int
    output: str


def measure(words: list[str], path: Path, sweep_file: Path) -> Cost:
    """Run a command on a store."""
    named = [str(sweep_file) if word == "SWEEP" else word for word in words]
    output, begin, peak = path.parent / "output.txt", time.monotonic(), 0
    with output.open("wb") as file:
        command = [sys.executable, "-m", "harness.cli", *named, "--store", str(path)]
        process = subprocess.Popen(command, stdout=file, stderr=file)
    # Not from the kernel's usage at its end, which includes this process before the exec.
    while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
        peak = max(peak, peak_memory(process.pid))
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    cpu, wall = ended[2].ru_utime + ended[2].ru_stime, time.monotonic() - begin
    return Cost(process.returncode, cpu, wall, peak, output.read_text(errors="replace"))


def peak_memory(pid: int) -> int:
    """Peak resident memory of a process so far, in bytes."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0


def main(words: list[str] | None = None) -> int:
    """Run the campaign."""
    asked = arguments(__doc__, words, tasks=100_000)
    begin, broken = time.monotonic(), 0
    counts: Json = {}
    with ground() as folder:
        with patch.object(local, "start_supervisor"):
            forked(finish, sweep(1), folder / "pattern")
        text, path = sweep(asked.tasks // PER_CELL + 1), folder / "store"
        (folder / "scale.toml").write_text(text)
        counts["tasks"] = forked(simulate, text, path, folder / "pattern")
        say(f"{counts['tasks']} tasks after {time.monotonic() - begin:.0f} s")
        for name, (line, limit) in LIMITS.items():
            cost = measure(line, path, folder / "scale.toml")
            allowed = START_SECONDS + limit * counts["tasks"] / 100_000
            good = cost.code == 0 and cost.cpu_seconds < allowed and cost.peak_bytes < MEMORY_BYTES
            broken += not good
            took = {"cpu_seconds": round(cost.cpu_seconds, 1), "megabytes": round(cost.peak_bytes / 1e6)}
            counts[name] = took
            say(
                f"{name}: exit {cost.code}, {took}, allowed {allowed:.0f} s; {cost.wall_seconds:.0f} s in all"
            )
            if not good:
                say(cost.output[-2000:])
    return close("scale", begin, counts, broken)


if __name__ == "__main__":
    raise SystemExit(main())
