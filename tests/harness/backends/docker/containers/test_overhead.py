"""The overhead of containers: the quickstart in containers and in plain processes, alternating.

Run with `pytest -m "docker and benchmark" tests/harness/backends/docker/containers -s` on an idle machine.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.benchmark]

ROUNDS = 4
"""The first fills the caches of both."""


def test_containers_add_less_than_fifteen_percent(
    image: str,
    privbench: Callable[..., Any],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    taken: dict[str, list[float]] = {"local": [], "docker": []}
    for number in range(ROUNDS):
        for backend, seconds in taken.items():
            store = tmp_path / f"{backend}-{number}"
            began = time.monotonic()
            done = privbench("run", "quickstart", "--backend", backend, "--store", str(store))
            seconds.append(time.monotonic() - began)
            assert done.returncode == 0, done.stdout + done.stderr
    # The minimum of each: other load only makes a run slower.
    ratio = min(taken["docker"]) / min(taken["local"])
    record_property("ratio", ratio)
    record_property("seconds", taken)
    assert ratio < 1.15, taken
