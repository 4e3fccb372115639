"""The manifest: equal to what members say, valid only while their sources are unchanged, one for plug-ins."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import methods
import workloads
from harness import attacks
from harness.members import manifest, own_sources
from harness.members.facts import Kind, MethodFacts, facts_of, read_facts
from harness.members.sizes import count
from tests.harness.terminal import MEMBERS, Terminal, write_plugin
from workloads.errors import UnknownName
from workloads.family import Family

FAMILIES: dict[Kind, Family[Any]] = {
    "attack": attacks.family,
    "method": methods.family,
    "workload": workloads.family,
}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a process keeps in memory is forgotten before and after a test."""
    kept = [manifest.own_members, manifest.shipped, manifest.plugin_facts, manifest._plugins]
    for each in (*kept, own_sources.own_state):
        each.cache_clear()
    yield
    for each in (*kept, own_sources.own_state):
        each.cache_clear()


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that is empty, as if this process had loaded no family."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(manifest, "is_loaded", lambda kind: False)
    return tmp_path


def test_what_is_shipped_is_what_members_say() -> None:
    assert manifest.shipped()["members"] == manifest.make_members(), "run `make docs`"


def test_shipped_sizes_are_those_of_the_records() -> None:
    sizes = manifest.shipped()["sizes"]
    own = {name for name, facts in manifest.shipped()["members"]["workload"].items() if not facts["dataset"]}
    assert sizes.keys() == own, "run `make docs`"
    for name in ("digits-mlp", "tabular-synthetic"):
        assert {"version": workloads.family.get(name).version, **count(name)} == sizes[name]


@pytest.mark.parametrize("kind", ["attack", "method", "workload"])
def test_facts_survive_json(kind: Kind) -> None:
    for member in FAMILIES[kind].members.values():
        facts = facts_of(kind, member)
        assert read_facts(kind, json.loads(json.dumps(facts.file()))) == facts


def test_a_manifest_of_these_sources_is_used(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        "made_from": own_sources.own_state(*own_sources.DECLARING),
        "members": {"method": {}},
        "sizes": {},
    }
    monkeypatch.setattr(manifest, "shipped", lambda: made)
    assert manifest.own_members() == {"method": {}}
    assert not list(cold.iterdir())


def test_a_stale_manifest_is_not_believed(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The members are asked, once for each state of the sources."""
    asked: list[str] = []
    stale = {"made_from": "sources of last week", "members": {"method": {}}, "sizes": {}}
    monkeypatch.setattr(manifest, "shipped", lambda: stale)

    def ask() -> manifest.Members:
        asked.append("asked")
        return {"method": {"new": {}}}

    monkeypatch.setattr(manifest, "make_members", ask)
    for _ in range(2):
        manifest.own_members.cache_clear()
        assert manifest.own_members() == {"method": {"new": {}}}
    assert asked == ["asked"]


def test_an_edit_changes_the_state_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_sources, "ROOT", tmp_path)
    (tmp_path / "methods" / "deep").mkdir(parents=True)
    file = tmp_path / "methods" / "deep" / "one.py"
    file.write_text("a = 1")
    before = own_sources.digest_of("methods")
    assert own_sources.digest_of("methods") == before
    file.write_text("a = 2")
    edited = own_sources.digest_of("methods")
    (tmp_path / "methods" / "another.toml").write_text("")
    assert len({before, edited, own_sources.digest_of("methods")}) == 3


def test_an_installed_release_is_known_by_its_version(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_sources, "in_checkout", lambda: False)
    monkeypatch.setattr(own_sources, "release", lambda: "7.1")
    assert own_sources.own_state(*own_sources.DECLARING) == "release 7.1"


def test_an_unknown_name_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        manifest.method_facts("dp-sdg")
    assert caught.value.nearest == "dp-sgd"
    assert caught.value.allowed == tuple(methods.family.names())
    assert manifest.find_facts("method", ["sgd"]) is None


def test_loaded_members_are_asked_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have changed them."""
    monkeypatch.setitem(methods.family.members, "invented", methods.family.get("sgd"))
    assert isinstance(manifest.find_facts("method", "invented"), MethodFacts)
    assert "invented" in manifest.names("method")


@pytest.mark.slow
def test_a_plugin_loads_once_and_again_after_a_change(tmp_path: Path) -> None:
    package = write_plugin(tmp_path / "site")
    call = Terminal(tmp_path).beside(package)

    def members_of(ended_json: list[dict[str, object]]) -> dict[object, object]:
        return {row["name"]: row["members"] for row in ended_json}

    words = ("list", "workloads", "--json")
    first, again = call(*words), call(*words)
    assert members_of(first.json)["own-data"] == 20
    assert (first.plugin, again.plugin) == (True, False)
    assert again.loaded == []
    assert first.json == again.json
    (package / "rows.csv").write_text("0,0\n" * 60, encoding="utf-8")
    assert members_of(call(*words).json)["own-data"] == 30
    edited = MEMBERS.replace("rows of a file", "lines of a file")
    (package / "members.py").write_text(edited, encoding="utf-8")
    assert "lines of a file" in call(*words).output
    (package / "members.py").write_text(f"# A remark.\n{edited}", encoding="utf-8")
    assert not call(*words).plugin


@pytest.mark.slow
def test_a_broken_plugin_is_reported_and_the_rest_listed(tmp_path: Path) -> None:
    package = write_plugin(tmp_path / "site")
    (package / "members.py").write_text("import nothing_of_this_name", encoding="utf-8")
    call = Terminal(tmp_path).beside(package)
    listed = call("list", "methods", "--json")
    assert "own-method" not in {row["name"] for row in listed.json}
    assert listed.errors.count("own-method") == 1  # `doctor` states the reason
    refused = call("plan", "--workload", "digits-linear", "--method", "own-method")
    assert refused.code == 2
    assert refused.loaded == []
