import mmap
import time
from pathlib import Path

import pytest
import torch

from harness.jobs.clock import PeakMemory, stopwatch

CPU = torch.device("cpu")
MB = 1 << 20


def test_a_stopwatch_measures_wall_time() -> None:
    watch = stopwatch(CPU)
    before = time.perf_counter()
    mark = watch.mark()
    time.sleep(0.02)
    (seconds,) = watch.read([(mark, watch.mark())])
    assert 0.02 <= seconds <= time.perf_counter() - before


def occupy(size: int) -> None:
    """Raise the resident memory by this much and release it, bypassing the allocator.

    A tensor may reuse memory that the process has freed before.
    """
    with mmap.mmap(-1, size) as pages:
        for start in range(0, size, mmap.PAGESIZE):
            pages[start] = 1


def test_the_peak_holds_memory_that_was_given_back() -> None:
    memory = PeakMemory(CPU)
    resting = memory.resting
    occupy(64 * MB)
    assert memory.peak() >= resting + 60 * MB
    assert memory.resting == resting > 10 * MB


def test_a_new_peak_starts_from_the_present() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        pytest.skip(f"the kernel does not let the high-water mark be reset: {error}")
    occupy(64 * MB)
    later = PeakMemory(CPU)
    assert later.peak() < later.resting + 60 * MB
