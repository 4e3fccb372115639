"""A short training of a task, to estimate the cost of the whole."""

import statistics
import time
from contextlib import suppress

from harness.jobs.device import prepared
from harness.jobs.run import Interrupted, Run
from harness.jobs.setup import Setup
from harness.jobs.train import warm_up
from harness.plan.estimate import Cost
from harness.spec import Task
from workloads.base import Prepared
from workloads.devices import best_device
from workloads.errors import BenchError

PROBE_STEPS, PROBE_SECONDS = 20, 3.0


def probe(task: Task) -> Cost:
    """Run the first steps of a training in this process and discard the model."""
    device = best_device()
    setup = Setup(task.cell, task.index, device)
    if isinstance(setup.workload, Prepared) and (reason := setup.workload.unprepared()):
        raise BenchError(reason)  # planning must not wait for feature extraction
    with prepared(device, threads=1):
        run = _first_steps(task.key, setup)
    phase = list(run.phases.values())[-1]
    steps = run.position[2]
    seconds = statistics.median(phase.wall[warm_up(len(phase.wall)) :]) * steps
    return Cost(seconds, phase.peak_memory_bytes, f"probe of {len(phase.wall)} steps")


def _first_steps(key: str, setup: Setup) -> Run:
    """The first steps of a training."""
    began = time.monotonic()
    run = Run(key, setup.device, stop=lambda: _enough(run, began))
    with suppress(Interrupted):
        setup.method.train(setup.members, setup.problem, setup.params, run)
    run.finish()
    return run


def _enough(run: Run, began: float) -> bool:
    done = run.position[1] + 1
    return bool(done >= PROBE_STEPS or time.monotonic() - began > PROBE_SECONDS)
