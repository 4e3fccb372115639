"""The Docker engine, asked through the `docker` command.

The command and not the SDK: it is there wherever an engine is, it finds the engine as its user set it up
(context, DOCKER_HOST), and a hung engine costs one process with a time limit instead of a thread.
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
"""After which an engine that says nothing counts as absent; a busy one may take seconds."""
BACK_SECONDS = 60.0
"""How long an engine that went away, for an upgrade say, may take to come back."""
LOOK_SECONDS = 0.5
STORE_LABEL, KEEPER_LABEL = "privbench.store", "privbench.keeper"


class End(NamedTuple):
    """What the engine says of a container."""

    running: bool
    code: int
    out_of_memory: bool
    """Whether the kernel killed any of its processes for memory; not only the first."""
    error: str
    """Why it could not start."""


def ask(*words: str, seconds: float = ANSWER_SECONDS) -> str:
    """What `docker WORDS` prints; BackendError with its complaint where it fails."""
    try:
        done = subprocess.run(
            ["docker", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise BackendError("there is no `docker` command: install Docker, or use another --backend") from None
    except subprocess.TimeoutExpired:
        raise BackendError(f"docker {words[0]} gave no answer within {seconds:g} s") from None
    if done.returncode:
        raise BackendError(complaint(done.stderr) or f"docker {words[0]} ended with {done.returncode}")
    return done.stdout.strip()


def complaint(stderr: str) -> str:
    """The engine's own words, without the command's advice."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("See 'docker", "Run 'docker"))]
    return told[-1].removeprefix("Error response from daemon: ") if told else ""


def answers() -> bool:
    """Whether the engine does."""
    try:
        ask("version", "--format", "{{.Server.Version}}")
    except BackendError:
        return False
    return True


def await_answer() -> bool:
    """Whether the engine answers, now or soon: one that is being restarted is waited for."""
    deadline = time.monotonic() + BACK_SECONDS
    while not answers():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def endpoint() -> str:
    """Where the engine is, as DOCKER_HOST says it: for a process that may have another environment."""
    return ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")


def image_id(image: str) -> str:
    """The digest of an image that is here; BackendError, with what to do, where it is not."""
    ask("version", "--format", "{{.Server.Version}}")  # an engine that is away has other news than "missing"
    try:
        return ask("image", "inspect", "--format", "{{.Id}}", image)
    except BackendError as error:
        raise BackendError(
            f"the image {image} is not here ({error}): make it with `privbench image build` (for GPUs with "
            "--cuda), or name another in a profile"
        ) from error


def label(image: str, name: str) -> str:
    """A label of an image; empty where it has none of this name."""
    return ask("image", "inspect", "--format", f'{{{{index .Config.Labels "{name}"}}}}', image)


def end_of(name: str) -> End | None:
    """What became of a container; None where the engine does not know it or does not answer."""
    try:
        state = json.loads(ask("container", "inspect", "--format", "{{json .State}}", name))
    except (BackendError, ValueError):
        return None
    return End(state["Running"], state["ExitCode"], state["OOMKilled"], state["Error"])


def remove(*names: str) -> None:
    """Kill containers and take them away; what is gone already is no error."""
    with contextlib.suppress(BackendError):
        ask("rm", "--force", "--volumes", *names)


def sweep(store: Store) -> None:
    """Remove the containers of a store whose keeper was killed: nobody else would ever end them."""
    form = f'{{{{.ID}}}} {{{{.Label "{KEEPER_LABEL}"}}}}'
    told = ask("ps", "--all", "--filter", f"label={STORE_LABEL}={store.path}", "--format", form)
    pairs = [line.split() for line in told.splitlines()]
    orphans = [pair[0] for pair in pairs if len(pair) < 2 or not _keeps(pair[1], store)]
    if orphans:
        remove(*orphans)


def _keeps(pid: str, store: Store) -> bool:
    """Whether a process is a keeper of this store; its number may have passed to another program."""
    try:
        words = psutil.Process(int(pid)).cmdline()
    except (ValueError, psutil.Error):
        return False
    return "harness.backends.docker.keeper" in words and str(store.path) in words


def use(host: str) -> None:
    """Talk to this engine from now on, whatever this process's environment said."""
    os.environ["DOCKER_HOST"] = host
    os.environ.pop("DOCKER_CONTEXT", None)
