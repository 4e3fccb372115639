"""Why a task failed, from the exception that ended it: one word to count by, and what to do."""

import errno
import traceback

import torch

from harness.store.result import Failure
from workloads.errors import BenchError, DeviceError, Diverged, Upstream

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The disk, the user's share of it, or the largest file allowed here is used up."""
NO_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "ALLOC_FAILED",
    "Unable to find a valid cuDNN algorithm",
)
"""Words of errors that are no OutOfMemoryError: of malloc, CUDA, cuBLAS, and cuDNN without a workspace."""
LOST_DEVICE = ("CUDA error", "cuDNN error", "CUDNN_STATUS", "CUBLAS_STATUS", "CUDA driver error")
"""Words of errors after which nothing that this process asks of its GPU can be relied on."""
MEANING = {
    "device-side assert": "a kernel refused its input, often a label or an index out of range: "
    "run it with PRIVBENCH_DEVICE=cpu or CUDA_LAUNCH_BLOCKING=1 to see where",
    "illegal memory access": "a kernel left its memory: run it with CUDA_LAUNCH_BLOCKING=1 to see where",
    "no kernel image is available": "this torch has no code for this card: install one that has",
}
"""What errors of CUDA mean, by words of theirs."""
BUSY = "busy or unavailable"
"""Another process has the card, which takes one at a time."""


def failure(error: Exception) -> Failure:
    """Why a task failed: its reason as one word, its message and where it happened."""
    message = str(error) or type(error).__name__
    if isinstance(error, Diverged):
        reason = "diverged"
    elif isinstance(error, Upstream):
        reason = "upstream"
    elif isinstance(error, MemoryError | torch.OutOfMemoryError) or lacks_memory(error):
        reason = "out_of_memory"
    elif isinstance(error, DeviceError):  # as the next two, it says nothing about the task: it runs again
        reason = "killed"
    elif isinstance(error, RuntimeError) and BUSY in message:
        reason = "killed"
        message = f"another process has the GPU to itself ({message}); run the sweep again when it is free"
    elif isinstance(error, OSError) and error.errno in FULL:
        # It says nothing about the task: asked for again, it runs again, from its checkpoint.
        reason, message = "killed", f"no room to write ({error}); make room and run the sweep again"
    else:
        reason = "error"
        if not isinstance(error, BenchError):
            message = f"{type(error).__name__}: {message}"
        if meaning := next((MEANING[words] for words in MEANING if words in message), None):
            message = f"{meaning} ({message})"
    trace = "".join(traceback.format_exception(error))
    return Failure(reason=reason, message=message, traceback=trace)


def lacks_memory(error: Exception) -> bool:
    """Whether an error of a library means that memory was not to be had."""
    text = str(error)
    workspace = "cudnn" in text.lower() and "workspace" in text
    return isinstance(error, RuntimeError) and (workspace or any(words in text for words in NO_MEMORY))


def loses_device(error: BaseException | None) -> bool:
    """Whether the device failed, in this error or one that caused it: the next task needs a new process."""
    if error is None:
        return False
    lost = isinstance(error, torch.OutOfMemoryError) or type(error).__name__ == "AcceleratorError"
    words = isinstance(error, RuntimeError) and any(each in str(error) for each in LOST_DEVICE)
    return lost or words or loses_device(error.__cause__ or error.__context__)
