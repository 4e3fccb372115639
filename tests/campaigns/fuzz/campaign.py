"""Fuzz every entry point of the program and count the outcomes.

    python -m tests.campaigns.fuzz.campaign --seed 0 --inputs 50000
    python -m tests.campaigns.fuzz.campaign --only "sweep file" --inputs 2000

Every input must end in success or in a BenchError, without a traceback and without a write outside the store.
The first that does not ends the campaign with exit code 1; the shrunken input is printed.
"""

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings

from tests.campaigns.fuzz.ground import Ground
from tests.campaigns.fuzz.target import Target
from tests.campaigns.fuzz.targets import TARGETS


def throw(target: Target, ground: Ground, inputs: int, start: int) -> Counter[str]:
    """Try inputs on a target; return how many were done and refused. A bug raises."""
    ends: Counter[str] = Counter()

    @seed(start)
    @settings(
        max_examples=inputs,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(target.inputs)
    def attempt(value: Any) -> None:
        ends[target.attempt(ground, value)] += 1

    attempt()
    return ends


def share(targets: Sequence[Target], inputs: int) -> dict[str, int]:
    """The number of inputs of each target, by weight; at least one."""
    whole = sum(target.weight for target in targets)
    return {target.name: max(1, round(inputs * target.weight / whole)) for target in targets}


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 if no input found a bug."""
    parser = argparse.ArgumentParser(prog="tests.campaigns.fuzz.campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=50_000, help="in all")
    parser.add_argument("--only", choices=[target.name for target in TARGETS], help="one target")
    asked = parser.parse_args(arguments)
    chosen = [target for target in TARGETS if asked.only in (None, target.name)]
    logging.disable(logging.WARNING)  # warnings about every damaged file would hide the counts
    total: Counter[str] = Counter()
    for target in chosen:
        begin = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            ground = Ground(Path(folder), target.fill)
            ends = throw(target, ground, share(chosen, asked.inputs)[target.name], asked.seed)
        total += ends
        seconds = time.process_time() - begin
        outcomes = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
        print(f"{target.name:20} {ends.total():6} inputs: {outcomes} ({seconds:.0f} s)", flush=True)  # noqa: T201
    print(f"{total.total()} inputs, seed {asked.seed}: every one done or refused, none outside the store")  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
