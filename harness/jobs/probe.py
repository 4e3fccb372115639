"""A short training of a task, to estimate the cost of the whole."""

import math
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress

import torch

from harness.accounting import find_ceilings, price
from harness.jobs.device import prepared
from harness.jobs.run import Interrupted, Run
from harness.jobs.setup import Setup
from harness.jobs.train import predict_logits, warm_up
from harness.plan.attack_cost import FIXED_SECONDS
from harness.plan.estimate import Usual, asked_steps
from harness.spec import Task
from methods.base import Calibrated
from workloads.base import Prepared
from workloads.devices import best_device
from workloads.errors import BenchError

PROBE_STEPS, PROBE_SECONDS = 20, 3.0
LEAST_STEPS = 3
"""The first step warms up and is not representative, so that the time limit counts from its end."""
MOST_SECONDS = 60.0
"""Beyond this even a single step is enough."""
BUSY = 1.1
"""Ratio of the run time with every slot busy to that of a probe alone: cores share caches, memory and clock.
Little on two idle cores; a machine that is shared with others takes longer than foretold."""
LONG_SECONDS = 30.0
"""A set-up that takes longer is not repeated: it is not dominated by imports."""


def probe(task: Task) -> Usual:
    """Time the parts of a training in this process, and its first steps; the model is discarded."""
    device = best_device()
    setup = Setup(task.cell, task.index, device)
    if isinstance(setup.workload, Prepared) and (reason := setup.workload.unprepared()):
        raise BenchError(reason)  # planning must not wait for feature extraction
    with prepared(device, threads=1):
        loading = _loading(setup)
        run = _first_steps(task.key, setup)
        other = FIXED_SECONDS + loading + _evaluation(setup) + _pricing(setup)
    phases = list(run.phases.values())
    if not phases or not phases[-1].wall:
        raise BenchError("the method took no step that could be timed")
    inside = sum(math.fsum(each.wall) for each in phases[:-1])
    inside += whole_phase(phases[-1].wall, run.position[2])
    peak = max(each.peak_memory_bytes for each in phases)
    source = f"probe of {sum(len(each.wall) for each in phases)} steps"
    return under_load(Usual(inside / asked_steps(task.cell.params), other, peak, source), device.type)


def under_load(alone: Usual, device: str) -> Usual:
    """The cost of a training beside others, from that of a training alone on the machine."""
    if device != "cpu":
        return alone
    return alone._replace(
        seconds_per_step=BUSY * alone.seconds_per_step, other_seconds=BUSY * alone.other_seconds
    )


def whole_phase(walls: Sequence[float], steps: int) -> float:
    """Time of a whole phase from its first steps: warm-up steps once, the others by their median."""
    first = max(warm_up(len(walls)), min(1, len(walls) - 1))
    later = statistics.median(walls[first:])
    return float(sum(walls[:first]) + later * max(0, steps - first))


def _loading(setup: Setup) -> float:
    """Time to load records and build the problem, as a worker does for every task after its first."""
    for each in (setup, Setup(setup.cell, setup.index, setup.device)):
        began = time.monotonic()
        _ = each.members, each.problem
        spent = time.monotonic() - began
        if spent > LONG_SECONDS:
            break
    return spent


def _first_steps(key: str, setup: Setup) -> Run:
    """The first steps of a training."""
    watch = Watch()
    run = Run(key, setup.device, stop=lambda: watch.enough(run))
    with suppress(Interrupted):
        setup.method.train(setup.members, setup.problem, setup.params, run)
    run.finish()
    return run


class Watch:
    """Decides when enough steps were seen; the time of the first one does not count."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.first_ended: float | None = None

    def enough(self, run: Run) -> bool:
        """Whether to stop; called after every step."""
        now, done = time.monotonic(), run.position[1] + 1
        if self.first_ended is None:
            self.first_ended = now
        if done >= PROBE_STEPS or now - self.began > MOST_SECONDS:
            return True
        return done >= LEAST_STEPS and now - self.first_ended > PROBE_SECONDS


def _evaluation(setup: Setup) -> float:
    """Time to predict all records, by an untrained model."""
    model = setup.plain_problem.model(0).to(setup.device).eval()
    began = time.monotonic()
    with suppress(BenchError), torch.no_grad():  # an untrained model may give a logit that is not finite
        for records in (setup.records.candidates, setup.records.test):
            predict_logits(model, records, setup.device)
    return time.monotonic() - began


def _pricing(setup: Setup) -> float:
    """Time to price the planned releases; none for a method that does not plan them."""
    if not isinstance(setup.method, Calibrated):
        return 0.0
    began = time.monotonic()
    with suppress(BenchError):
        event = setup.method.planned(setup.params, setup.cell.n_train)
        find_ceilings(event, price(event, getattr(setup.params, "delta", 0.0)))
    return time.monotonic() - began
