"""The folders of data sets and their caches."""

import os
from pathlib import Path


def data_root() -> Path:
    """The folder of the data sets: $PRIVBENCH_DATA, else `data` in the user's cache folder."""
    given = os.environ.get("PRIVBENCH_DATA")
    return Path(given).expanduser() if given else user_folder() / "data"


def cache_root() -> Path:
    """The folder of parsed arrays: $PRIVBENCH_CACHE, else `arrays` in the user's cache folder.

    Not beside the data, which may be shared and read-only.
    """
    given = os.environ.get("PRIVBENCH_CACHE")
    return Path(given).expanduser() if given else user_folder() / "arrays"


def user_folder() -> Path:
    """The user's cache folder on this operating system."""
    import pooch  # on demand: listing workloads must not load a web client

    return Path(pooch.os_cache("privbench"))
