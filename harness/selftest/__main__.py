"""Check one device: `python -m harness.selftest [NUMBER...]`; prints findings as JSON lines.

With `reference` instead of numbers it prints the hash of a training, to compare two processes.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict

from harness.jobs import cublas
from workloads.threads import bound_threads

# Before torch and numpy are imported.
cublas.set_workspace()
bound_threads()

import torch  # noqa: E402

from harness.backends.base import program  # noqa: E402
from harness.jobs.device import prepare  # noqa: E402
from harness.selftest.device_checks import CHECKS, LISTENERS, Bench, perform, reference  # noqa: E402
from workloads.devices import best_device  # noqa: E402

REFERENCE = "reference"
SECONDS = 600.0


def main(arguments: Sequence[str]) -> int:
    """Run the checks; return the number of failures."""
    device = best_device()
    if list(arguments) == [REFERENCE]:
        prepare(device, torch.get_num_threads())
        print(reference(device))  # noqa: T201
        return 0
    failed = 0
    for number in map(int, arguments) if arguments else CHECKS:
        finding = perform(number, Bench(device, train_elsewhere, LISTENERS))
        failed += finding.state == "failed"
        print(json.dumps(asdict(finding)), flush=True)  # noqa: T201
    return failed


def train_elsewhere() -> str:
    """The hash of the reference training in a new process on the same device."""
    done = subprocess.run(
        [*program("harness.selftest"), REFERENCE], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    return done.stdout.split()[-1]


if __name__ == "__main__":
    raise SystemExit(min(main(sys.argv[1:]), 100))
