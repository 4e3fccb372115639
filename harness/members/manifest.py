"""The manifest: facts of all members, for commands that list, show or refuse and load none of them.

Ours are in `manifest.json`, written by `make docs`. In a checkout it counts only while the sources are those
it was made from; after a change the members are asked, once, and their facts kept in the user's cache. A
plug-in's are kept there after its first load, as long as its code and the files it read are the same.
"""

import importlib
import json
from functools import cache
from pathlib import Path
from typing import Any, cast

from harness.members.facts import (
    AnyFacts,
    AttackFacts,
    Kind,
    MethodFacts,
    WorkloadFacts,
    facts_of,
    read_facts,
)
from harness.members.own_sources import DECLARING, own_state
from harness.plan.changes.kept import kept_for
from harness.spec import Json
from workloads.disk_cache import default_folder, read_cached, write_cached
from workloads.errors import UnknownName
from workloads.family import Family
from workloads.fingerprint import in_checkout

SHIPPED = Path(__file__).with_name("manifest.json")
PACKAGES: dict[Kind, str] = {"attack": "harness.attacks", "method": "methods", "workload": "workloads"}
Members = dict[str, dict[str, Json]]
"""Facts as JSON, by kind and name."""


def family_of(kind: Kind) -> Family[Any]:
    """The family of a kind of members, with none of them loaded."""
    family: Family[Any] = importlib.import_module(PACKAGES[kind]).family
    return family


def is_loaded(kind: Kind) -> bool:
    """Whether this process has loaded all members of the kind: they are asked then, and not the manifest."""
    return "members" in vars(family_of(kind))


def names(kind: Kind) -> list[str]:
    """Every member's name, sorted; a plug-in's too if it does not load."""
    if is_loaded(kind):
        return family_of(kind).names()
    return sorted({*own_members()[kind], *_plugins(kind)})


def find_facts(kind: Kind, name: object) -> AnyFacts | None:
    """The facts of the member called `name`; None if there is none, or it is a plug-in that does not load."""
    if not isinstance(name, str):
        return None
    if is_loaded(kind):
        members = family_of(kind).members
        return facts_of(kind, members[name]) if name in members else None
    own = own_members()[kind]
    if name in own:
        return read_facts(kind, own[name])
    return plugin_facts(kind, name) if is_plugin(kind, name) else None


def all_facts(kind: Kind) -> dict[str, AnyFacts]:
    """The facts of all members that load, by name, sorted."""
    found = {name: find_facts(kind, name) for name in names(kind)}
    return {name: facts for name, facts in found.items() if facts is not None}


def method_facts(name: str) -> MethodFacts:
    """The facts of a method; UnknownName if there is none."""
    return cast(MethodFacts, _known("method", name))


def attack_facts(name: str) -> AttackFacts:
    """The facts of an attack; UnknownName if there is none."""
    return cast(AttackFacts, _known("attack", name))


def workload_facts(name: str) -> WorkloadFacts:
    """The facts of a workload; UnknownName if there is none."""
    return cast(WorkloadFacts, _known("workload", name))


def _known(kind: Kind, name: str) -> AnyFacts:
    found = find_facts(kind, name)
    if found is None:
        raise refusal(kind, name)
    return found


def refusal(kind: Kind, name: object) -> UnknownName:
    """Why there is no member called `name`: nobody has the name, or its plug-in does not load."""
    broken = family_of(kind).broken.get(name) if isinstance(name, str) else None
    return broken or UnknownName(kind, name, [each for each in names(kind) if each != name])


def broken_plugins(kind: Kind) -> list[str]:
    """The names of the plug-ins that do not load."""
    all_facts(kind)
    return sorted(family_of(kind).broken)


# -- ours ------------------------------------------------------------------------------------------


@cache
def own_members() -> Members:
    """Our own members, as they are now."""
    state = own_state(*DECLARING)
    file = shipped()
    if not in_checkout() or file.get("made_from") == state:
        members: Members = file["members"]
        return members
    question = {"manifest of": state}
    known: Members | None = read_cached(default_folder("manifest"), question)
    if known is None:
        known = make_members()
        write_cached(default_folder("manifest"), question, known)
    return known


@cache
def shipped() -> Json:
    """The manifest that comes with the package; empty in a checkout where none was made."""
    if not SHIPPED.is_file() and in_checkout():
        return {"sizes": {}}
    found: Json = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return found


def make_members() -> Members:
    """Ask our own members, which loads all of them."""
    return {kind: _ask(kind, family_of(kind)) for kind in PACKAGES}


def _ask(kind: Kind, family: Family[Any]) -> dict[str, Json]:
    found = {name: facts_of(kind, member) for _, name, member in family.own_members()}
    return {name: _as_read(facts) for name, facts in sorted(found.items())}


def _as_read(facts: AnyFacts) -> Json:
    """As JSON and back: what was asked is the same as what will be read."""
    read: Json = json.loads(json.dumps(facts.file()))
    return read


# -- plug-ins --------------------------------------------------------------------------------------


@cache  # asked several times by a command
def plugin_facts(kind: Kind, name: str) -> AnyFacts | None:
    """The facts of a plug-in, which loads if it is new or changed; None if it is broken."""
    question = f"facts of a {kind}, as read by {own_state(*DECLARING)}"
    try:
        return read_facts(kind, kept_for(name, question, lambda: _ask_plugin(kind, name), kind))
    except _Broken:
        return None


class _Broken(Exception):
    """A plug-in does not load: the family knows why (`refusal`)."""


def _ask_plugin(kind: Kind, name: str) -> Json:
    member = family_of(kind).load_plugin(name)
    if member is None:
        raise _Broken
    return _as_read(facts_of(kind, member))


def is_plugin(kind: Kind, name: str) -> bool:
    """Whether a member comes from another package."""
    return name in _plugins(kind)


@cache
def _plugins(kind: Kind) -> set[str]:
    """The names of the plug-ins; BenchError if a name is taken twice."""
    family = family_of(kind)
    points = family.plugins()
    found = {point.name for point in points}
    if len(found) < len(points) or not found.isdisjoint(own_members()[kind]):
        family.names()  # says which
    return found
