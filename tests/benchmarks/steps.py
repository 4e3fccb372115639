"""Steps of sgd and dp-sgd on one fixed batch, and how long and how much memory they take."""

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

import workloads
from harness.jobs.setup import per_example_loss
from methods.gradients import EngineName, make_engine
from methods.mechanisms.noise import SeededNoise
from workloads.base import Records

Step = Callable[[], object]

CLIP = 1.0


def batch_of(workload: str, size: int) -> Records:
    """A batch drawn once: sampling is no part of the comparison."""
    return workloads.family.get(workload).pool().take(torch.arange(size))


def sgd_step(workload: str, size: int) -> Step:
    """Forward, mean loss, backward, update."""
    batch = batch_of(workload, size)
    model = workloads.family.get(workload).model(0).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        loss = per_example_loss(model(batch.x), batch.y).mean()
        torch.autograd.backward(loss)
        optimizer.step()

    return step


def dp_step(workload: str, size: int, engine: EngineName = "auto") -> Step:
    """Clipped sum, noise, update, as in methods.dp_sgd."""
    batch = batch_of(workload, size)
    model = workloads.family.get(workload).model(0).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    computes = make_engine(model, per_example_loss, engine)
    source = SeededNoise(computes.weights, 1.0 * CLIP, torch.Generator().manual_seed(1))

    def step() -> None:
        means = source.start(computes.weights, size)
        computes.clipped_sum(batch.x, batch.y, CLIP, means, 1 / size)
        for weight, mean in zip(computes.weights, means, strict=True):
            weight.grad = mean
        optimizer.step()

    return step


def median_times(steps: Mapping[str, Step], rounds: int, warm_up: int = 3) -> dict[str, float]:
    """CPU seconds of every step, interleaved in random order so that a noisy machine hits all alike."""
    order = random.Random(1)
    times: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    for turn in range(warm_up + rounds):
        order.shuffle(names)
        for name in names:
            start = time.process_time()
            steps[name]()
            spent = time.process_time() - start
            if turn >= warm_up:
                times[name].append(spent)
    return {name: statistics.median(each) for name, each in times.items()}


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
