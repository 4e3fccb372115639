"""The one setting of cuBLAS without which torch refuses deterministic matrix products on a GPU.

Without torch, so that a launcher can set it before torch is imported. NVIDIA, cuBLAS documentation, "Results
Reproducibility".
"""

import os

from workloads.errors import BenchError

VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
WORKSPACE = ":4096:8"
DETERMINISTIC = (WORKSPACE, ":16:8")
"""The values that torch takes for deterministic."""


def set_workspace() -> None:
    """Set the variable where nobody has."""
    os.environ.setdefault(VARIABLE, WORKSPACE)


def check_workspace() -> None:
    """Refuse a value with which torch would fail at the first matrix product."""
    given = os.environ.get(VARIABLE)
    if given not in DETERMINISTIC:
        raise BenchError(
            f"{VARIABLE}={given} makes sums on a GPU depend on chance; "
            f"unset it or give one of {', '.join(DETERMINISTIC)}"
        )
