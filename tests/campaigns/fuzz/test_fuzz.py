"""The short form of the campaign: every target, fixed inputs. The long one: campaign.py."""

import contextlib
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns.fuzz import guided
from tests.campaigns.fuzz.campaign import share, throw
from tests.campaigns.fuzz.ground import FENCE, Ground, Trespass
from tests.campaigns.fuzz.guided import GUIDED
from tests.campaigns.fuzz.target import Target
from tests.campaigns.fuzz.targets import TARGETS
from workloads.errors import SpecError

INPUTS = 1_200
"""Over all targets; slow ones get a handful."""


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_input_is_done_or_refused(target: Target, tmp_path: Path) -> None:
    ground = Ground(tmp_path, target.fill)
    assert target.attempt(ground, target.good) == "done"
    count = share(TARGETS, INPUTS)[target.name]
    assert throw(target, ground, count, start=0).total() >= count


def test_a_write_outside_the_store_is_detected(ground: Ground) -> None:
    outside = ground.root / "elsewhere.txt"
    with pytest.raises(Trespass, match="elsewhere"):
        ground.survives(lambda: outside.write_text("x"))
    assert not outside.exists()
    assert ground.survives(lambda: (ground.store.path / "inside.txt").write_text("x")) == "done"


def test_a_swallowed_trespass_is_detected(ground: Ground) -> None:
    def swallow() -> None:
        with contextlib.suppress(Exception):
            (ground.root / "folder").mkdir()

    with pytest.raises(Trespass, match="mkdir"):
        ground.survives(swallow)


def test_writes_that_python_cannot_watch_are_detected_on_disk(ground: Ground) -> None:
    touch = [sys.executable, "-c", f"open({str(ground.root / 'made.txt')!r}, 'w')"]
    with pytest.raises(Trespass, match="made"):
        ground.survives(lambda: subprocess.run(touch, check=True), fenced=False)


def test_a_process_and_a_connection_are_detected(ground: Ground) -> None:
    with pytest.raises(Trespass, match="Popen"):
        ground.survives(lambda: subprocess.run([sys.executable, "--version"], check=True))
    with pytest.raises(Trespass, match="connect"), socket.socket() as line:
        ground.survives(lambda: line.connect(("127.0.0.1", 9)))
    assert FENCE.allowed is None


def test_errors_of_others_and_empty_ones_go_up(ground: Ground) -> None:
    def fail(error: Exception) -> None:
        raise error

    assert ground.survives(lambda: fail(SpecError("wrong"))) == "refused"
    with pytest.raises(AssertionError, match="without a message"):
        ground.survives(lambda: fail(SpecError("")))
    with pytest.raises(KeyError):
        ground.survives(lambda: fail(KeyError("a bug")))


@pytest.mark.parametrize("name", GUIDED)
def test_guided_inputs_begin_with_one_that_is_done(name: str) -> None:
    (target,) = [target for target in TARGETS if target.name == GUIDED[name].target]
    assert GUIDED[name].input(GUIDED[name].seed(target.good)) == target.good
    assert GUIDED[name].input(b"") in (b"", (target.good[0], b""))


def test_guided_inputs_state_what_they_need(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    assert guided.main(["--target", "idx"]) == 2
    assert "pip install atheris" in capsys.readouterr().err
