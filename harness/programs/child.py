"""Child processes that run a user's code, by runner.py."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from harness.programs import runner
from harness.spec import Json
from workloads.errors import BenchError

RUNNER = Path(runner.__file__)
Kind = Literal["look", "train", "command"]


class ProgramError(BenchError):
    """A user's program that failed, or gave something that cannot be used.

    Attributes:
        field: What runner.py did: `look`, `train` or `command`.
        value: The name of the error in the user's code, or the exit code.
    """


def run_child(
    kind: Kind, order: Mapping[str, Any], folder: Path, scratch: Path, say: Callable[[bytes], object]
) -> Json:
    """Run a child process to its end and return what it found; ProgramError with the cause if it failed.

    Args:
        kind: What runner.py does.
        order: What it needs to know.
        folder: The working folder of the child.
        scratch: Where the order and its outcome are written.
        say: Called with every line that the child prints.
    """
    file, outcome = scratch / "order.json", scratch / "outcome.json"
    told = {**order, "outcome": str(outcome), "parent": os.getpid()}
    file.write_text(json.dumps(told), encoding="utf-8")
    command = [sys.executable, "-P", str(RUNNER), kind, str(file)]
    last = b""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        for line in process.stdout or ():
            last = line.strip() or last
            say(line)
    found: Json = json.loads(outcome.read_text(encoding="utf-8")) if outcome.is_file() else {}
    if "error" in found:
        raise ProgramError(str(found["error"]), field=kind, value=found["kind"])
    if process.returncode != 0:
        ended = _ended(process.returncode)
        words = f"; its last words: {last.decode(errors='replace')[:300]}" if last else ""
        raise ProgramError(f"the program {ended}{words}", field=kind, value=process.returncode)
    return found


def environment() -> dict[str, str]:
    """This process's environment, with an order of sets and dictionaries that does not change."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return {**kept, "PYTHONHASHSEED": "0"}


def _ended(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
