"""`privbench data`: listing, download, verification, features, and exit codes."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from harness.cli import app
from harness.cli.features import progress_on
from workloads import data, features
from workloads.data.array_cache import digest
from workloads.data.bits import read_bits
from workloads.data.dataset import Dataset, File, Place, Published
from workloads.features.bank import Bank
from workloads.features.pixels import COLOUR
from workloads.features.scattered import Scattered

TEXT = b"1,0,1\n2,1,1\n"
FILE = File("dataset.txt", ("http://127.0.0.1:9/dataset.txt",))  # nothing listens there


def read(path: Path) -> dict[str, Any]:
    return read_bits(path, "dataset.txt", rows=2, features=2, classes=2)


THING = Published("thing", "two people", "free", "us", (Place("thing/dataset.txt"),), read, (FILE,))


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Privbench = Callable[..., Answer]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data root, and a family with one more small set."""
    monkeypatch.setenv("PRIVBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PRIVBENCH_CACHE", str(tmp_path / "cache"))
    known = digest({"x": np.array([[0, 1], [1, 1]], np.uint8), "y": np.arange(2)})
    members: dict[str, Dataset] = {**data.family.members, "thing": replace(THING, sha256=known)}
    monkeypatch.setattr(data.family, "members", members)
    return tmp_path / "data"


@pytest.fixture
def privbench(root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Privbench:
    def call(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["privbench", "data", *arguments])
        capfd.readouterr()
        code = 0
        try:
            app.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        seen = capfd.readouterr()
        return Answer(code, seen.out, seen.err)

    return call


def put(root: Path, content: bytes = TEXT) -> Path:
    file = root / "thing/dataset.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def test_list_shows_what_is_available_and_where_it_searched(root: Path, privbench: Privbench) -> None:
    rows = {row["name"]: row for row in privbench("list", "--json").json}
    assert {"digits", "mnist", "lfw", "thing"} <= set(rows)
    assert not rows["thing"]["present"]
    assert rows["thing"]["looked_for"] == [str(root / "thing/dataset.txt")]
    assert rows["mnist"]["files"][1]["md5"] == "d53e105ee54ea40749a09fcbcd1e9432"
    file = put(root)
    row = next(row for row in privbench("list", "--json").json if row["name"] == "thing")
    assert (row["present"], row["where"], row["bytes"]) == (True, str(file), len(TEXT))
    shown = privbench("list")
    assert shown.code == 0
    for part in ("fashion-mnist", "MIT", "Krizhevsky", "scikit-learn"):
        assert part in shown.out


def test_verify_finds_a_flipped_byte(root: Path, privbench: Privbench) -> None:
    file = put(root)
    answer = privbench("verify", "thing", "--json")
    assert (answer.code, answer.json[0]["state"]) == (0, "good")
    file.write_bytes(TEXT.replace(b"2,1", b"2,0"))
    answer = privbench("verify", "--json")
    states = {row["name"]: row["state"] for row in answer.json}
    assert (answer.code, states) == (1, {"digits": "good", "thing": "damaged"})


def test_verify_of_what_is_absent(privbench: Privbench) -> None:
    answer = privbench("verify", "thing", "--json")
    assert (answer.code, answer.json[0]["state"]) == (1, "absent")
    assert {row["name"] for row in privbench("verify", "--json").json} == {"digits"}


def test_fetch_without_a_network(root: Path, privbench: Privbench) -> None:
    answer = privbench("fetch", "digits", "thing")
    assert answer.code == 1
    assert "digits: here, comes with scikit-learn" in answer.out
    put_where = f"put {FILE.urls[0]} at {root / 'thing/dataset.txt'} (MD5 not published)"
    assert put_where in answer.err.replace("\n", " ")
    assert "Traceback" not in answer.err
    assert not root.exists()


def test_fetch_of_what_is_here(root: Path, privbench: Privbench) -> None:
    put(root)
    answer = privbench("fetch", "thing", "--json")
    assert answer.code == 0
    assert answer.json == [{"name": "thing", "state": "here", "detail": str(root / "thing/dataset.txt")}]


@pytest.mark.parametrize("command", ["fetch", "verify"])
def test_an_unknown_name_does_nothing(root: Path, privbench: Privbench, command: str) -> None:
    answer = privbench(command, "thing", "mnits")
    assert answer.code == 2
    assert "unknown data set 'mnits', did you mean 'mnist'?" in answer.err
    assert not root.exists()


@dataclass(frozen=True)
class Unborn(Scattered):
    """An encoder that does not exist."""

    def missing(self) -> str | None:
        return "it needs a crystal ball: buy one"


@pytest.fixture
def banks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two banks of four small pictures; one of them cannot be computed."""
    pictures = np.random.default_rng(0).integers(256, size=(4, 3, 8, 8), dtype=np.uint8)
    arrays = {
        f"{split}_{name}": each
        for split in ("train", "test")
        for name, each in (("x", pictures), ("y", np.arange(4)))
    }
    made = Published(
        "pictures", "", "", "", (Place("pictures"),), lambda place: arrays, (), sha256=digest(arrays)
    )
    (root / "pictures").mkdir(parents=True)
    monkeypatch.setitem(data.family.members, "pictures", made)
    members = {
        "good": Bank("good", "pictures", Scattered(COLOUR, "gn27")),
        "lost": Bank("lost", "pictures", Unborn(COLOUR, "photographs")),
    }
    monkeypatch.setattr(features.family, "members", members)


def test_features_are_listed_computed_and_found(banks: None, privbench: Privbench) -> None:
    states = {row["name"]: row["state"] for row in privbench("features", "--json").json}
    assert states == {"good": "to make", "lost": "missing"}
    answer = privbench("features", "good", "--threads", "1")
    file = features.family.get("good").file()
    assert (answer.code, answer.out.replace("\n", "")) == (0, f"good: made, {file}")
    assert "features good, train: 4 of 4" in answer.err, "progress where no bar can be drawn"
    answer = privbench("features", "good", "--json")
    assert (answer.code, answer.json) == (0, [{"name": "good", "state": "here", "detail": str(file)}])
    row = next(row for row in privbench("features", "--json").json if row["name"] == "good")
    assert (row["state"], row["where"]) == ("kept", str(file))


def test_features_that_cannot_be_computed_state_why_and_the_others_are_computed(
    banks: None, privbench: Privbench
) -> None:
    answer = privbench("features", "lost", "good")
    assert answer.code == 1
    assert "it needs a crystal ball: buy one, then `privbench data features lost`" in answer.err
    assert str(features.family.get("lost").file()) in answer.err
    assert "good: made" in answer.out


def test_an_unknown_bank_makes_nothing(banks: None, privbench: Privbench) -> None:
    answer = privbench("features", "good", "lots")
    assert answer.code == 2
    assert "unknown bank 'lots', did you mean 'lost'?" in answer.err
    assert not features.family.get("good").kept()


def test_a_terminal_gets_a_bar() -> None:
    shown = Console(file=io.StringIO(), force_terminal=True, width=120)
    with progress_on(shown) as progress:
        progress("features good, train", 0, 10)
        progress("features good, train", 10, 10)
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert "features good, train" in text
    assert "10/10" in text
