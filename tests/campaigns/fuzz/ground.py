"""The test ground of inputs: a store, and a fence that detects writes, processes and connections outside."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from harness.store import Store
from workloads.errors import BenchError

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PATHS_OF = {
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.remove": 1,
    "os.truncate": 1,
    "os.chmod": 1,
    "os.chown": 1,
    "os.utime": 1,
    "os.rename": 2,
    "os.link": 2,
    "os.symlink": 2,
}
"""Audit events of Python that change a file system, and the number of leading arguments that are paths."""
RELATIVE = ("os.mkdir", "os.rmdir", "os.remove")
"""Events whose last argument may be an open folder that the path is relative to."""
NEVER = {"socket.connect", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"}
"""Audit events that no input may cause."""
HARMLESS = ("/dev/null",)


class Trespass(AssertionError):
    """An input made the program act outside its store."""


class Fence:
    """While it is up, any action of Python outside the allowed folders is recorded and raises Trespass.

    An audit hook of Python cannot be removed, so there is one for the whole process.
    """

    def __init__(self) -> None:
        self.allowed: tuple[str, ...] | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._look)

    @contextmanager
    def around(self, *allowed: Path) -> Iterator[None]:
        """The fence is up within the context; a trespass that the program swallowed is raised at the end."""
        self.allowed, self.seen = tuple(str(each.resolve()) for each in allowed), []
        try:
            yield
        finally:
            self.allowed = None
        if self.seen:
            raise Trespass(self.seen[0])

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.allowed is None:
            return
        if event in NEVER:
            self._refuse(f"{event} {arguments}")
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes) and flags & WRITING:
                self._check(event, path)
        for path in arguments[: PATHS_OF.get(event, 0)]:
            self._check(event, path, arguments[-1])

    def _check(self, event: str, path: Any, folder: Any = None) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # an open file's number
        below = f"/proc/self/fd/{folder}" if event in RELATIVE and folder >= 0 else ""
        text = os.path.realpath(os.path.join(below, os.fsdecode(path)))  # noqa: PTH118 - paths may be bytes
        inside = any(text == each or text.startswith(f"{each}/") for each in self.allowed or ())
        if not inside and text not in HARMLESS:
            self._refuse(f"{event} {text}")

    def _refuse(self, what: str) -> None:
        self.seen.append(what)
        raise Trespass(what)


FENCE = Fence()


class Ground:
    """A folder with a store, foreign files around it, and a place for inputs."""

    def __init__(self, root: Path, fill: Callable[[Store], None] | None = None) -> None:
        self.root = root
        self.files, self.cache = root / "inputs", root / "cache"
        self.store = Store.open(root / "within" / "store", create=True)
        self.files.mkdir(exist_ok=True)
        for folder in (root, root / "within"):
            (folder / "bystander.json").write_text('{"whose": "somebody else\'s"}')
        if fill is not None:
            fill(self.store)
        self._before = self._bystanders()

    def lay(self, name: str, content: bytes | str) -> Path:
        """Write an input; return the file."""
        file = self.files / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return file

    def survives(self, call: Callable[[], object], fenced: bool = True) -> str:
        """Call the program on an input: `done`, or `refused` by a BenchError.

        Any other exception is raised, and so is a write outside the store, a process or a connection. A new
        process is not fenced: only the files around the store are checked.
        """
        # Solved noise is cached for the user: the only other place that an input may write to.
        here = patch.dict(os.environ, XDG_CACHE_HOME=str(self.cache))
        try:
            with here, FENCE.around(self.store.path, self.cache) if fenced else nullcontext():
                call()
            return "done"
        except BenchError as error:
            if not str(error).strip():
                raise AssertionError("an error without a message") from error
            return "refused"
        finally:
            if self._bystanders() != self._before:
                raise Trespass(f"files around the store changed: {self._bystanders()}")

    def _bystanders(self) -> list[tuple[str, int, int]]:
        """The files around the store, which libraries could change unnoticed by Python."""
        found = []
        for folder in (self.root, self.root / "within"):
            for entry in os.scandir(folder):
                if entry.name not in ("inputs", "cache", "within", "store"):
                    status = entry.stat(follow_symlinks=False)
                    found.append((entry.path, status.st_size, status.st_mtime_ns))
        return sorted(found)
