import time
from pathlib import Path

import pytest
import torch

from harness.clock import PeakMemory, stopwatch

CPU = torch.device("cpu")
MB = 1 << 20


def test_a_stopwatch_measures_wall_time() -> None:
    watch = stopwatch(CPU)
    before = time.perf_counter()
    mark = watch.start()
    time.sleep(0.02)
    seconds = watch.seconds(mark)
    assert 0.02 <= seconds <= time.perf_counter() - before


def test_the_peak_holds_memory_that_was_given_back() -> None:
    memory = PeakMemory(CPU)
    resting = memory.resting
    block = torch.ones(64 * MB, dtype=torch.uint8)
    del block
    assert memory.peak() >= resting + 60 * MB
    assert memory.resting == resting > 10 * MB


def test_a_new_peak_starts_from_the_present() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        pytest.skip(f"the kernel does not let the high-water mark be reset: {error}")
    block = torch.ones(64 * MB, dtype=torch.uint8)
    del block
    later = PeakMemory(CPU)
    assert later.peak() < later.resting + 60 * MB
