"""A fake card behind the interface of harness/jobs/device.py: events and memory that a test can count.

It is registered for `meta`, a device of torch that computes nothing; tensors stay on the CPU. As on a GPU an
event cannot be read before somebody has waited for it or for a later one. Every record takes a millisecond,
so that times are known.
"""

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from harness.jobs.device import ACCELERATORS, Event, Identity


class FakeEvent:
    """An event that counts waits and refuses to be read too early."""

    def __init__(self, card: type["FakeCard"]) -> None:
        self.card, self.moment = card, 0

    def record(self) -> None:
        self.card.now += 1
        self.moment = self.card.now

    def synchronize(self) -> None:
        self.card.waits += 1
        self.card.passed = max(self.card.passed, self.moment)

    def elapsed_time(self, end: Any) -> float:
        if max(self.moment, end.moment) > self.card.passed:
            raise RuntimeError("CUDA error: device not ready")
        return float(end.moment - self.moment)


class FakeCard:
    """See the module; its state belongs to the class, as a card's to the process."""

    host: ClassVar[bool] = False
    name = "Fake A100"
    now = waits = passed = events = emptied = 0
    in_use = high_water = 0
    stream: ClassVar[Tensor] = torch.zeros(16, dtype=torch.uint8)

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def event(self) -> Event:
        type(self).events += 1
        return FakeEvent(type(self))

    def synchronize(self) -> None:
        type(self).waits += 1

    def reset_peak_memory(self) -> None:
        type(self).high_water = self.in_use

    def memory(self) -> int:
        return self.in_use

    def peak_memory(self) -> int:
        return self.high_water

    def empty_cache(self) -> None:
        type(self).emptied += 1

    def random_state(self) -> Tensor:
        return self.stream.clone()

    def set_random_state(self, state: Tensor) -> None:
        type(self).stream = state

    def identity(self) -> Identity:
        return {"gpu_uuid": "GPU-1"}

    @classmethod
    def allocate(cls, size: int) -> None:
        """Allocate bytes, or free them if negative."""
        cls.in_use += size
        cls.high_water = max(cls.high_water, cls.in_use)


FAKE = torch.device("meta")


def new_card(monkeypatch: pytest.MonkeyPatch) -> type[FakeCard]:
    """A new fake card."""
    made = type("Card", (FakeCard,), {})
    monkeypatch.setitem(ACCELERATORS, FAKE.type, made)
    return made
