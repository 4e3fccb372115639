"""A PostgreSQL server for a test session, from Debian's package: temporary folder, socket, plain user."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

OWNER = "nobody"
"""The user of the server if the tests run as root, which PostgreSQL refuses."""
INSTALL = "apt-get update -q && apt-get install -y -q --no-install-recommends postgresql"


@contextmanager
def running_server() -> Iterator[str]:
    """The URL of an empty database; skips the test with the reason if no server can be started."""
    programs = _programs()
    # Not pytest's folder: the path of a socket has 108 characters at most, and the server must get there.
    folder = Path(tempfile.mkdtemp(prefix="pb-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, OWNER)
    data = folder / "data"
    quick = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    spoken = ("-E", "UTF8", "--locale=C.UTF-8")
    try:
        _call(programs, "initdb", "-D", data, "-A", "trust", "-U", "keeper", *spoken, "--no-sync")
        _call(programs, "pg_ctl", "-D", data, "-w", "-t", "120", "-l", folder / "log", "-o", quick, "start")
        try:
            yield f"postgresql+psycopg://keeper:secret@/postgres?host={folder}"
        finally:
            _call(programs, "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """The folder of initdb and pg_ctl, after installing them if that is allowed."""
    if not _installed() and os.geteuid() == 0 and shutil.which("apt-get"):
        # Packages start their services where there is an init; these tests have a server of their own.
        quiet = {**os.environ, "RUNLEVEL": "1", "DEBIAN_FRONTEND": "noninteractive"}
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(["sh", "-c", INSTALL], env=quiet, capture_output=True, timeout=300, check=False)
    found = _installed()
    if not found:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql")
    return found[-1].parent


def _installed() -> list[Path]:
    return sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def _call(programs: Path, name: str, *arguments: str | Path) -> None:
    plain = ["setpriv", f"--reuid={OWNER}", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    command = [*plain, str(programs / name), *map(str, arguments)]
    # A server that inherits a pipe would keep it open, and the test would wait for its end.
    done = subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        pytest.skip(f"PostgreSQL cannot be started here: {name} ended with {done.returncode}")
