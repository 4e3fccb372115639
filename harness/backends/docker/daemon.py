"""The Docker engine, used through the `docker` command.

The command and not the SDK: it is installed with every engine, honours the user's configuration (context,
DOCKER_HOST), and a hung engine blocks a process with a timeout instead of a thread.
"""

import contextlib
import json
import os
import subprocess
import time
from typing import NamedTuple

import psutil

from harness.store import Store
from workloads.errors import BackendError

ANSWER_SECONDS = 60.0
"""Timeout of the engine; a busy one may take seconds."""
BACK_SECONDS = 60.0
"""How long to wait for an engine that restarts, as for an upgrade."""
LOOK_SECONDS = 0.5
STORE_LABEL, KEEPER_LABEL = "privbench.store", "privbench.keeper"


class End(NamedTuple):
    """The state of a container, as the engine reports it."""

    running: bool
    code: int
    out_of_memory: bool
    """Whether the kernel killed any of its processes out of memory."""
    error: str
    """Why it could not start."""


def ask(*arguments: str, seconds: float = ANSWER_SECONDS) -> str:
    """Output of `docker ARGUMENTS`; BackendError with its message if it fails."""
    try:
        done = subprocess.run(
            ["docker", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise BackendError("no `docker` command found: install Docker, or use another --backend") from None
    except subprocess.TimeoutExpired:
        raise BackendError(f"docker {arguments[0]} did not respond within {seconds:g} s") from None
    if done.returncode:
        raise BackendError(
            complaint(done.stderr) or f"docker {arguments[0]} failed with exit code {done.returncode}"
        )
    return done.stdout.strip()


def complaint(stderr: str) -> str:
    """The engine's error message, without the advice of the command."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    output = [line for line in lines if not line.startswith(("See 'docker", "Run 'docker"))]
    return output[-1].removeprefix("Error response from daemon: ") if output else ""


def responds() -> bool:
    """Whether the engine responds."""
    try:
        ask("version", "--format", "{{.Server.Version}}")
    except BackendError:
        return False
    return True


def await_engine() -> bool:
    """Whether the engine responds within BACK_SECONDS: it may be restarting."""
    deadline = time.monotonic() + BACK_SECONDS
    while not responds():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def endpoint() -> str:
    """The engine's address as for DOCKER_HOST, for a process with another environment."""
    return ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")


def image_id(image: str) -> str:
    """The digest of a local image; BackendError if there is no such image."""
    ask("version", "--format", "{{.Server.Version}}")  # a stopped engine gets its own message
    try:
        return ask("image", "inspect", "--format", "{{.Id}}", image)
    except BackendError as error:
        raise BackendError(
            f"the image {image} was not found ({error}): build it with `privbench image build` (with --cuda "
            "for GPUs), or name another in a profile",
            field="image",
            value=image,
        ) from error


def label(image: str, name: str) -> str:
    """A label of an image; empty if missing."""
    return ask("image", "inspect", "--format", f'{{{{index .Config.Labels "{name}"}}}}', image)


def end_of(name: str) -> End | None:
    """The state of a container; None if it is unknown or the engine does not respond."""
    try:
        state = json.loads(ask("container", "inspect", "--format", "{{json .State}}", name))
    except (BackendError, ValueError):
        return None
    return End(state["Running"], state["ExitCode"], state["OOMKilled"], state["Error"])


def remove(*names: str) -> None:
    """Kill and remove containers; missing ones are ignored."""
    with contextlib.suppress(BackendError):
        ask("rm", "--force", "--volumes", *names)


def sweep(store: Store) -> None:
    """Remove containers of a store whose keeper was killed: nothing else would."""
    form = f'{{{{.ID}}}} {{{{.Label "{KEEPER_LABEL}"}}}}'
    output = ask("ps", "--all", "--filter", f"label={STORE_LABEL}={store.path}", "--format", form)
    pairs = [line.split() for line in output.splitlines()]
    orphans = [pair[0] for pair in pairs if len(pair) < 2 or not _keeps(pair[1], store)]
    if orphans:
        remove(*orphans)


def _keeps(pid: str, store: Store) -> bool:
    """Whether a process is a keeper of this store; its pid may have been reused."""
    try:
        command = psutil.Process(int(pid)).cmdline()
    except (ValueError, psutil.Error):
        return False
    return "harness.backends.docker.keeper" in command and str(store.path) in command


def use(host: str) -> None:
    """Use this engine from now on, whatever the environment says."""
    os.environ["DOCKER_HOST"] = host
    os.environ.pop("DOCKER_CONTEXT", None)
