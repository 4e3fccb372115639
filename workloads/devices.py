"""The device of this process: the requested one, with no silent fallback."""

import os
import re
from pathlib import Path

import torch

from workloads.errors import DeviceError

VARIABLE = "PRIVBENCH_DEVICE"
"""The kind of device: `cuda` if a process was given a GPU, `cpu` to ignore GPUs."""
DRIVER = Path("/proc/driver/nvidia/version")
CPU = torch.device("cpu")


def best_device() -> torch.device:
    """The device that PRIVBENCH_DEVICE names; without it the GPU that torch sees, else the CPU.

    Raises:
        DeviceError: The named device is missing.
    """
    kind = os.environ.get(VARIABLE)
    if kind:
        return find_device(kind)
    return find_device("cuda") if torch.cuda.is_available() else CPU


def find_device(kind: str) -> torch.device:
    """The first device of a kind: `cpu`, `cuda`, or any other backend of this torch.

    With its index, like that of tensors and generators on it: `cuda` and `cuda:0` are not equal.

    Raises:
        DeviceError: It is missing; the message states what was found.
    """
    try:
        available = torch.get_device_module(kind).is_available()
    except RuntimeError as error:  # a kind of device that torch does not know
        raise DeviceError(kind, f"torch knows no such device; give {VARIABLE}=cuda or cpu") from error
    if not available:
        raise DeviceError(kind, missing_gpu() if kind == "cuda" else "torch sees none here")
    return CPU if kind == "cpu" else torch.device(kind, 0)


def missing_gpu() -> str:
    """Why torch sees no GPU, as far as can be found out, and what to do."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = (
        f"torch {torch.__version__} built for CUDA {torch.version.cuda}, driver {driver_version()}, "
        f"torch.cuda.is_available() {torch.cuda.is_available()}, device_count {torch.cuda.device_count()}, "
        f"CUDA_VISIBLE_DEVICES {'not set' if visible is None else repr(visible)}"
    )
    return f"torch sees no GPU here ({found}); {_remedy(visible)}, or set {VARIABLE}=cpu to use the CPU"


def _remedy(visible: str | None) -> str:
    if torch.version.cuda is None:
        return "install a torch built for CUDA (in a container: the CUDA image)"
    if visible is not None and not re.match(r"\d|GPU-|MIG-", visible):
        return "let CUDA_VISIBLE_DEVICES name a GPU"
    if driver_version() is None:
        return "install NVIDIA's driver, or give the container its GPUs (docker --gpus, apptainer --nv)"
    return f"update the driver, or install a torch built for an older CUDA than {torch.version.cuda}"


def driver_version() -> str | None:
    """The version of NVIDIA's kernel driver; None if there is none."""
    try:
        text = DRIVER.read_text()
    except OSError:
        return None
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return found.group() if found else None
