"""Device-specific operations behind one interface, and the setup of a process for a device.

Timing, memory and random state go through `accelerator`; other kinds of devices are added to ACCELERATORS.
The CUDA code was written from torch's sources and has never run on a card.
"""

import os
import sys
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
    """A timing event in a device's stream of work."""

    def record(self) -> None:
        """Mark the present end of the stream; may be recorded again once read."""
        ...

    def synchronize(self) -> None:
        """Wait until the device has reached the event."""
        ...

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from this event to a later one; the device must have reached both."""
        ...


class Accelerator(Protocol):
    """The interface of a device other than the CPU: events, memory, random state, identity."""

    host: ClassVar[bool]
    """Whether it is the CPU."""

    def __init__(self, device: torch.device) -> None: ...

    def event(self) -> Event:
        """A new event."""
        ...

    def synchronize(self) -> None:
        """Wait for all queued work."""
        ...

    def reset_peak_memory(self) -> None:
        """Reset the peak."""
        ...

    def memory(self) -> int:
        """Bytes in use now."""
        ...

    def peak_memory(self) -> int:
        """Peak bytes since the last reset."""
        ...

    def empty_cache(self) -> None:
        """Release cached memory."""
        ...

    def random_state(self) -> Tensor:
        """The state of torch's default generator on the device."""
        ...

    def set_random_state(self, state: Tensor) -> None:
        """Restore a state returned by `random_state`."""
        ...

    @property
    def name(self) -> str:
        """`cpu`, or the name of the card."""
        ...

    def identity(self) -> Identity:
        """Details of the card, for provenance."""
        ...


class Host:
    """The CPU: resident memory of the process; no events, since work is done when a call returns."""

    host: ClassVar[bool] = True
    name = "cpu"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def synchronize(self) -> None:
        """Return at once: no work is queued."""

    def reset_peak_memory(self) -> None:
        """Reset the kernel's peak; if that is forbidden, the peak is since the start of the process."""
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:  # not Linux, or forbidden in a container
            return

    def memory(self) -> int:
        """Resident bytes."""
        return int(psutil.Process().memory_info().rss)

    def peak_memory(self) -> int:
        """Peak resident bytes, as the kernel reports it."""
        try:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        except OSError:
            pass
        return self.memory()

    def empty_cache(self) -> None:
        """Do nothing: memory of the process is managed by malloc."""

    def random_state(self) -> Tensor:
        """Of torch's default CPU generator."""
        return torch.get_rng_state()

    def set_random_state(self, state: Tensor) -> None:
        """Of torch's default CPU generator."""
        torch.set_rng_state(state)

    def identity(self) -> Identity:
        """Empty: the processor is part of every provenance."""
        return {}


class Cuda:
    """An NVIDIA GPU: events on the current stream, the allocator's memory."""

    host: ClassVar[bool] = False

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def event(self) -> Event:
        """A new timing event."""
        event: Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        return event

    def synchronize(self) -> None:
        """Wait for all work."""
        torch.cuda.synchronize(self.device)

    def reset_peak_memory(self) -> None:
        """Reset the allocator's peak."""
        torch.cuda.reset_peak_memory_stats(self.device)

    def memory(self) -> int:
        """Allocated bytes, without the context and the workspaces of cuBLAS and cuDNN."""
        return int(torch.cuda.memory_allocated(self.device))

    def peak_memory(self) -> int:
        """Peak allocated bytes."""
        return int(torch.cuda.max_memory_allocated(self.device))

    def empty_cache(self) -> None:
        """Release the allocator's free blocks."""
        torch.cuda.empty_cache()

    def random_state(self) -> Tensor:
        """Of the device's default generator."""
        return torch.cuda.get_rng_state(self.device)

    def set_random_state(self, state: Tensor) -> None:
        """Of the device's default generator."""
        torch.cuda.set_rng_state(state, self.device)

    @property
    def name(self) -> str:
        """NVIDIA's name of the card."""
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
    """The accelerator of a device."""
    if device.type not in ACCELERATORS:
        raise DeviceError(device.type, unknown("kind of device", device.type, ACCELERATORS))
    return ACCELERATORS[device.type](device)


COMPILES = "TORCHINDUCTOR_DETERMINISTIC"
"""The variable by which torch's compiler learns, when it loads, whether it must be deterministic."""


def set_deterministic(mode: int | str) -> None:
    """Set torch's mode of deterministic algorithms ("error", or 0 to 2), for its compiler as well.

    As torch.use_deterministic_algorithms does, which loads the compiler to tell it: longer than many
    trainings take, and few compile.
    """
    torch.set_deterministic_debug_mode(mode)
    enabled = torch.are_deterministic_algorithms_enabled()
    os.environ[COMPILES] = str(int(enabled))
    if "torch._inductor.config" in sys.modules:
        sys.modules["torch._inductor.config"].deterministic = enabled  # type: ignore[attr-defined]


def prepare(device: torch.device, threads: int) -> None:
    """Make this process deterministic on the device, with IEEE single precision.

    Used by jobs, benches and probes, so that all compute the same.
    """
    if device.type != "cpu":
        cublas.set_workspace()  # torch reads it at the first matrix product
        cublas.check_workspace()
    # The same task must give the same bits: no unordered sums.
    set_deterministic("error")
    # Deterministic mode fills fresh memory with NaN to expose its use, at the cost of writing every tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    # TF32 keeps 10 mantissa bits in convolutions, while norms of the same gradients have 23. These are
    # torch's older switches: its compiler reads them, which fails once the newer fp32_precision is set.
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_num_threads(threads)


@contextmanager
def prepared(device: torch.device, threads: int) -> Iterator[None]:
    """`prepare` within a context, then restore: the process may be the user's own."""
    deterministic, compiles = torch.get_deterministic_debug_mode(), os.environ.get(COMPILES)
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    tf32 = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    before = torch.get_num_threads()
    prepare(device, threads)
    try:
        yield
    finally:
        set_deterministic(deterministic)
        if compiles is None:
            os.environ.pop(COMPILES, None)
        else:
            os.environ[COMPILES] = compiles
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.set_num_threads(before)


def arithmetic() -> Identity:
    """The arithmetic settings of this process, as made by `prepare`."""
    return {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "fp32_convolution": "tf32" if torch.backends.cudnn.allow_tf32 else "ieee",
        "fp32_matmul": "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
        "cublas_workspace": os.environ.get(cublas.VARIABLE),
    }
