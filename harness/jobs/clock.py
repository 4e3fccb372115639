"""Time and memory of a device: events that are recorded in a step and read later, and peak memory."""

from collections.abc import Sequence

import torch

from harness.jobs.device import Event, accelerator

Span = tuple[Event, Event]


class Stopwatch:
    """Marks in a device's stream of work, read together after one wait.

    What lies between two marks is the time between events, idle gaps included: a device that waits for
    Python is charged for it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = accelerator(device)
        self._spare: list[Event] = []

    def mark(self) -> Event:
        """Mark what the device was given so far; does not wait."""
        event = self._spare.pop() if self._spare else self._device.event()
        event.record()
        return event

    def read(self, spans: Sequence[Span]) -> list[float]:
        """Seconds of each span; waits once, for the end of the last, and takes all marks back."""
        spans[-1][1].synchronize()
        seconds = [begin.elapsed_time(end) / 1000 for begin, end in spans]
        self._spare += [event for span in spans for event in span]
        return seconds


class PeakMemory:
    """The memory high-water mark since this object was made: the allocator's, or resident memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = accelerator(device)
        self._device.reset_peak_memory()
        self.resting = self._device.memory()

    def peak(self) -> int:
        """Bytes at the highest point so far, never below the resting level."""
        return max(self.resting, self._device.peak_memory())
