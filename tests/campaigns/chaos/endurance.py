"""Long trainings of every method: resident memory and open files do not grow after the warm-up.

    python -m tests.campaigns.chaos.endurance --steps 10000 [--methods sgd,dp-sgd]

The network is tiny, so that steps are quick and a leak per step would show. What a run keeps of every step on
purpose, its times and observed values, is a few hundred bytes.
"""

import argparse
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import psutil
import torch

import methods
from harness.checks import method_contract as contract
from harness.jobs.run import Run
from harness.spec import Json
from tests.campaigns.chaos.campaign import close, forked, say
from workloads.devices import CPU

LOOKS = 50
"""How often memory is read."""
WARM_UP = 0.3
"""Share of the steps during which allocators and caches may grow."""
STEP_BYTES = 1000.0
"""Growth allowed per step: its recorded values, and some slack."""
FLOOR_BYTES = 8e6
"""Growth allowed to the allocator."""
CHECKPOINT_SECONDS = 1.0


class Watched:
    """A `stop` that never stops, and samples memory and open files at intervals."""

    def __init__(self, every: int) -> None:
        self.every, self.steps = every, 0
        self.process = psutil.Process()
        self.looks: list[tuple[int, int, int]] = []

    def __call__(self) -> bool:
        """Called after every step."""
        self.steps += 1
        if self.steps % self.every == 0:
            self.looks.append((self.steps, self.process.memory_info().rss, self.process.num_fds()))
        return False


def train(name: str, steps: int) -> Json:
    """Train for this many steps, repeatedly if needed; return the growth of memory and open files."""
    method, watched = methods.family.get(name), Watched(max(1, steps // LOOKS))
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder, patch.object(contract, "STEPS", steps):
        params = contract.quick_params(method, 40)
        while watched.steps < steps:  # a method may end early, e.g. when its budget is spent
            name = f"seed-{watched.steps}"
            run = Run(name, CPU, Path(folder) / name, CHECKPOINT_SECONDS, watched)
            method.train(contract.make_records(40), contract.PROBLEM, params, run)
            run.finish()
    settled = [look for look in watched.looks if look[0] > WARM_UP * watched.steps]
    # Minimum of one third against minimum of the last: fluctuations of the allocator are no leak.
    third = max(1, len(settled) // 3)
    first, last = (min(rss for _, rss, _ in part) for part in (settled[:third], settled[-third:]))
    handles = [count for _, _, count in settled]
    return {
        "steps": watched.steps,
        "growth_bytes": last - first,
        "allowed_bytes": FLOOR_BYTES + STEP_BYTES * watched.steps,
        "handles": max(handles) - min(handles),
        "cpu_seconds": round(time.process_time() - begin, 1),
    }


def main(words: list[str] | None = None) -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--methods", default="", help="names, separated by commas; default: all")
    asked = parser.parse_args(words)
    begin, broken = time.monotonic(), 0
    torch.set_num_threads(1)
    names = asked.methods.split(",") if asked.methods else methods.family.names()
    counts: Json = {"methods": len(names), "steps": asked.steps}
    for name in names:
        found = forked(train, name, asked.steps)
        good = found["growth_bytes"] < found["allowed_bytes"] and found["handles"] == 0
        broken += not good
        counts[name] = round(found["growth_bytes"] / 1e6, 1)
        say(f"{name}: {found}{'' if good else ' GROWS'}")
    return close("endurance", begin, counts, broken)


if __name__ == "__main__":
    raise SystemExit(main())
