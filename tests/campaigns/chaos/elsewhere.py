"""SIGKILL at random moments on a SLURM cluster and on a Docker engine, each the campaign's own.

`python -m tests.campaigns.chaos.kills --slurm --docker` calls it. On SLURM the victims are workers and the
elements of job arrays, in Docker containers, the keepers beside them and the supervisor. The sweep is
enqueued again until nothing is open, and its rows must equal those of an undisturbed local run.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from harness.backends.docker.daemon import ask
from harness.backends.machine.queue import submissions
from tests.campaigns.chaos.campaign import Rows, collected, count_open, faults, forked, say, send
from tests.harness.backends.docker.containers.conftest import Boxes, own_engine
from tests.harness.backends.slurm.cluster.conftest import Sweeper, own_cluster
from tests.harness.conftest import Lab
from workloads.errors import BackendError

DEADLINE_SECONDS = 1800.0
"""For one sweep: daemons on a busy machine are slow, but not that slow."""
PROFILE = {"array_parallelism": 2, "throttle_seconds": 0.0, "signal_seconds": 60, "pack": 3}


@dataclass(frozen=True)
class Field:
    """A store whose sweep runs elsewhere, and what may be killed there."""

    lab: Lab
    send: Callable[[], object]
    """Enqueue the sweep again."""
    works: Callable[[], bool]
    """Whether a process works on it."""
    victims: Mapping[str, Callable[[], list[Callable[[], object]]]]
    """By kind: a function for each current process that kills it."""


def kills_of(found: list[psutil.Process]) -> list[Callable[[], object]]:
    """Functions that kill each of these processes, oldest first."""
    return [process.kill for process in sorted(found, key=lambda process: int(process.pid))]


@contextmanager
def slurm_fields(text: str, plugins: Path) -> Iterator[Callable[[Path], Field]]:
    """Makes fields on one cluster: workers and elements of job arrays are killed."""
    with own_cluster() as cluster:

        def field(path: Path) -> Field:
            sweeper = Sweeper(Lab(path), cluster)
            return Field(
                sweeper.lab,
                send=lambda: send(text, path, "slurm", profile=PROFILE),
                works=lambda: bool(sweeper.backend.attend(sweeper.store, "chaos")),
                victims={
                    "worker": lambda: kills_of(sweeper.lab.workers()),
                    "element": lambda: kills_of(sweeper.elements()),
                },
            )

        yield field


@contextmanager
def docker_fields(text: str, plugins: Path) -> Iterator[Callable[[Path], Field]]:
    """Makes fields on one engine: containers, keepers and supervisors are killed."""
    plugins.chmod(0o755)  # tasks run as another user
    with own_engine():

        def field(path: Path) -> Field:
            boxes = Boxes(Lab(path), plugins)
            return Field(
                boxes.lab,
                send=lambda: send(text, path, "docker", slots=2, profile=boxes.profile),
                works=lambda: bool(submissions(boxes.store) and boxes.lab.supervisors()),
                victims={
                    "container": lambda: [partial(ask, "kill", name) for name in boxes.containers()],
                    "keeper": lambda: kills_of(boxes.keepers()),
                    "supervisor": lambda: kills_of(boxes.lab.supervisors()),
                },
            )

        yield field


FIELDS = {"slurm": slurm_fields, "docker": docker_fields}


def strike(field: Field, chance: random.Random) -> str | None:
    """Kill a random one of a kind; return the kind, None if there was none."""
    kind = chance.choice(sorted(field.victims))
    found = field.victims[kind]()
    if not found:
        return None
    try:
        chance.choice(found)()
    except (psutil.NoSuchProcess, BackendError):  # it ended by itself
        return None
    return kind


def storm(field: Field, text: str, kills: int, chance: random.Random) -> Counter[str]:
    """Run one sweep with at most this many kills; return what was killed."""
    counts: Counter[str] = Counter()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while forked(count_open, text, field.lab.store.path):
        field.send()
        while field.works():
            if time.monotonic() > deadline:
                raise RuntimeError(f"not done within {DEADLINE_SECONDS:g} s, after {dict(counts)}")
            time.sleep(chance.uniform(0.5, 8.0))  # time to load torch, to work, and to publish
            struck = strike(field, chance) if counts.total() < kills else None
            if struck is not None:
                counts[struck] += 1
    return counts


def run(
    where: str, folder: Path, text: str, expected: Rows, kills: int, chance: random.Random
) -> tuple[Counter[str], Counter[str]]:
    """Run sweeps until this many were killed; return the counts, and the number of wrong rows.

    RuntimeError with the reason if no cluster or engine can be started here.
    """
    counts, broken, stores = Counter[str](), Counter[str](), 0
    with FIELDS[where](text, folder / "plugins") as make:
        while counts.total() < kills:
            stores += 1
            field = make(folder / f"{where}-{stores}")
            try:
                struck = storm(field, text, kills - counts.total(), chance)
                counts += Counter({f"{where} {kind}": number for kind, number in struck.items()})
                broken += faults(forked(collected, field.lab.store.path), expected)
            finally:
                field.lab.end_all()
            say(f"{where}: {dict(counts)} on {stores} stores; broken: {dict(broken)}")
    return counts, broken
