"""Classify the exception that ended a task: a reason to count by, and what to do."""

import errno
import traceback

import torch

from harness.store.result import Failure
from workloads.errors import BenchError, DataError, DeviceError, Diverged, Upstream

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Disk full, quota exceeded, or file size limit reached."""
NO_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "ALLOC_FAILED",
    "Unable to find a valid cuDNN algorithm",
)
"""Messages of out-of-memory errors of other types: malloc, CUDA, cuBLAS, and cuDNN without a workspace."""
LOST_DEVICE = ("CUDA error", "cuDNN error", "CUDNN_STATUS", "CUBLAS_STATUS", "CUDA driver error")
"""Messages of errors after which the GPU is unusable in this process."""
MEANING = {
    "device-side assert": "a kernel rejected its input, often a label or an index out of range: "
    "run it with PRIVBENCH_DEVICE=cpu or CUDA_LAUNCH_BLOCKING=1 to see where",
    "illegal memory access": "a kernel accessed memory out of bounds: "
    "run it with CUDA_LAUNCH_BLOCKING=1 to see where",
    "no kernel image is available": "this torch does not support this card: install one that does",
}
"""Explanations of CUDA errors, by their messages."""
BUSY = "busy or unavailable"
"""Another process uses the card, which is in exclusive mode."""


def failure(error: Exception) -> Failure:
    """Reason, message and traceback of a failed task."""
    message = str(error) or type(error).__name__
    told, error = error, origin(error)
    if isinstance(error, Diverged):
        reason = "diverged"
    elif isinstance(error, Upstream):
        reason = "upstream"
    elif isinstance(error, MemoryError | torch.OutOfMemoryError) or lacks_memory(error):
        reason = "out_of_memory"
    elif isinstance(error, DeviceError):  # like the next two, not the task's fault: it is rerun
        reason = "killed"
    elif isinstance(error, RuntimeError) and BUSY in message:
        reason = "killed"
        message = f"another process uses the GPU exclusively ({message}); run the sweep again when it is free"
    elif isinstance(error, OSError) and error.errno in FULL:
        # Not the task's fault: rerun, it resumes from its checkpoint.
        reason, message = "killed", f"disk full ({error}); free space and run the sweep again"
    else:
        reason = "error"
        if not isinstance(told, BenchError):
            message = f"{type(error).__name__}: {message}"
        if meaning := next((MEANING[text] for text in MEANING if text in message), None):
            message = f"{meaning} ({message})"
    trace = "".join(traceback.format_exception(told))
    return Failure(reason=reason, message=message, traceback=trace)


def origin(error: Exception) -> Exception:
    """What went wrong where a workload's records could not be loaded; any other error is its own origin."""
    cause = error.__cause__
    return cause if isinstance(error, DataError) and isinstance(cause, Exception) else error


def lacks_memory(error: Exception) -> bool:
    """Whether a library's error means out of memory."""
    text = str(error)
    workspace = "cudnn" in text.lower() and "workspace" in text
    return isinstance(error, RuntimeError) and (workspace or any(each in text for each in NO_MEMORY))


def loses_device(error: BaseException | None) -> bool:
    """Whether this error or a cause of it lost the device: the next task needs a new process."""
    if error is None:
        return False
    lost = isinstance(error, torch.OutOfMemoryError) or type(error).__name__ == "AcceleratorError"
    stated = isinstance(error, RuntimeError) and any(each in str(error) for each in LOST_DEVICE)
    return lost or stated or loses_device(error.__cause__ or error.__context__)
