"""Steps of sgd and dp-sgd on one fixed batch, and how long and how much memory they take."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

import workloads
from harness.jobs.memory_layout import apply_layout
from harness.jobs.setup import per_example_loss
from methods.base import Problem
from methods.gradients import EngineName, make_engine
from methods.mechanisms.noise import SeededNoise
from methods.training.optimizer import Update
from workloads.base import Records

Step = Callable[[], object]

CLIP = 1.0


def given(workload: str, size: int) -> tuple[Records, nn.Module]:
    """A batch drawn once, since sampling is not compared, and a model, in the layout of a training."""
    chosen = workloads.family.get(workload)
    problem = Problem(chosen.classes, chosen.model, per_example_loss)
    batch, problem = apply_layout(chosen.pool().take(torch.arange(size)), problem)
    return batch, problem.model(0).train()


def sgd_step(workload: str, size: int) -> Step:
    """Forward, mean loss, backward, update."""
    batch, model = given(workload, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        loss = per_example_loss.mean(model(batch.x), batch.y)
        torch.autograd.backward(loss)
        optimizer.step()

    return step


def dp_step(workload: str, size: int, engine: EngineName = "auto") -> Step:
    """Clipped sum, noise, update, as in methods.dp_sgd."""
    batch, model = given(workload, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    computes = make_engine(model, per_example_loss, engine)
    update = Update(optimizer, computes.weights)
    source = SeededNoise(computes.weights, 1.0 * CLIP, torch.Generator().manual_seed(1))

    def step() -> None:
        means = source.start(computes.weights, size)
        computes.clipped_sum(batch.x, batch.y, CLIP, means, 1 / size)
        update.step(means)

    return step


def peak_of(make: str, workload: str, size: int) -> int:
    """Bytes by which a step of `make` lifts the resident memory, in a fresh process on Linux.

    The rest is taken before the first step, so what the engine keeps between steps counts. Blocks from 64 kB
    are given back to the system at once, else the allocator's leftovers would be measured.
    """
    program = (
        "import importlib.util, sys, torch\n"
        f"spec = importlib.util.spec_from_file_location('privbench_steps', {__file__!r})\n"
        "steps = importlib.util.module_from_spec(spec); spec.loader.exec_module(steps)\n"
        "torch.set_num_threads(1)\n"
        f"print(steps.rise(steps.{make}({workload!r}, {size})))\n"
    )
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def rise(step: Step) -> int:
    """The largest rise of the resident memory over its level before the steps."""
    before = resident("VmRSS")
    # "5" sets the high-water mark back to the present level (proc(5)).
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    for _ in range(5):
        step()
    return resident("VmHWM") - before


def resident(field: str) -> int:
    """A field of the process's memory status, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise LookupError(f"the system does not tell {field}")
