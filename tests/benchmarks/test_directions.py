"""Redrawn directions against plain normals: CPU time on one thread, and the memory of a step of dirdp-sgd.

Not part of `make test`. Run with `pytest -m benchmark -s tests/benchmarks/test_directions.py`.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from methods.dirdp_sgd.directions import redraw

pytestmark = pytest.mark.benchmark

MUST = 2.2
"""Times torch.randn(B, K)."""
GIGABYTES = 4.0

# A model of 2.7 million parameters, a batch of 256, two steps: the peak of the whole process in kilobytes.
STEP = """
import resource, torch
from harness.jobs.run import Run
from harness.jobs.setup import per_example_loss
from methods.base import Problem
from methods.dirdp_sgd.dirdp_sgd import DirDpSgdParams, method
from workloads.base import Records
from workloads.models.mlp import mlp

torch.set_num_threads(1)
widths = (1000, 1600, 680, 10)
members = Records(torch.randn(256, 1000), torch.randint(10, (256,)))
problem = Problem(10, lambda seed: mlp(widths, seed), per_example_loss)
assert 2.69e6 < sum(weight.numel() for weight in problem.model(0).parameters()) < 2.71e6
params = DirDpSgdParams(kappa=100.0, batch_size=256, steps=2)
method.train(members, problem, params, Run("memory", torch.device("cpu")))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize(
    ("count", "dimension", "rounds"), [(256, 10**4, 40), (256, 10**5, 8), (32, 10**6, 8)]
)
@pytest.mark.parametrize("concentration", [0.01, 1.0, 30.0])
def test_sampling_costs_little_more_than_normals(
    count: int, dimension: int, rounds: int, concentration: float, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(count, dimension, generator=generator)
    kappa = concentration * dimension
    ratios = []
    for _ in range(2 + rounds):
        plain = seconds(lambda: torch.randn(count, dimension, generator=generator))
        ratios.append(seconds(lambda: redraw(vectors, kappa, generator)) / plain)
    ratio = statistics.median(ratios[2:])
    with capsys.disabled():
        print(  # noqa: T201 - the table is what a benchmark is for
            f"\nB {count} K {dimension} kappa {kappa:g}: {ratio:.2f} times randn (must {MUST})"
        )
    assert ratio <= MUST


def test_a_large_model_and_batch_fit_into_memory(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", STEP], env=environment, capture_output=True, text=True, check=True
    )
    peak = int(done.stdout) / 2**20
    with capsys.disabled():
        print(f"\n2.7 million parameters, B 256: {peak:.2f} GB (must {GIGABYTES})")  # noqa: T201
    assert peak < GIGABYTES
