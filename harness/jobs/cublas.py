"""The cuBLAS setting that torch requires for deterministic matrix products on a GPU.

Does not load torch, so that a launcher can set it before torch is imported. NVIDIA, cuBLAS documentation,
"Results Reproducibility".
"""

import os

from workloads.errors import BenchError

VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
WORKSPACE = ":4096:8"
DETERMINISTIC = (WORKSPACE, ":16:8")
"""The values that torch accepts as deterministic."""


def set_workspace() -> None:
    """Set the variable unless it is set."""
    os.environ.setdefault(VARIABLE, WORKSPACE)


def check_workspace() -> None:
    """Reject a value with which torch would fail at the first matrix product."""
    given = os.environ.get(VARIABLE)
    if given not in DETERMINISTIC:
        raise BenchError(
            f"{VARIABLE}={given} makes sums on a GPU non-deterministic: "
            f"unset it or give one of {', '.join(DETERMINISTIC)}",
            field=VARIABLE,
            value=given,
            allowed=DETERMINISTIC,
        )
