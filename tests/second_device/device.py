"""torch.device("second"): a device without hardware that refuses and waits where CUDA does (device.cpp).

What would wait for a GPU is reported with the innermost line of our own that led to it.
"""

import importlib
import importlib.util
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils import backend_registration as backend

from tests.second_device.build import built

NAME = "second"
ROOT = Path(__file__).parents[2]
OURS = ("methods", "workloads", "harness", "tests")
NO_LINE = "no line of ours"
"""Where a wait has no Python above it: in autograd's own thread."""


@dataclass(frozen=True)
class Wait:
    """One moment at which a GPU would have been waited for."""

    why: str
    """The operator."""
    line: str
    """`methods/training/sampling.py:58`, the innermost line of ours, or NO_LINE."""

    def __str__(self) -> str:
        return f"{self.line} waits ({self.why})"


class Event:
    """A point in the device's work, as torch.cuda.Event: it can be read when it was waited for."""

    _recorded = _reached = 0

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self.enable_timing, self.blocking = enable_timing, blocking
        self._number, self._time = 0, 0.0

    def record(self, stream: object = None) -> None:
        """Mark the end of the work that was asked for so far."""
        Event._recorded += 1
        self._number, self._time = Event._recorded, time.perf_counter()

    def synchronize(self) -> None:
        """Wait for it; all events before it are then past too."""
        extension().report_wait("event.synchronize")
        Event._reached = max(Event._reached, self._number)

    def query(self) -> bool:
        """Whether it is known to be past."""
        return 0 < self._number <= Event._reached

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds from this event to another; both must be past."""
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.query() and end.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return 1000 * (end._time - self._time)


@cache
def extension() -> ModuleType:
    """The compiled device, registered with torch under its name; CannotBuild where it cannot be had."""
    made = built()
    backend.rename_privateuse1_backend(NAME)
    made.start()
    torch._register_device_module(NAME, _module(made))  # type: ignore[no-untyped-call]
    backend.generate_methods_for_privateuse1_backend(for_storage=False)
    _tell_the_harness()
    return made


def second_device() -> torch.device:
    """The device, built and registered at first use; with an index, as tensors say theirs."""
    extension()
    return torch.device(NAME, 0)


@contextmanager
def listening() -> Iterator[list[Wait]]:
    """Everything that waits for the device inside."""
    heard: list[Wait] = []
    extension().listen(lambda why: heard.append(Wait(why, _innermost())))
    try:
        yield heard
    finally:
        extension().listen(None)


def memory_allocated(device: object = None) -> int:
    """Bytes of all tensors on the device."""
    return int(extension().allocated())


def _module(made: Any) -> ModuleType:
    """`torch.second`: what torch and the harness ask of `torch.cuda`."""
    module: Any = ModuleType(f"torch.{NAME}")
    module.is_available = module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module._lazy_init = lambda: None
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.set_device = lambda device: None
    module.get_device_name = lambda device=None: "second device (simulated)"
    module.manual_seed = module.manual_seed_all = made.manual_seed
    module.get_rng_state = lambda device=None: made.get_state()
    module.set_rng_state = lambda state, device=None: made.set_state(state)
    module.memory_allocated = memory_allocated
    module.max_memory_allocated = lambda device=None: int(made.peak())
    module.reset_peak_memory_stats = lambda device=None: made.reset_peak()
    module.empty_cache = lambda: None
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    module.Event = Event
    module.synchronize = _synchronize
    return module  # type: ignore[no-any-return]


def _tell_the_harness() -> None:
    """Let the harness time, weigh and save on the device as on a card, where it has the seam for it."""
    if importlib.util.find_spec("harness.jobs.device") is None:
        return
    seam: Any = importlib.import_module("harness.jobs.device")
    seam.ACCELERATORS[NAME] = importlib.import_module("tests.second_device.accelerator").Second


def _synchronize(device: object = None) -> None:
    extension().report_wait("synchronize")
    Event._reached = Event._recorded


def _innermost() -> str:
    frame = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT):
            inner = path.relative_to(ROOT)
            if inner.parts[0] in OURS and path != Path(__file__):
                return f"{inner.as_posix()}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return NO_LINE


def lines(waits: list[Wait]) -> str:
    """Waits for a failed assertion, a line for each place, with how often."""
    counted: dict[str, int] = {}
    for wait in waits:
        counted[str(wait)] = counted.get(str(wait), 0) + 1
    return "\n".join(f"{count} x {line}" for line, count in sorted(counted.items()))
