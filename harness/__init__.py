"""The referee: from a sweep file to a report. Users import from `privbench`."""

import warnings
from typing import TYPE_CHECKING

from workloads import moved

if TYPE_CHECKING:
    from pathlib import Path

    from harness.results.frames import Results

moved.install()


def open_store(source: "Path | str" = "privbench-store") -> "Results":
    """`privbench.open_store` under the name it had in 0.1."""
    from harness.results import frames  # importing a package must not load a database

    warnings.warn("harness.open_store is privbench.open_store since 0.2", DeprecationWarning, stacklevel=2)
    return frames.open_store(source)
