"""The files that a workload reads, observed by Python's audit events.

Records are often cached in memory, so a file may have been read long before anybody asks: from the import of
this module on, every file that is opened under a call of a workload's code is noted by its top-level package.
"""

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from workloads.code.project import is_installed, top_of
from workloads.disk_cache import default_folder

Stamp = tuple[int, int, int]
"""Size, time of the last change in nanoseconds, inode."""
CODE = (".py", ".pyc", ".pyi", ".pth", ".so", ".pyd")
"""Suffixes of files that are code, which has fingerprints."""
OWN_CACHES = ("workloads", "sources", "calibration", "ceilings")
"""Caches of ours whose content follows from code and from noted files."""
SYSTEM = ("/proc/", "/sys/", "/dev/")
STANDARD = sysconfig.get_path("stdlib")
HIDDEN = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "socket.connect")
"""Events after which data may come from elsewhere than a file of this process."""
NO_DATA = (
    "workloads.family",
    "workloads.recipe",
    "workloads.toml",
    "workloads.code",
    "workloads.fingerprint",
)
"""Modules of ours that read no data."""


@dataclass(eq=False)
class Seen:
    """What was read."""

    files: dict[str, Stamp] = field(default_factory=dict)
    """File or listed folder to its state when it was opened."""
    relative: bool = False
    """Whether a file was named relative to the current folder."""
    complete: bool = True
    """Whether all data came from these files."""

    def present(self) -> dict[str, Stamp]:
        """The files that are still there: a temporary one is no source of data."""
        return {file: state for file, state in self.files.items() if stamp(file) is not None}


_projects: dict[str, Seen] = {
    top_of(name): Seen()
    for name in ["workloads", *(point.value for point in entry_points(group="privbench.workloads"))]
}
_open: list[Seen] = []


@contextlib.contextmanager
def watching(top: str) -> Iterator[Seen]:
    """Note what is read from here on, with what this project has read before in this process."""
    before = _projects.setdefault(top, Seen())
    seen = Seen(dict(before.files), before.relative, before.complete)
    _open.append(seen)
    try:
        yield seen
    finally:
        _open.remove(seen)


def note(top: str, files: Mapping[str, Any]) -> None:
    """Note files behind an answer that was kept, for those who use it in an answer of their own."""
    for seen in [_projects.setdefault(top, Seen()), *_open]:
        for file, state in files.items():
            seen.files.setdefault(file, (state[0], state[1], state[2]))


def stamp(file: str) -> Stamp | None:
    """The state of a file or folder; None if it is gone."""
    try:
        found = os.stat(file)  # noqa: PTH116 - thousands of files
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Note a file that is opened for reading, a folder that is listed, or that data may be hidden."""
    if not HIDDEN:  # None: a module loses its names when the interpreter ends
        return
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, int) or (mode or "r")[:1] in "wax" or (flags or 0) & os.O_WRONLY:
            return
    elif event in ("os.listdir", "os.scandir", "sqlite3.connect"):
        path = arguments[0]
    elif event not in HIDDEN:
        return
    else:
        for seen in _concerned():
            seen.complete = False
        return
    concerned = _concerned()
    if concerned:
        _note_path(path, concerned)


def _note_path(path: Any, concerned: list[Seen]) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
        return
    name = os.fsdecode(path)
    full = os.path.abspath(name)  # noqa: PTH100 - a link is not followed
    if _is_code(full) or (state := stamp(full)) is None:
        return
    for seen in concerned:
        seen.files.setdefault(full, state)
        seen.relative = seen.relative or not os.path.isabs(name)  # noqa: PTH117


def _concerned() -> list[Seen]:
    """Those who watch, and the projects whose code is being called."""
    found = list(_open)
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        seen = _projects.get(top_of(name))
        if seen is not None and seen not in found and not name.startswith(NO_DATA):
            found.append(seen)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def _is_code(file: str) -> bool:
    """Whether a file or folder holds code, or is none of the data's."""
    if file.endswith(CODE) or file.startswith(SYSTEM) or ".dist-info/" in file or ".egg-info/" in file:
        return True
    if file.startswith(f"{STANDARD}/") and not is_installed(file):
        return True
    caches = default_folder("")
    if file.startswith(f"{caches}/") and file.startswith(tuple(f"{caches}/{each}" for each in OWN_CACHES)):
        return True
    return os.path.isdir(file) and (  # noqa: PTH112
        file in sys.path
        or os.path.basename(file) == "__pycache__"  # noqa: PTH119
        or os.path.exists(f"{file}/__init__.py")  # noqa: PTH110
    )


sys.addaudithook(_hook)
