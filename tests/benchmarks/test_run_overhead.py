"""What the instrumentation of `run.steps` costs: a promise of 1 % of a step of 1 ms, 10 microseconds."""

import statistics
import time
from collections.abc import Callable

import pytest
import torch

from harness.jobs.run import Run

pytestmark = pytest.mark.benchmark

STEPS, REPEATS = 2000, 7
MILLISECOND = 1e-3


def bare() -> None:
    for _ in range(STEPS):
        pass


def stepped() -> None:
    for _ in Run("overhead", torch.device("cpu")).steps("train", STEPS, {}):
        pass


def clocked() -> None:
    run = Run("overhead", torch.device("cpu"))
    for _ in run.steps("train", STEPS, {}):
        for name in ("batch", "gradients", "update"):
            with run.clock(name):
                pass
        run.observe(loss=0.5)


def cost(loop: Callable[[], None]) -> float:
    """CPU seconds of one step; the median of several loops."""
    taken = []
    for _ in range(REPEATS):
        begin = time.process_time()
        loop()
        taken.append((time.process_time() - begin) / STEPS)
    return statistics.median(taken)


@pytest.mark.parametrize("loop", [stepped, clocked])
def test_instrumentation_is_small_beside_a_step_of_a_millisecond(
    loop: Callable[[], None], record_property: Callable[[str, object], None]
) -> None:
    share = (cost(loop) - cost(bare)) / MILLISECOND
    record_property("share_of_1ms", share)
    # Promised is 1 %; a busy machine with cold caches gets room.
    assert 0 < share < 0.05
