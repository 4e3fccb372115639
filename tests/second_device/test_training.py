"""Whole trainings on the second device against those on the CPU."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

import methods
from harness.checks.method_contract import bits, make_model, make_records, problem_on, quick_params
from harness.jobs.run import Run
from methods.base import Params
from methods.training.sampling import HOST, FixedSizeSampler, PoissonSampler, ShuffleSampler
from tests.methods.gradients.conftest import distance
from tests.second_device.device import lines, listening
from tests.second_device.fixtures import on_second
from tests.second_device.waits import HeardRun
from workloads.records import LazyRecords

pytestmark = on_second


@pytest.mark.parametrize("kind", [PoissonSampler, FixedSizeSampler, ShuffleSampler])
def test_the_same_batches_are_drawn_on_every_device_and_nobody_waits(
    kind: type[PoissonSampler | FixedSizeSampler | ShuffleSampler], device: torch.device
) -> None:
    drawn: list[list[Tensor]] = []
    for each in (HOST, device):
        sampler = kind(30, 8, Run("seed", each).generator("sampling", HOST), each)
        with listening() as waits:
            drawn.append([sampler.draw() for _ in range(9)])
        assert not waits, lines(waits)
    assert all(rows.device == device for rows in drawn[1])
    assert all(torch.equal(one, other.cpu()) for one, other in zip(*drawn, strict=True))


WITHOUT_NOISE: dict[str, dict[str, Any]] = {
    "sgd": {},
    # Every batch is plausible, and the noise is smaller than rounding.
    "pd-sgd": {"sigma": 1e-9, "gamma": float("inf")},
    "dp-sgd": {"epsilon": float("inf"), "noise_multiplier": 0.0},
    "selena": {"K": 4, "L": 2},
    "advreg": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_NOISE)
def test_a_training_without_noise_is_that_of_the_cpu(name: str, device: torch.device) -> None:
    """Batches come from a stream on the host: what is left of the difference is rounding."""
    method, found = methods.family.get(name), []
    wishes = {"steps": 8, "batch_size": 8, **WITHOUT_NOISE[name]}
    params: Params = method.Params(**wishes)
    for each in (HOST, device):
        result = method.train(make_records(40), problem_on(each), params, Run("seed", each))
        found.append(bits(result))
    assert distance(found[1], found[0]) < 1e-4
    assert distance(found[0], [weight.detach() for weight in make_model(0).parameters()]) > 0.01


def test_a_stream_of_the_host_is_resumed_though_it_is_asked_for_late(
    device: torch.device, tmp_path: Path
) -> None:
    def draws(steps: int) -> list[float]:
        run, found, state = Run("seed", device, tmp_path), [], {"nothing": [0]}
        for _ in run.steps("train", steps, state):
            found.append(float(torch.rand((), generator=run.generator("late", HOST))))
            found.append(float(torch.rand((), device=device, generator=run.generator("late-here")).cpu()))
        return found

    first = draws(3)
    whole = Run("seed", device)
    expected = [
        value
        for _ in range(5)
        for value in (
            float(torch.rand((), generator=whole.generator("late", HOST))),
            float(torch.rand((), device=device, generator=whole.generator("late-here")).cpu()),
        )
    ]
    assert first + draws(5) == expected


def test_members_already_on_the_device_are_taken_as_they_are(device: torch.device) -> None:
    method = methods.family.get("dp-sgd")
    params, here = quick_params(method, 40), make_records(40).to(device)
    one = method.train(here, problem_on(device), params, Run("seed", device))
    other = method.train(make_records(40), problem_on(device), params, Run("seed", device))
    assert all(map(torch.equal, bits(one), bits(other)))
    assert dataclasses.asdict(one)["stats"] == dataclasses.asdict(other)["stats"]


class Rows(Dataset[tuple[Tensor, Tensor]]):
    """People as a Dataset: an example and its label at a time."""

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        everybody = make_records(40)
        return everybody.x[row], everybody.y[row]


@pytest.mark.parametrize("name", ["sgd", "dp-sgd"])
def test_records_that_are_read_when_asked_for_go_to_the_device(name: str, device: torch.device) -> None:
    method, run = methods.family.get(name), HeardRun("seed", device)
    params = quick_params(method, 40)
    lazy = method.train(LazyRecords(Rows(), make_records(40).y), problem_on(device), params, run)
    whole = method.train(make_records(40), problem_on(device), params, Run("seed", device))
    assert all(map(torch.equal, bits(lazy), bits(whole)))
    # Which rows are read is asked back from the device; what was read is sent without waiting.
    assert max(len(step.waits) for step in run.heard) == 1
