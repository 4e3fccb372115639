"""A family: members by name, one at a time or all."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import methods
import workloads
from harness import attacks, backends
from methods.base import Method
from workloads.errors import BenchError, BrokenPlugin, UnknownName
from workloads.family import Family, bindings
from workloads.fingerprint import member_module

LAZY = (
    "import sys, methods\n"
    "found = methods.family.load('dp-sgd')\n"
    "assert found is not None\n"
    "assert 'methods.pate' not in sys.modules\n"
    "assert found is methods.family.get('dp-sgd')\n"
    "assert 'methods.pate' in sys.modules\n"
)


@pytest.mark.slow
def test_one_member_is_loaded_alone() -> None:
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", LAZY], check=True, env=here)


@pytest.mark.parametrize("name", methods.family.names())
def test_a_member_is_the_same_however_it_is_found(name: str) -> None:
    fresh: Family[Method] = Family("method", "methods", "method")
    assert fresh.load(name) is methods.family.get(name)
    assert name in methods.family.own


def test_a_member_of_a_group_is_found_by_looking_at_all() -> None:
    name = workloads.family.names()[0]
    fresh: Family[object] = Family("workload", "workloads", "workloads")
    assert getattr(fresh.load(name), "name", None) == name


@pytest.mark.parametrize("name", ["dp-sdg", "base", "gradients"])
def test_a_name_that_no_member_has(name: str) -> None:
    fresh: Family[Method] = Family("method", "methods", "method")
    with pytest.raises(UnknownName):
        fresh.load(name)


@pytest.mark.parametrize(
    "family", [methods.family, workloads.family, attacks.family, backends.family], ids=lambda each: each.kind
)
def test_names_are_listed_without_importing_members(family: Family[Any]) -> None:
    assert family.listed_names() == family.names()


def install(site: Path, *points: str) -> None:
    """Entry points as an installed package declares them."""
    folder = site / "other-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("\n".join(["[privbench.methods]", *points]) + "\n")


def test_a_plug_in_is_found_and_is_not_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "scaled = tests.harness.scaled:method")
    monkeypatch.syspath_prepend(str(tmp_path))
    fresh: Family[Method] = Family("method", "methods", "method")
    assert fresh.load("scaled").free == "scale"  # type: ignore[attr-defined]
    assert "scaled" not in fresh.own


def test_a_plug_in_that_comes_or_goes_later_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert member_module("method", "later") is None
    install(tmp_path, "later = tests.harness.scaled:method")
    assert member_module("method", "later") == "tests.harness.scaled"
    shutil.rmtree(tmp_path / "other-1.dist-info")
    assert member_module("method", "later") is None


def test_a_member_is_loaded_once() -> None:
    fresh: Family[Method] = Family("method", "methods", "method")
    assert fresh.load("sgd") is fresh.load("sgd") is fresh.get("sgd")


def test_a_plug_in_is_listed_without_being_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "elsewhere = nowhere_at_all:method")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "elsewhere" in methods.family.listed_names()


def test_a_plug_in_may_not_take_our_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "sgd = tests.harness.scaled:method")
    monkeypatch.syspath_prepend(str(tmp_path))
    fresh: Family[Method] = Family("method", "methods", "method")
    with pytest.raises(BenchError, match="two methods are called 'sgd'"):
        fresh.load("sgd")


def test_a_plug_in_that_does_not_load_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path, "gone = nowhere_at_all:method")
    monkeypatch.syspath_prepend(str(tmp_path))
    fresh: Family[Method] = Family("method", "methods", "method")
    for ask in (fresh.load, fresh.get):
        with pytest.raises(BrokenPlugin) as caught:
            ask("gone")
        assert (caught.value.field, caught.value.value) == ("method", "gone")
        assert caught.value.origin == "nowhere_at_all:method"
        assert "nowhere_at_all" in caught.value.reason
    assert fresh.get("sgd") is not None
    assert list(fresh.broken) == ["gone"]
    assert caplog.records == [], "silent where it is not used"


def test_a_refusal_is_of_the_right_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "gone = nowhere_at_all:method")
    monkeypatch.syspath_prepend(str(tmp_path))
    fresh: Family[Method] = Family("method", "methods", "method")
    assert fresh.names()
    assert isinstance(fresh.refusal("gone"), BrokenPlugin)
    assert fresh.refusal("sdg").nearest == "sgd"


def test_what_a_module_binds() -> None:
    source = "from a import b, c as d\nimport e\nf = g = 1\nh: int = 2\ndef i():\n    j = 3\n"
    assert bindings(source) == {"b", "d", "f", "g", "h"}
