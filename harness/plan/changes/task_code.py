"""The fingerprint of the code behind a task's numbers, in parts: its plug-ins', and ours.

Ours is the code that performs the task, its members of ours, and what plug-ins use of ours; see NO_NUMBERS in
workloads/fingerprint.py for what does not count. Of an installed release only the version is known.
"""

from collections.abc import Iterator
from importlib.metadata import entry_points

from harness.spec import Kind, Plugin, Task
from workloads.code.project import GROUPS, OURS, top_of
from workloads.code.syntax import freeze
from workloads.fingerprint import (
    SourceFingerprint,
    fingerprint_of,
    in_checkout,
    member_module,
    own_fingerprint,
    source_fingerprint,
    walk,
)

PERFORMED_BY: dict[Kind, str] = {
    "train": "harness.jobs.train",
    "attack": "harness.jobs.attack",
    "bench": "harness.jobs.bench.bench",
}
OWN = "privbench"
"""The part that is ours."""

Asked = tuple[Kind, tuple[tuple[str, str], ...]]
"""The kind of a task and its members: tasks with the same have the same code."""


def asked_of(task: Task) -> Asked:
    """The kind of a task, and the kinds and names of its members."""
    return task.kind, tuple(dict.fromkeys((family, member.name) for family, member in _members(task)))


def plugins_of(task: Task) -> set[tuple[str, Plugin]]:
    """The members of a task that are not ours, each with its family."""
    return {
        (family, member)
        for family, member in _members(task)
        if (module := member_module(family, member.name)) is not None and top_of(module) not in OURS
    }


def _members(task: Task) -> Iterator[tuple[str, Plugin]]:
    cells = task.timing.variants.values() if task.timing is not None else [task.cell]
    yield "workload", task.cell.workload
    for cell in cells:
        yield "method", cell.method
    if task.attack is not None:
        yield "attack", task.attack


def code_of(asked: Asked) -> dict[str, SourceFingerprint]:
    """The fingerprint of every plug-in, by kind and name, and of ours as `privbench`."""
    kind, members = asked
    parts: dict[str, SourceFingerprint] = {}
    ours = {PERFORMED_BY[kind]}
    for family, name in members:
        module = member_module(family, name)
        if module is None:
            continue
        if top_of(module) in OURS:
            ours.add(module)
            continue
        walked = walk([module])
        parts[f"{family} {name}"] = fingerprint_of(walked.files)
        ours |= walked.ours
    return {**parts, OWN: own_fingerprint(*sorted(ours))}


def remember_code() -> None:
    """Read all code that tasks may use, before it is loaded.

    A worker lives for many tasks. What it loaded is what it runs, whatever happens to the files meanwhile.
    """
    freeze()
    points = (
        point.value.partition(":")[0].strip() for group in GROUPS for point in entry_points(group=group)
    )
    for module in points:
        walk([module])
    if in_checkout():
        own_fingerprint()
        source_fingerprint(*PERFORMED_BY.values())
