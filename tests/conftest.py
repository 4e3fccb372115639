"""One thread per test process: more would compete for the cores."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import methods
import workloads
from workloads.family import Family
from workloads.fingerprint import GIVEN

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Tests share helpers (`tests.harness.simulated`); last, so that the installed packages are what is tested.
sys.path.append(str(Path(__file__).parents[1]))

# The time of an example depends more on other load of the machine than on the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


SLOW = ("browser", "chaos", "data", "postgres", "second_device")
"""Markers of tests that `make test` leaves to `make test-slow`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what needs a browser, a server, a compiler, the real data or many processes."""
    for item in items:
        if any(item.get_closest_marker(name) for name in SLOW):
            item.add_marker("slow")


@pytest.fixture(autouse=True, scope="module")
def forget_given_members() -> Iterator[None]:
    """Take out of the families what a test admitted for an audit in this process: others walk them."""
    yield
    family: Family[Any]
    for family in (workloads.family, methods.family):
        loaded = vars(family).get("members", {})
        for name in [name for name in loaded if GIVEN.fullmatch(name)]:
            del loaded[name]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Add the second device before any test: autograd starts its threads, one per device, only once."""
    if session.config.option.collectonly:
        return
    if any(item.get_closest_marker("second_device") for item in session.items):
        from tests.second_device.fixtures import find_obstacle

        find_obstacle()
