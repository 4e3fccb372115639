"""Time and memory of a device: marks that are made in a step and read later, and peak memory."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from harness.jobs.device import Accelerator, Event, Host, accelerator

Span = tuple[Any, Any]
"""Two marks of one stopwatch."""


class Stopwatch(Protocol):
    """Marks in a device's stream of work, read together."""

    def mark(self) -> Any:
        """Mark what the device was given so far; does not wait."""
        ...

    def read(self, spans: Sequence[Span]) -> list[float]:
        """Seconds of each span, the last of which ends last; its marks are read once."""
        ...


class HostStopwatch:
    """The wall clock; work on a CPU is done when the call returns."""

    mark = staticmethod(time.perf_counter)

    def read(self, spans: Sequence[Span]) -> list[float]:
        """Seconds of each span."""
        return [end - begin for begin, end in spans]


class EventStopwatch:
    """Events of a device, used again once they are read.

    What lies between two is the time between events, idle gaps included: a device that waits for Python is
    charged for it.
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
        """Seconds of each span, after one wait, for the end of the last."""
        spans[-1][1].synchronize()
        seconds = [begin.elapsed_time(end) / 1000 for begin, end in spans]
        self._spare += [event for span in spans for event in span]
        return seconds


def stopwatch(device: torch.device) -> Stopwatch:
    """The stopwatch of a device."""
    made = accelerator(device)
    return HostStopwatch() if isinstance(made, Host) else EventStopwatch(made)


class PeakMemory:
    """The memory high-water mark since this object was made: the allocator's, or resident memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = accelerator(device)
        self._device.reset_peak_memory()
        self.resting = self._device.memory()

    def peak(self) -> int:
        """Bytes at the highest point so far, never below the resting level."""
        return max(self.resting, self._device.peak_memory())
