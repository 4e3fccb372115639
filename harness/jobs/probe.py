"""A short training of a task, to estimate what all of it would take."""

import statistics
import time

import torch

from harness.jobs.memory_layout import apply_layout
from harness.jobs.run import Interrupted, Run
from harness.jobs.train import best_device, members_of, membership, per_example_loss, warm_up
from harness.plan.estimate import Cost
from harness.plan.public_records import public_records
from harness.spec import Task
from methods.base import Problem
from workloads.base import Prepared
from workloads.errors import BenchError

PROBE_STEPS, PROBE_SECONDS = 20, 3.0


def probe(task: Task) -> Cost:
    """Train for a moment in this process and throw the model away."""
    workload, method = members_of(task)
    if isinstance(workload, Prepared) and (reason := workload.unprepared()):
        raise BenchError(reason)  # nobody who plans wants to wait for features
    pool = workload.pool()
    members = pool.take(membership(task, len(pool)).nonzero().squeeze(1)).to(best_device())
    began = time.monotonic()
    run = Run(task.key, best_device(), stop=lambda: _enough(run, began))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        public = public_records(workload, method)
        examples = None if public is None else public.x.to(best_device())
        problem = Problem(workload.classes, workload.model, per_example_loss, examples)
        members, problem = apply_layout(members, problem)
        method.train(members, problem, method.Params(**task.cell.params), run)
    except Interrupted:
        pass
    finally:
        torch.set_num_threads(threads)
    phase = list(run.phases.values())[-1]
    steps = run.position[2]
    seconds = statistics.median(phase.wall[warm_up(len(phase.wall)) :]) * steps
    return Cost(seconds, phase.peak_memory_bytes, f"probe of {len(phase.wall)} steps")


def _enough(run: Run, began: float) -> bool:
    done = run.position[1] + 1
    return bool(done >= PROBE_STEPS or time.monotonic() - began > PROBE_SECONDS)
