"""The device of this process: the one it was given, never another in silence."""

import os
import re
from pathlib import Path

import torch

from workloads.errors import DeviceError

VARIABLE = "PRIVBENCH_DEVICE"
"""Names the kind of device: `cuda` where a process was given a GPU, `cpu` to leave GPUs alone."""
DRIVER = Path("/proc/driver/nvidia/version")
CPU = torch.device("cpu")


def best_device() -> torch.device:
    """The device that PRIVBENCH_DEVICE names; without it the GPU that torch sees, else the CPU.

    Raises:
        DeviceError: The one it names is not there.
    """
    asked = os.environ.get(VARIABLE)
    if asked:
        return find_device(asked)
    return find_device("cuda") if torch.cuda.is_available() else CPU


def find_device(kind: str) -> torch.device:
    """The first device of a kind: `cpu`, `cuda`, or what else this torch was taught.

    With its number, as tensors and generators on it have: `cuda` and `cuda:0` are not equal.

    Raises:
        DeviceError: There is none here, with what was found.
    """
    try:
        available = torch.get_device_module(kind).is_available()
    except RuntimeError as error:  # no kind of device that torch knows
        raise DeviceError(kind, f"torch knows no such device; give {VARIABLE}=cuda or cpu") from error
    if not available:
        raise DeviceError(kind, missing_gpu() if kind == "cuda" else "torch sees none here")
    return CPU if kind == "cpu" else torch.device(kind, 0)


def missing_gpu() -> str:
    """Why torch sees no GPU, as far as it can be seen from here, and what to do."""
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
    """The version of NVIDIA's kernel driver; None where there is none to be seen."""
    try:
        text = DRIVER.read_text()
    except OSError:
        return None
    found = re.search(r"\b\d{3,}\.\d+(\.\d+)?\b", text)
    return found.group() if found else None
