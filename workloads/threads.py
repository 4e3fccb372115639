"""Threads of numerical libraries, bounded by variables that they read when they load.

Does not load any of them, so that a launcher can set the variables first. A library that starts a thread per
core makes small problems several times dearer in CPU time, and slots would compete for cores.
"""

import os
from collections.abc import MutableMapping

LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""The variables, one for each library."""
THREADS = "PRIVBENCH_THREADS"
"""The number of threads of a task."""


def bound_threads(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables to a task's number of threads, or to 1; those that are set are kept."""
    for name in LIBRARIES:
        environment.setdefault(name, environment.get(THREADS, "1"))
