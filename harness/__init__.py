"""The referee: from a sweep file to a report. `open_store` is the door for notebooks."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from harness.notebook import Results

__all__ = ["open_store"]


def open_store(source: "Path | str" = "privbench-store") -> "Results":
    """The results of a store, or of a database by its URL, as data frames."""
    from harness.notebook import Results  # importing a package must not load a database

    return Results(source)
