"""Time and memory of a device: wall and CPU clocks, CUDA events, and peak memory."""

import time
from pathlib import Path
from typing import Protocol

import psutil
import torch


class Stopwatch(Protocol):
    """Measures spans on a device."""

    def start(self) -> object:
        """A mark in time."""
        ...

    def seconds(self, mark: object) -> float:
        """Seconds from the mark until the device has done all work it was given."""
        ...


class CpuStopwatch:
    """Wall time; work on a CPU is done when the call returns."""

    def start(self) -> object:
        """A mark in time."""
        return time.perf_counter()

    def seconds(self, mark: object) -> float:
        """Seconds since the mark."""
        return time.perf_counter() - mark  # type: ignore[operator]


class CudaStopwatch:
    """CUDA events on the current stream: what the device took, not what Python took to ask."""

    def start(self) -> object:
        """Record an event."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, mark: object) -> float:
        """Seconds between the mark and now on the device; waits for it."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        event.synchronize()
        return float(mark.elapsed_time(event)) / 1000  # type: ignore[attr-defined]


def stopwatch(device: torch.device) -> Stopwatch:
    """The stopwatch of a device."""
    return CudaStopwatch() if device.type == "cuda" else CpuStopwatch()


class PeakMemory:
    """The memory high-water mark since this object was made: the CUDA allocator's, or resident memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self.resting = torch.cuda.memory_allocated(device)
        else:
            self._reset_high_water()
            self.resting = int(psutil.Process().memory_info().rss)

    def peak(self) -> int:
        """Bytes at the highest point so far, never below the resting level."""
        if self.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.device))
        return max(self.resting, _high_water())

    @staticmethod
    def _reset_high_water() -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            # Not Linux, or forbidden in a container: the mark then covers the process's whole life.
            return


def _high_water() -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(psutil.Process().memory_info().rss)
