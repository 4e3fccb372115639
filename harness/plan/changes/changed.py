"""Changes of code or data since tasks were done, and the refusal to mix results from before and after.

Results of another code or other data under the same versions must not stand in one table unnoticed
(docs/rules.md: fingerprints). Code of ours is compared in a checkout only: between releases, raised versions
give tasks new keys. Data that are not on this machine cannot be compared here; the tasks that use them record
what they used.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from harness.plan.changes.task_code import OWN, Asked, asked_of, code_of, plugins_of
from harness.plan.changes.task_data import data_now
from harness.plan.plan import Plan
from harness.spec import Json, Task
from harness.store import Store
from harness.store.fingerprints import accepted, key_name, read_sources, short_digest, store_secret
from harness.store.forgotten import is_forgotten, read_forgotten
from harness.store.journal import Accepted
from workloads.errors import SpecError
from workloads.fingerprint import SourceFingerprint

OPTION = "--accept-changed-code"
SHOWN_FILES = 5


class ChangedCode(SpecError):
    """Code or data changed since tasks were done.

    Attributes:
        field: The option that accepts it.
        value: The changes, each with `member`, `details` and `tasks`.
    """

    def __init__(self, changes: "Iterable[Change]") -> None:
        self.changes = tuple(changes)
        alike: dict[tuple[str, tuple[str, ...]], Change] = {}
        for each in self.changes:  # tasks use different parts of ours: one file changes many fingerprints
            same = (each.member, each.details)
            alike[same] = replace(each, tasks=each.tasks + (alike[same].tasks if same in alike else 0))
        super().__init__([each.problem for each in alike.values()], field=OPTION, value=self.changes)


@dataclass(frozen=True)
class Change:
    """A difference between the fingerprint that some tasks recorded and the present one."""

    member: str
    """`workload NAME`, `method NAME`, `attack NAME`, `privbench`, or `data of NAME`."""
    before: str
    after: str
    details: tuple[str, ...]
    """`FILE changed`, `FILE added`, `FILE gone`; or what of the data differs."""
    tasks: int = 1

    @property
    def problem(self) -> str:
        """What changed, and what to do."""
        shown = ", ".join(self.details[:SHOWN_FILES])
        more = len(self.details) - SHOWN_FILES
        what = f"{shown} and {more} more" if more > 0 else shown
        done = "1 finished task" if self.tasks == 1 else f"{self.tasks:,} finished tasks"
        return (
            f"{self.member}: {what} since {done} of this store ran. Old and new results would be mixed: "
            f"raise `version` of {self._versioned} to run them again, or give {OPTION} if the numbers are "
            "the same (this is recorded)"
        )

    @property
    def _versioned(self) -> str:
        if self.member == OWN:
            return "the workload, method or attack concerned"
        return self.member.replace("data of", "workload", 1)


@dataclass(frozen=True)
class Comparison:
    """Tasks that are done against the present code and data."""

    changes: tuple[Change, ...]
    """Not accepted so far."""
    accepted: tuple[Accepted, ...]
    unknown: int
    """Tasks without a fingerprint: privbench 0.1 recorded none."""

    @property
    def note(self) -> str | None:
        """What to say about tasks without a fingerprint."""
        if not self.unknown:
            return None
        return (
            f"{self.unknown:,} finished tasks have no fingerprint of code and data, like all of privbench "
            "0.1: they are used as they are"
        )


def check_plan(plan: Plan, store: Store, accept: bool) -> Plan:
    """The plan with what was accepted and a note on old results; ChangedCode unless accepted.

    Its finished tasks are compared, and those of other sweeps that would stand in one table with its
    unfinished ones: tasks of the same plug-in in the same version.
    """
    done = ((task, plan.recorded[task.key]) for task in plan.tasks if task.key in plan.done)
    found = compare(done, store, _beside(plan, store))
    taken = take(found, accept)
    notes = tuple(filter(None, [found.note]))
    return replace(plan, accepted=taken, warnings=(*plan.warnings, *notes))


def take(found: Comparison, accept: bool) -> tuple[Accepted, ...]:
    """All accepted changes, those of old and, if the user accepts them, those found now."""
    if found.changes and not accept:
        raise ChangedCode(found.changes)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    new = (
        Accepted(
            member=each.member, before=each.before, after=each.after, details=list(each.details), time=now
        )
        for each in found.changes
    )
    return (*found.accepted, *new)


def _beside(plan: Plan, store: Store) -> Iterator[tuple[Task, Json, set[str]]]:
    """Finished tasks outside the plan that share plug-ins with its unfinished ones, and the parts shared."""
    plugins = set().union(*map(plugins_of, plan.todo))
    if not plugins or not store.exists():  # reading a whole store takes seconds
        return
    forgotten, planned = read_forgotten(store), {task.key for task in plan.tasks}
    for task, result in store.results():
        shared = plugins & plugins_of(task)
        if not shared or not result.done or task.key in planned or is_forgotten(forgotten, task):
            continue
        parts = {f"{family} {member.name}" for family, member in shared}
        parts |= {f"data of {member.name}" for family, member in shared if family == "workload"}
        yield task, result.provenance, parts


def compare(
    done: Iterable[tuple[Task, Json]], store: Store, beside: Iterable[tuple[Task, Json, set[str]]] = ()
) -> Comparison:
    """Compare finished tasks, each with its provenance, with the present code and data.

    Of tasks `beside` them only the given parts are compared.
    """
    if not store.exists():
        return Comparison((), (), 0)
    look = _Look(store)
    found: dict[tuple[str, str, str], Change] = {}
    unknown = 0
    for task, provenance in done:
        if not isinstance(provenance.get("code"), Mapping):
            unknown += 1
            continue
        for change in look.changes(task, provenance):
            _count(change, found)
    for task, provenance, parts in beside:
        if isinstance(provenance.get("code"), Mapping):
            for change in look.changes(task, provenance):
                if change.member in parts:
                    _count(change, found)
    known = {(each.member, each.before, each.after): each for each in accepted(store)} if found else {}
    return Comparison(
        tuple(change for same, change in found.items() if same not in known),
        tuple(known[same] for same in found if same in known),
        unknown,
    )


def _count(change: Change, found: dict[tuple[str, str, str], Change]) -> None:
    """Add the task of a change to the changes found so far."""
    same = (change.member, change.before, change.after)
    before = found.get(same)
    found[same] = replace(change, tasks=before.tasks + 1) if before else change


class _Look:
    """What is there now, looked up once for all tasks."""

    def __init__(self, store: Store) -> None:
        self.store, self.secret = store, store_secret(store)
        self.code: dict[Asked, dict[str, SourceFingerprint]] = {}
        self.data: dict[str, Json | None] = {}
        self.files: dict[tuple[str, str], tuple[str, ...]] = {}

    def changes(self, task: Task, provenance: Json) -> Iterable[Change]:
        asked = asked_of(task)
        if asked not in self.code:
            self.code[asked] = code_of(asked)
        for member, now in self.code[asked].items():
            before = str(provenance["code"].get(member, now.digest))
            if before != now.digest and (details := self._differing(member, before, now)):
                yield Change(member, before, now.digest, details)
        yield from self._data_changes(task, provenance.get("data"))

    def _differing(self, member: str, before: str, now: SourceFingerprint) -> tuple[str, ...]:
        """Which files differ; nothing if one of the two is a release of ours."""
        if (before, now.digest) not in self.files:
            old = read_sources(self.store, before)
            unlisted = () if member == OWN else ("its code changed",)
            found = differing_files(old, now.files) if old and now.files else unlisted
            self.files[before, now.digest] = found
        return self.files[before, now.digest]

    def _data_changes(self, task: Task, recorded: Any) -> Iterable[Change]:
        if not isinstance(recorded, Mapping) or self.secret is None:
            return
        if recorded.get("key") != key_name(self.secret):  # of a lost secret, or copied from another store
            return
        name = task.cell.workload.name
        if name not in self.data:
            self.data[name] = data_now(name, self.secret)
        now = self.data[name]
        if now is not None and now != recorded:
            details = tuple(differing_data(recorded, now))
            yield Change(f"data of {name}", str(short_digest({**recorded})), str(short_digest(now)), details)


def differing_files(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The files that differ between two fingerprints, each with how."""
    changed = [f"{file} changed" for file in now if file in before and before[file] != now[file]]
    added = [f"{file} added" for file in now if file not in before]
    gone = [f"{file} gone" for file in before if file not in now]
    return tuple(changed + added + gone)


def differing_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[str]:
    """What differs between two fingerprints of records: shape, dtype, or else values."""
    for part in ("pool", "test"):
        for name, what in (("x", "examples"), ("y", "labels")):
            old, new = before.get(part, {}).get(name, {}), now.get(part, {}).get(name, {})
            unlike = [each for each in ("shape", "dtype") if old.get(each) != new.get(each)]
            for each in unlike:
                yield f"{each} of the {part}'s {what} changed from {old.get(each)} to {new.get(each)}"
            if not unlike and old != new:
                yield f"values of the {part}'s {what} changed"
