"""The fixture `device`: a test runs on the CPU and on the second device."""

from functools import cache

import pytest
import torch

from tests.second_device.build import CannotBuild
from tests.second_device.device import NAME, second_device

SECOND = pytest.param(NAME, marks=pytest.mark.second_device)
on_both = pytest.mark.parametrize("device", ["cpu", SECOND], indirect=True)
on_second = pytest.mark.parametrize("device", [SECOND], indirect=True)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> torch.device:
    """The device that a test is parametrised with; skipped where the second one cannot be compiled."""
    if request.param != NAME:
        return torch.device(request.param)
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(f"no second device: {obstacle}")
    return second_device()


@cache
def find_obstacle() -> str | None:
    """Why there is no second device here; None where there is one, which is then there for good.

    It must be asked before the first backward pass of the process.
    """
    try:
        second_device()
    except CannotBuild as error:
        return str(error)
    return None
