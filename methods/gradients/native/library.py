"""Our C code as a shared library: compiled at first use, kept in the user's cache, called by ctypes."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from workloads.data.places import user_folder
from workloads.errors import SpecError

SOURCES = [Path(__file__).with_name(name) for name in ("kernels.c", "images.c")]
REALS = {torch.float32: "float", torch.float64: "double"}
# No -ffast-math: norms that are not finite must be seen.
OPTIONS = ("-std=c11", "-O3", "-march=native", "-fno-math-errno", "-fPIC", "-shared")
COMPILERS = ("cc", "gcc", "clang")


class Places(ctypes.Structure):
    """As in kernels.c."""

    _fields_ = [(name, ctypes.c_long) for name in ("high", "wide", "line", "place", "entry")]


class Convolution(ctypes.Structure):
    """As in kernels.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("a", "b")),
        *((name, ctypes.c_long) for name in ("height", "line", "top", "left", "framed", "framed_line")),
        ("places", Places),
        *((name, ctypes.c_long) for name in ("rows", "runs", "run", "to_row", "to_run", "outputs", "bias")),
        *((name, ctypes.c_void_p) for name in ("removed", "sum")),
    ]


class Pool(ctypes.Structure):
    """As in images.c."""

    _fields_ = [
        (name, ctypes.c_long)
        for name in ("width", "channels", "high", "wide", "rows", "columns", "down", "right")
    ]


class Link(ctypes.Structure):
    """As in kernels.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("a", "weight")),
        *((name, ctypes.c_long) for name in ("inputs", "outputs", "activation")),
        *((name, ctypes.c_void_p) for name in ("onto_weight", "onto_bias")),
    ]


@cache
def load(dtype: torch.dtype) -> ctypes.CDLL:
    """The library for numbers of this type; SpecError if it cannot be compiled here."""
    library = ctypes.CDLL(str(_compiled(REALS[dtype])))
    for name in ("convolutions", "group_norm", "max_pool", "max_pool_backward"):
        getattr(library, name).restype = None
    library.chain.restype = library.lanes.restype = ctypes.c_long
    return library


def computes(weight: Tensor) -> bool:
    """Whether the library is for the device and the numbers of this weight."""
    return weight.device.type == "cpu" and weight.dtype in REALS


def pointer(tensor: Tensor) -> ctypes.c_void_p:
    """The memory of a tensor, for C."""
    return ctypes.c_void_p(tensor.data_ptr())


def padded(width: int, like: Tensor) -> int:
    """The width of a row of such numbers, padded to whole vectors."""
    lanes: int = load(like.dtype).lanes()
    return -(-width // lanes) * lanes


def _compiled(real: str) -> Path:
    """The file of the library, compiled unless this machine has it."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise refused(f"needs a C compiler, but found none of {', '.join(COMPILERS)}; install one")
    command = [compiler, *OPTIONS, f"-DREAL={real}", *map(str, SOURCES), "-lm"]
    file = user_folder() / "native" / f"{_digest([*command, _processor()])}.so"
    if file.exists():
        return file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole: many workers may compile it at once.
        with tempfile.TemporaryDirectory(dir=file.parent) as aside:
            made = Path(aside) / file.name
            subprocess.run([*command, "-o", str(made)], check=True, capture_output=True, text=True)
            made.replace(file)
    except subprocess.CalledProcessError as error:
        line = (error.stderr.strip().splitlines() or ["no message"])[0]
        raise refused(f"cannot be compiled by {compiler} ({line})") from error
    except OSError as error:
        raise refused(f"cannot be compiled into {file.parent} ({error.strerror})") from error
    return file


def refused(problem: str) -> SpecError:
    """Why the engine does not run here."""
    return SpecError(
        f"engine 'native' {problem}, or use engine = 'bookkeeping'",
        field="engine",
        value="native",
        allowed=("bookkeeping",),
    )


def _digest(words: Sequence[str]) -> str:
    content = b"".join(source.read_bytes() for source in SOURCES) + "\0".join(words).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _processor() -> str:
    """What -march=native depends on: a home may be shared by machines of several kinds."""
    cpu = Path("/proc/cpuinfo")
    if not cpu.exists():
        return f"{platform.machine()} {platform.processor()} {os.name}"
    lines = cpu.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))}))
