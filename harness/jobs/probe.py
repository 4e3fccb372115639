"""A short training of a task, to estimate what all of it would take."""

import statistics
import time
from contextlib import suppress

import torch

from harness.jobs.device import prepared
from harness.jobs.memory_layout import apply_layout
from harness.jobs.run import Interrupted, Run
from harness.jobs.train import members_of, membership, per_example_loss, warm_up
from harness.plan.estimate import Cost
from harness.plan.public_records import public_records
from harness.spec import Task
from methods.base import Problem, Released
from workloads.base import Prepared
from workloads.devices import best_device
from workloads.errors import BenchError

PROBE_STEPS, PROBE_SECONDS = 20, 3.0


def probe(task: Task) -> Cost:
    """Train for a moment in this process and throw the model away."""
    workload, _ = members_of(task)
    if isinstance(workload, Prepared) and (reason := workload.unprepared()):
        raise BenchError(reason)  # nobody who plans wants to wait for features
    device = best_device()
    with prepared(device, threads=1):
        run = _first_steps(task, device)
    phase = list(run.phases.values())[-1]
    steps = run.position[2]
    seconds = statistics.median(phase.wall[warm_up(len(phase.wall)) :]) * steps
    return Cost(seconds, phase.peak_memory_bytes, f"probe of {len(phase.wall)} steps")


def _first_steps(task: Task, device: torch.device) -> Run:
    """The first steps of a training."""
    began = time.monotonic()
    run = Run(task.key, device, stop=lambda: _enough(run, began))
    with suppress(Interrupted):
        train_plainly(task, run)
    run.finish()
    return run


def train_plainly(task: Task, run: Run) -> Released:
    """Train a task's model without canaries; nothing of it is priced, evaluated or kept."""
    workload, method = members_of(task)
    pool = workload.pool()
    members = pool.take(membership(task, len(pool)).nonzero().squeeze(1)).to(run.device)
    public = public_records(workload, method)
    examples = None if public is None else public.x.to(run.device)
    problem = Problem(workload.classes, workload.model, per_example_loss, examples)
    members, problem = apply_layout(members, problem)
    return method.train(members, problem, method.Params(**task.cell.params), run)


def _enough(run: Run, began: float) -> bool:
    done = run.position[1] + 1
    return bool(done >= PROBE_STEPS or time.monotonic() - began > PROBE_SECONDS)
