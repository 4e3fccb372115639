"""The second device as the harness sees a card, so that its branches for devices are entered."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from tests.second_device.device import NAME, Event


class Second:
    """Implements harness.jobs.device.Accelerator."""

    host: ClassVar[bool] = False
    name = "second device (simulated)"

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._module: Any = torch.get_device_module(NAME)

    def event(self) -> Event:
        """An event that can be timed."""
        return Event(enable_timing=True)

    def synchronize(self) -> None:
        """Wait for the device, and be counted."""
        self._module.synchronize()

    def reset_peak_memory(self) -> None:
        """Begin a new high-water mark."""
        self._module.reset_peak_memory_stats()

    def memory(self) -> int:
        """Bytes of tensors."""
        return int(self._module.memory_allocated())

    def peak_memory(self) -> int:
        """Their high-water mark."""
        return int(self._module.max_memory_allocated())

    def empty_cache(self) -> None:
        """Nothing is kept."""

    def random_state(self) -> Tensor:
        """16 bytes."""
        state: Tensor = self._module.get_rng_state()
        return state

    def set_random_state(self, state: Tensor) -> None:
        """Put back what `random_state` gave."""
        self._module.set_rng_state(state)

    def identity(self) -> dict[str, str | int | bool | None]:
        """Nothing else is known."""
        return {}
