"""Teachers in a stack against teachers one by one: CPU time of whole trainings on one thread.

Not part of `make test`. Run with `pytest -m benchmark -s tests/benchmarks/test_ensembles.py`.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
from torch import nn

from harness.jobs.run import Run
from harness.jobs.setup import per_example_loss
from methods.training import ensembles
from methods.training.ensembles import Ensemble, Shards
from methods.training.optimizer import OptimizerParams
from workloads.base import Records
from workloads.models.mlp import mlp
from workloads.models.scatter import scatter_linear

pytestmark = pytest.mark.benchmark

TEACHERS = 60
ROUNDS = 3
SETTINGS = OptimizerParams(steps=20, batch_size=16, momentum=0.9)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def seconds(make: Callable[[int], nn.Module], shape: tuple[int, ...]) -> float:
    """To make and train all teachers."""
    generator = torch.Generator().manual_seed(0)
    members = Records(torch.randn(600, *shape, generator=generator), torch.arange(600) % 10)
    shards = Shards(members, TEACHERS, generator)
    run = Run("stack", torch.device("cpu"))
    start = time.process_time()
    teachers = Ensemble(make, shards, per_example_loss, SETTINGS, members.x[:10], run)
    for number in range(teachers.total):
        teachers.step(number)
    return time.process_time() - start


@pytest.mark.parametrize(
    ("name", "make", "shape", "must"),
    [
        ("linear 64-10", partial(mlp, (64, 10)), (64,), 5.0),
        ("MLP 64-128-10", partial(mlp, (64, 128, 10)), (64,), 2.0),
        ("linear 3969-10", partial(scatter_linear, side=28), (81, 7, 7), 1.2),
    ],
)
def test_a_stack_is_faster(
    name: str,
    make: Callable[[int], nn.Module],
    shape: tuple[int, ...],
    must: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ratios = []
    for _ in range(1 + ROUNDS):
        together = seconds(make, shape)
        with monkeypatch.context() as patch:
            patch.setattr(ensembles, "LARGEST_STACKED", 0)
            ratios.append(seconds(make, shape) / together)
    ratio = statistics.median(ratios[1:])
    with capsys.disabled():
        print(  # noqa: T201 - the table is what a benchmark is for
            f"\n{name}: {ratio:.1f} times faster in a stack of {TEACHERS} (must {must})"
        )
    assert ratio >= must
