"""`privbench serve` as a process, and requests over HTTP."""

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message
    body: bytes


def ask(url: str, method: str = "GET", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, method=method, headers=named)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


@contextmanager
def served(store: Path | None, *options: str) -> Iterator[str]:
    """The address of a server, which is stopped by Ctrl-C and must exit cleanly."""
    kept = ["--store", str(store)] if store else []
    command = [sys.executable, "-m", "harness.cli", "serve", *kept, "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.match(r"(http://\S+)   \(Ctrl-C ends it\)", process.stdout.readline())
        assert found is not None
        yield found[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
