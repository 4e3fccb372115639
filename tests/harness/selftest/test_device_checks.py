"""The checks of `privbench doctor --gpu`: they pass on a correct device and fail on a broken one."""

from typing import Any

import pytest
import torch
from torch import Tensor

from harness.selftest import device_checks as checks
from harness.selftest.device_checks import CHECKS, Bench, Finding, perform, reference
from harness.selftest.numbered import NAMES
from methods.mechanisms.noise import SeededNoise
from tests.second_device.device import NAME, listening
from tests.second_device.fixtures import device as device
from tests.second_device.fixtures import on_second

CPU = torch.device("cpu")


def check(number: int, device: torch.device) -> Finding:
    return perform(number, Bench(device, lambda: reference(device), {NAME: listening}))


def test_every_check_has_a_name() -> None:
    assert set(NAMES) == {*CHECKS, 12}


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 4, 5, 6, 7])
def test_the_cpu_agrees_with_itself(number: int) -> None:
    finding = check(number, CPU)
    assert finding.state == "passed", finding.traceback


@on_second
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2, 4, 5, 6, 7, 8, 9, 10, 11])
def test_a_device_that_computes_as_the_cpu_passes(number: int, device: torch.device) -> None:
    finding = check(number, device)
    assert finding.state == "passed", finding.traceback


@on_second
@pytest.mark.slow
def test_a_step_that_waits_is_found(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    start = SeededNoise.start

    def waiting(self: SeededNoise, weights: Any, divisor: float) -> list[Tensor]:
        drawn = start(self, weights, divisor)
        assert drawn[0].sum().item() is not None
        return drawn

    monkeypatch.setattr(SeededNoise, "start", waiting)
    finding = check(8, device)
    assert finding.state == "failed"
    assert "a step of dp-sgd synchronises 1 times, allowed 0" in str(finding.message)


def test_noise_that_is_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    start = SeededNoise.start

    def small(self: SeededNoise, weights: Any, divisor: float) -> list[Tensor]:
        return [0.99 * each for each in start(self, weights, divisor)]

    monkeypatch.setattr(SeededNoise, "start", small)
    finding = check(5, CPU)
    assert finding.state == "failed" and "variance of the noise" in str(finding.message)


def test_two_processes_that_disagree_are_detected() -> None:
    finding = perform(6, Bench(CPU, lambda: "another"))
    assert finding.state == "failed" and "2 different models" in str(finding.message)


def test_rounding_as_in_tf32_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(x: Tensor, w: Tensor) -> Tensor:
        kept = (x.view(torch.int32) & ~0x1FFF).view(torch.float32) if x.dtype == torch.float32 else x
        return torch.nn.functional.conv2d(kept, w)

    monkeypatch.setattr(checks, "conv2d", rounded)
    finding = check(2, CPU)
    assert finding.state == "failed" and "TF32" in str(finding.message)


def test_a_check_that_does_not_apply_is_skipped_with_its_reason() -> None:
    for number in (8, 10, 11):
        finding = perform(number, Bench(CPU, lambda: ""))
        assert finding.state == "skipped" and finding.message
