"""What a private step costs against a plain one: CPU time on one thread, and memory.

Not part of `make test`: a busy machine moves every ratio. Run with `pytest -m benchmark -s tests/benchmarks`.
"""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
import torch

from methods.gradients import EngineName
from tests.benchmarks.pairs import interleave, timed

if TYPE_CHECKING:
    from tests.benchmarks.table import Table

pytestmark = pytest.mark.benchmark

# Workload, engine, batch, rounds, and the ratios to sgd that dp-sgd must reach and aims at. What `native`
# computes is bounded there, and by the figures of version 0.1 for the default engine.
TARGETS: list[tuple[str, EngineName, int, int, float, float]] = [
    ("shape-linear-768x10", "auto", 512, 400, 1.05, 0.85),
    ("shape-linear-600x100", "auto", 2048, 100, 1.05, 1.00),
    ("shape-mlp-600x100", "auto", 512, 80, 1.10, 1.05),
    ("shape-mnist-cnn", "auto", 512, 50, 1.50, 1.40),
    ("shape-mnist-cnn", "native", 512, 50, 1.40, 1.25),
    ("shape-cifar-cnn", "auto", 32, 50, 1.30, 1.25),
    ("shape-cifar-cnn", "native", 32, 50, 1.25, 1.15),
    ("shape-lenet", "auto", 64, 100, 1.80, 1.60),
    ("shape-lenet", "native", 64, 100, 1.80, 1.30),
    ("shape-wrn16-4", "auto", 8, 50, 1.35, 1.20),
    ("shape-wrn16-4", "native", 8, 50, 1.27, 1.20),
]
# Workload, batch, and the peak of a private step over that of a plain one: times, plus megabytes.
PEAKS = [
    ("shape-linear-768x10", 512, 2.0, 10),
    ("shape-linear-600x100", 2048, 2.0, 10),
    ("shape-mlp-600x100", 512, 2.0, 10),
    ("shape-wrn16-4", 64, 2.3, 0),
]


@pytest.fixture(scope="module")
def steps() -> ModuleType:
    spec = importlib.util.spec_from_file_location("privbench_steps", Path(__file__).with_name("steps.py"))
    if spec is None or spec.loader is None:
        raise FileNotFoundError("steps.py is not beside this file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("workload", "engine", "size", "rounds", "must", "aim"), TARGETS)
def test_a_private_step_costs_little_more(
    workload: str,
    engine: EngineName,
    size: int,
    rounds: int,
    must: float,
    aim: float,
    steps: ModuleType,
    table: "Table",
) -> None:
    times = interleave(
        {
            "sgd": timed(steps.sgd_step(workload, size)),
            "again": timed(steps.sgd_step(workload, size)),
            "dp-sgd": timed(steps.dp_step(workload, size, engine)),
        },
        rounds,
    )
    ratio, again = times.ratio("dp-sgd", "sgd"), times.ratio("again", "sgd")
    medians = f"sgd {1e3 * times.median('sgd'):.3g} ms, against itself {again.median:.2f}; aim {aim:g}"
    table.hold(
        "dp-sgd step / sgd step", f"{workload}, B={size}, engine {engine}", ratio, must, rounds, medians
    )


@pytest.mark.parametrize(("workload", "size", "times", "megabytes"), PEAKS)
def test_a_private_step_needs_little_more_memory(
    workload: str,
    size: int,
    times: float,
    megabytes: int,
    steps: ModuleType,
    capsys: pytest.CaptureFixture[str],
) -> None:
    peaks = {
        name: steps.peak_of(make, workload, size)
        for name, make in (("sgd", "sgd_step"), ("dp-sgd", "dp_step"))
    }
    with capsys.disabled():
        print(  # noqa: T201 - the table is what a benchmark is for
            f"\n{workload:22} B{size:<5} peak above rest: sgd {peaks['sgd'] / 1e6:.1f} MB, "
            f"dp-sgd {peaks['dp-sgd'] / 1e6:.1f} MB"
        )
    assert peaks["dp-sgd"] <= times * peaks["sgd"] + megabytes * 1e6
