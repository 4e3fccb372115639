"""Time and peak memory on a device; times are marked in a step and read later."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from harness.jobs.device import Accelerator, Event, Host, accelerator

Span = tuple[Any, Any]
"""Two marks of a stopwatch."""


class Stopwatch(Protocol):
    """Marks in a device's stream of work, read in batches."""

    def mark(self) -> Any:
        """Mark the present end of the stream; does not wait."""
        ...

    def read(self, spans: Sequence[Span]) -> list[float]:
        """Seconds of each span; the last one must end last, and each mark can be read once."""
        ...


class HostStopwatch:
    """The wall clock: work on a CPU is done when the call returns."""

    mark = staticmethod(time.perf_counter)

    def read(self, spans: Sequence[Span]) -> list[float]:
        """Seconds of each span."""
        return [end - begin for begin, end in spans]


class EventStopwatch:
    """Events of a device, reused once read.

    Spans include idle gaps: the time a device waits for Python is counted.
    """

    def __init__(self, device: Accelerator) -> None:
        self._device = device
        self._spare: list[Event] = []

    def mark(self) -> Event:
        """Record an event; does not wait."""
        event = self._spare.pop() if self._spare else self._device.event()
        event.record()
        return event

    def read(self, spans: Sequence[Span]) -> list[float]:
        """Seconds of each span, after one wait for the last."""
        spans[-1][1].synchronize()
        seconds = [begin.elapsed_time(end) / 1000 for begin, end in spans]
        self._spare += [event for span in spans for event in span]
        return seconds


def stopwatch(device: torch.device) -> Stopwatch:
    """The stopwatch of a device."""
    made = accelerator(device)
    return HostStopwatch() if isinstance(made, Host) else EventStopwatch(made)


class PeakMemory:
    """Peak memory since this object was created: of the allocator, or resident memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = accelerator(device)
        self._device.reset_peak_memory()
        self.resting = self._device.memory()

    def peak(self) -> int:
        """Peak so far, in bytes; at least the resting level."""
        return max(self.resting, self._device.peak_memory())
