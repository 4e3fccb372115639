"""What differs between kinds of devices, behind one seam, and a process made ready for one.

Everything in the harness that times, weighs or saves goes through `accelerator`; another kind of device is
added to ACCELERATORS. The GPU's side was written from torch's sources and has never run on a card.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import psutil
import torch
from torch import Tensor

from harness.jobs import cublas
from workloads.devices import driver_version
from workloads.errors import DeviceError, unknown

Identity = dict[str, str | int | bool | None]


class Event(Protocol):
    """A mark in a device's stream of work."""

    def record(self) -> None:
        """Mark what the device was given so far; it may be marked again once it was read."""
        ...

    def synchronize(self) -> None:
        """Wait until the device has passed the mark."""
        ...

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from this mark to another that the device has passed too."""
        ...


class Accelerator(Protocol):
    """A device other than the CPU as the harness sees it: events, memory, torch's random stream, identity."""

    host: ClassVar[bool]
    """Whether it is the CPU: work is done when a call returns, and memory is that of the process."""

    def __init__(self, device: torch.device) -> None: ...

    def event(self) -> Event:
        """A new event."""
        ...

    def synchronize(self) -> None:
        """Wait for all work that the device was given."""
        ...

    def reset_peak_memory(self) -> None:
        """Begin a new high-water mark."""
        ...

    def memory(self) -> int:
        """Bytes in use now."""
        ...

    def peak_memory(self) -> int:
        """Bytes at the high-water mark."""
        ...

    def empty_cache(self) -> None:
        """Give back memory that is kept for later."""
        ...

    def random_state(self) -> Tensor:
        """The state of torch's own stream on the device."""
        ...

    def set_random_state(self, state: Tensor) -> None:
        """Put back what `random_state` gave."""
        ...

    @property
    def name(self) -> str:
        """`cpu`, or the name of the card."""
        ...

    def identity(self) -> Identity:
        """What else is known of the card, for provenance."""
        ...


class Host:
    """The CPU: resident memory of the process, and no events, since work is done when a call returns."""

    host: ClassVar[bool] = True
    name = "cpu"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def reset_peak_memory(self) -> None:
        """Ask the kernel to; where it may not be asked the mark covers the process's whole life."""
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:  # not Linux, or forbidden in a container
            return

    def memory(self) -> int:
        """Resident bytes."""
        return int(psutil.Process().memory_info().rss)

    def peak_memory(self) -> int:
        """The kernel's high-water mark of resident bytes."""
        try:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        except OSError:
            pass
        return self.memory()

    def empty_cache(self) -> None:
        """Memory of the process is malloc's own affair."""

    def random_state(self) -> Tensor:
        """Of torch's default generator."""
        return torch.get_rng_state()

    def set_random_state(self, state: Tensor) -> None:
        """Of torch's default generator."""
        torch.set_rng_state(state)

    def identity(self) -> Identity:
        """Nothing: the processor is in every provenance."""
        return {}


class Cuda:
    """An NVIDIA GPU: events on the current stream, the allocator's memory."""

    host: ClassVar[bool] = False

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def event(self) -> Event:
        """An event that knows its time."""
        event: Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        return event

    def synchronize(self) -> None:
        """Wait for all work."""
        torch.cuda.synchronize(self.device)

    def reset_peak_memory(self) -> None:
        """Of the allocator."""
        torch.cuda.reset_peak_memory_stats(self.device)

    def memory(self) -> int:
        """Allocated bytes; without the context and the workspaces of cuBLAS and cuDNN."""
        return int(torch.cuda.memory_allocated(self.device))

    def peak_memory(self) -> int:
        """The most allocated bytes."""
        return int(torch.cuda.max_memory_allocated(self.device))

    def empty_cache(self) -> None:
        """Give the allocator's free blocks back to the card."""
        torch.cuda.empty_cache()

    def random_state(self) -> Tensor:
        """Of the device's default generator."""
        return torch.cuda.get_rng_state(self.device)

    def set_random_state(self, state: Tensor) -> None:
        """Of the device's default generator."""
        torch.cuda.set_rng_state(state, self.device)

    @property
    def name(self) -> str:
        """As NVIDIA calls the card."""
        return torch.cuda.get_device_name(self.device)

    def identity(self) -> Identity:
        """Card, driver and libraries."""
        card = torch.cuda.get_device_properties(self.device)
        return {
            "gpu_uuid": str(getattr(card, "uuid", "")) or None,
            "gpu_memory_bytes": int(card.total_memory),
            "compute_capability": f"{card.major}.{card.minor}",
            "driver": driver_version(),
            "cuda": torch.version.cuda,
            "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "cuda_allocator": _allocator_settings(),
        }


def _allocator_settings() -> str | None:
    return os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")


ACCELERATORS: dict[str, type[Host] | type[Accelerator]] = {"cpu": Host, "cuda": Cuda}
"""By kind of device, as `torch.device.type` has it."""


def accelerator(device: torch.device) -> Host | Accelerator:
    """The device as the harness sees it."""
    if device.type not in ACCELERATORS:
        raise DeviceError(device.type, unknown("kind of device", device.type, ACCELERATORS))
    return ACCELERATORS[device.type](device)


def prepare(device: torch.device, threads: int) -> None:
    """Let the same work on this device give the same bits, and single precision be IEEE's.

    Job, bench and probe do it, so that what is timed and planned is what is trained.
    """
    if device.type != "cpu":
        cublas.set_workspace()  # torch reads it at the first matrix product
        cublas.check_workspace()
    # The same task must give the same bits: nothing may pick a faster, unordered sum.
    torch.use_deterministic_algorithms(True)
    # Deterministic mode fills fresh memory with NaN, to show its use; that is a write of every tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    # TF32 keeps 10 bits of what convolutions read, while the norms of the same gradients have 23. These are
    # torch's older switches: its compiler reads them, which fails once the newer fp32_precision was set.
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_num_threads(threads)


@contextmanager
def prepared(device: torch.device, threads: int) -> Iterator[None]:
    """`prepare` for a while: the process may be a user's own."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    tf32 = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    before = torch.get_num_threads()
    prepare(device, threads)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.set_num_threads(before)


def arithmetic() -> Identity:
    """How this process computes: what `prepare` has set."""
    return {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "fp32_convolution": "tf32" if torch.backends.cudnn.allow_tf32 else "ieee",
        "fp32_matmul": "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
        "cublas_workspace": os.environ.get(cublas.VARIABLE),
    }
