"""The real image, built without a registry, and the quickstart in it."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from harness.backends.docker.daemon import ask
from harness.store import Store

pytestmark = [pytest.mark.docker, pytest.mark.slow]

Privbench = Callable[..., "CompletedProcess[str]"]


def rows(store: Path) -> dict[str, Any]:
    """What must be equal in two stores: everything but times and hosts."""
    kept = ("status", "reason", "metrics", "guarantee", "stats", "warnings")
    found = {}
    for _, result in Store.open(store).results():
        files = {name: each.sha256 for name, each in result.artefacts.items() if name != "steps"}
        document = result.document()
        found[result.key] = [*(document.get(name) for name in kept), files]
    return found


def test_the_image_is_for_a_plain_user_and_runs_jobs(image: str) -> None:
    (found,) = json.loads(ask("image", "inspect", image))
    assert found["Config"]["User"] == "privbench"
    assert found["Config"]["Entrypoint"] == ["/opt/privbench/bin/python", "-P", "-m", "harness.jobs"]
    assert found["Config"]["Labels"]["org.opencontainers.image.revision"] != "unknown"


def test_it_is_listed_and_found_good(image: str, privbench: Privbench) -> None:
    (row,) = json.loads(privbench("image", "list", "--json").stdout)
    assert row["image"] == image
    assert row["digest"].startswith("sha256:")
    looked = privbench("image", "doctor", "--json")
    assert looked.returncode == 0, looked.stdout
    assert [each["what"] for each in json.loads(looked.stdout)] == ["engine", "users", "image", "trial"]


def test_the_doctor_reports_what_is_missing(image: str, privbench: Privbench) -> None:
    looked = privbench("image", "doctor", "--image", "no-such-image:1", "--json")
    assert looked.returncode == 1
    last = json.loads(looked.stdout)[-1]
    assert last["state"] == "missing"
    assert "privbench image build" in last["found"]


def test_the_quickstart_equals_that_of_local(image: str, privbench: Privbench, tmp_path: Path) -> None:
    for backend in ("docker", "local"):
        arguments = ["--backend", backend, "--store", str(tmp_path / backend)]
        done = privbench("run", "quickstart", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    ours, theirs = rows(tmp_path / "docker"), rows(tmp_path / "local")
    assert len(ours) == 104
    assert ours == theirs
