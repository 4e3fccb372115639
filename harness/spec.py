"""Cells and tasks as plain data, their canonical JSON and the key that names them."""

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

from workloads.errors import StoreError

PROTOCOL = 1
"""Raised when numbers stop being comparable; part of every key, and a store of a newer one is refused."""

FIRST_VERSION = "1"
"""Of a kind of canaries: keys do not mention it."""

Json = dict[str, Any]
Kind = Literal["train", "attack", "bench"]


@dataclass(frozen=True)
class Plugin:
    """A member of a family as a task remembers it."""

    name: str
    version: str

    def spec(self) -> Json:
        """As it stands in a task's JSON."""
        return {"name": self.name, "version": self.version}


@dataclass(frozen=True)
class Cell:
    """One point of a grid: workload x method x parameters. Everything that matters is resolved."""

    workload: Plugin
    n_train: int
    method: Plugin
    params: Mapping[str, Any]
    seed: int
    canary: str | None = None
    """The kind of canaries among the records, see harness/plan/canaries.py."""
    canaries: int = 0
    canary_version: str = FIRST_VERSION
    """Of the kind of canaries, raised when the same kind and number would give other records."""
    protocol: int = PROTOCOL
    """Under which it was planned; only cells that were read from a store may have another."""

    def spec(self) -> Json:
        """As it stands in a task's JSON; a cell without canaries does not mention them."""
        canaries: Json = {"canary": self.canary, "canaries": self.canaries} if self.canary else {}
        if self.canary and self.canary_version != FIRST_VERSION:
            canaries["canary_version"] = self.canary_version
        return {
            "workload": self.workload.spec(),
            "n_train": self.n_train,
            "method": self.method.spec(),
            "params": dict(self.params),
            "seed": self.seed,
            **canaries,
        }

    @cached_property
    def plain(self) -> Json:
        """The same in canonical spelling, made once: every task of the cell is hashed with it."""
        plain: Json = spelled(self.spec())
        return plain

    @cached_property
    def key(self) -> str:
        """The name of the cell."""
        return hash_of({"kind": "cell", "protocol": self.protocol, **self.plain})

    def training_key(self, index: int) -> str:
        """The key of the training of model `index`, made once: every attack on the cell asks for all."""
        if index not in self._training_keys:
            head = {"kind": "train", "protocol": self.protocol, **self.plain}
            self._training_keys[index] = hash_of({**head, "index": index})
        return self._training_keys[index]

    @cached_property
    def _training_keys(self) -> dict[int, str]:
        return {}

    @property
    def label(self) -> str:
        """A short name for people: the method, with its epsilon and its canaries where it has them."""
        epsilon = self.params.get("epsilon")
        name = self.method.name if epsilon is None else f"{self.method.name} ε={epsilon:g}"
        return f"{name} +{self.canaries} {self.canary}" if self.canary else name


@dataclass(frozen=True)
class Declared:
    """What a method said of itself and of the cell when the task was planned."""

    role: str | None = None
    """A `Role` of methods/base.py; None for a method that nothing is compared with."""
    solved: str | None = None
    """The parameter that was solved for to meet epsilon; None where nothing was."""
    illustrated: bool = False
    """Whether it brings figures of its own, which a report then asks it for."""


@dataclass(frozen=True)
class Notes:
    """What is recorded beside a task and decides none of its numbers: not part of its key."""

    tried: int | None = None
    """Configurations tried before, by the recipe values really used."""
    tuned_by: str | None = None
    """`recipe`, `paper`, or None where no value was tuned."""
    tuned_on: str | None = None
    """`validation` or, of some papers, `test`."""
    configuration: str | None = None
    """See `configuration_of`; None in tasks of 0.1."""
    levels: Mapping[str, Any] = field(default_factory=dict)
    """Parameters beside epsilon that trade privacy: configurations are counted at equal levels."""
    declared: Declared | None = None
    """What the method declared; None in tasks of older versions: it is asked when they are collected."""
    attack_defaults: bool | None = None
    """Of an attack: whether its parameters are those it has when none are given; None in older tasks."""


def configuration_of(params: Mapping[str, Any], uncounted: Collection[str]) -> str:
    """A hash that configurations share which differ only in uncounted parameters."""
    return key_of({name: value for name, value in params.items() if name not in uncounted})


@dataclass(frozen=True)
class Timing:
    """What a bench times: cells of one workload and batch size whose trainings take turns in one process."""

    variants: Mapping[str, Cell]
    """By the variant's name; the first is the baseline."""
    batch_size: int
    settings: Mapping[str, Any]
    """Device, threads, rounds: how it is measured."""
    stamp: str | None = None
    """Gives a bench asked for by hand a key of its own: it says something about a machine at a moment, and is
    never taken from the store. The bench of a sweep has none, so that the sweep can be finished."""

    def spec(self) -> Json:
        """As it stands in a task's JSON."""
        variants = [
            {"variant": name, "method": cell.method.spec(), "params": dict(cell.params)}
            for name, cell in self.variants.items()
        ]
        stamp = {} if self.stamp is None else {"stamp": self.stamp}
        return {"batch_size": self.batch_size, "variants": variants, "settings": dict(self.settings), **stamp}


@dataclass(frozen=True)
class Task:
    """The unit of result: `train` (one model of a cell), `attack` (one on the cell's models) or `bench`."""

    kind: Kind
    cell: Cell
    """Of a bench, the baseline's."""
    index: int = 0
    models: int = 0
    attack: Plugin | None = None
    attack_params: Mapping[str, Any] = field(default_factory=dict)
    shadows: Cell | None = None
    """Another cell of the same members whose models are the shadows; None: the cell's own."""
    notes: Notes = Notes()
    timing: Timing | None = None
    """Of a bench."""

    def spec(self) -> Json:
        """Everything that decides the numbers, as canonical JSON is made of it."""
        head: Json = {"kind": self.kind, "protocol": self.protocol}
        if self.timing is not None:
            cell = self.cell.spec()
            return head | {name: cell[name] for name in ("workload", "n_train", "seed")} | self.timing.spec()
        head |= self.cell.spec()
        if self.kind == "train":
            return {**head, "index": self.index}
        if self.attack is None:
            raise ValueError("an attack task names its attack")
        attack = {"attack": self.attack.spec(), "attack_params": dict(self.attack_params)}
        shadows = {"shadows": self.shadows.spec()} if self.shadows else {}
        return {**head, "models": self.models, **attack, **shadows}

    @property
    def protocol(self) -> int:
        """Under which it was planned."""
        return self.cell.protocol

    @cached_property
    def key(self) -> str:
        """The name of the task in the store: a hash of its canonical JSON."""
        if self.kind == "train":
            return self.cell.training_key(self.index)
        if self.kind == "bench":
            return key_of(self.spec())
        own = {name: value for name, value in self.spec().items() if name not in self.cell.plain}
        return hash_of({**self.cell.plain, **spelled(own)})

    @property
    def cell_key(self) -> str | None:
        """The key of the cell it belongs to; a bench belongs to none."""
        return None if self.kind == "bench" else self.cell.key

    @property
    def label(self) -> str:
        """A short name for people."""
        if self.timing is None:
            return self.cell.label
        return f"bench of {self.cell.workload.name}, batches of {self.timing.batch_size}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the trainings whose models this attack reads; none for a training or a bench."""
        cells = [self.cell, self.shadows] if self.shadows else [self.cell]
        return tuple(cell.training_key(index) for cell in cells for index in range(self.models))

    def file(self) -> Json:
        """The content of `spec.json`: the task, and notes that are not part of its identity."""
        head = {"cell": self.cell_key, "label": self.label}
        notes = spelled(asdict(self.notes)) if self.kind != "bench" else {}
        return {"task": spelled(self.spec()), "notes": {**head, **notes}}

    def refuse_other_protocol(self) -> None:
        """StoreError where it was planned under another protocol than ours, so that it cannot run."""
        if self.protocol != PROTOCOL:
            raise StoreError(
                f"the task was planned under protocol {self.protocol}, this privbench works under "
                f"{PROTOCOL}, and their numbers do not compare: enqueue the sweep again, which makes new "
                "tasks beside the old"
            )


def distinct_labels(cells: Sequence[Cell]) -> dict[str, str]:
    """Cell key to a label for people; cells of one name get the values in which they differ added."""
    alike: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((cell.workload.name, cell.label), []).append(cell)
    labels = {}
    for group in alike.values():
        values = [{"n_train": cell.n_train, "seed": cell.seed, **cell.params} for cell in group]
        differing = [name for name in values[0] if len({str(each.get(name)) for each in values}) > 1]
        for cell, own in zip(group, values, strict=True):
            told = [f"{name}={_short(own.get(name))}" for name in differing]
            labels[cell.key] = " ".join([cell.label, *told])
    return labels


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_task(file: Mapping[str, Any]) -> Task:
    """The task of a `spec.json`, of any protocol; StoreError where it is of another shape."""
    try:
        return _read_task(despelled(file["task"]), read_notes(file["notes"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"this is not the spec of a task: {error!r}") from error


def _read_task(task: Json, notes: Notes) -> Task:
    if task["kind"] == "bench":
        return _read_bench(task)
    cell = _read_cell(task, task["protocol"])
    if task["kind"] == "train":
        return Task("train", cell, index=task["index"], notes=notes)
    return Task(
        "attack",
        cell,
        models=task["models"],
        attack=Plugin(**task["attack"]),
        attack_params=task["attack_params"],
        shadows=_read_cell(task["shadows"], task["protocol"]) if "shadows" in task else None,
        notes=notes,
    )


def _read_bench(task: Json) -> Task:
    shared = {name: task[name] for name in ("workload", "n_train", "seed")}
    variants = {
        each["variant"]: _read_cell({**shared, **each}, task["protocol"]) for each in task["variants"]
    }
    if not variants:
        raise ValueError("a bench without variants")
    timing = Timing(variants, task["batch_size"], task["settings"], task.get("stamp"))
    return Task("bench", next(iter(variants.values())), timing=timing)


def read_notes(given: Mapping[str, Any]) -> Notes:
    """The notes of a `spec.json`; those of 0.1 have only the count of tries, as `tuned`."""
    found: Json = {each.name: despelled(given[each.name]) for each in fields(Notes) if each.name in given}
    if found.get("declared") is not None:
        found["declared"] = Declared(**found["declared"])
    return Notes(**{"tried": given.get("tuned"), **found})


def _read_cell(given: Json, protocol: int) -> Cell:
    return Cell(
        workload=Plugin(**given["workload"]),
        n_train=given["n_train"],
        method=Plugin(**given["method"]),
        params=given["params"],
        seed=given["seed"],
        canary=given.get("canary"),
        canaries=given.get("canaries", 0),
        canary_version=given.get("canary_version", FIRST_VERSION),
        protocol=protocol,
    )


def key_of(value: Any) -> str:
    """32 hex digits that two values share only if their canonical JSON is the same."""
    return hash_of(spelled(value))


def hash_of(plain: Any) -> str:
    """The key of a value that is in canonical spelling already."""
    return hashlib.sha256(_text(plain).encode("ascii")).hexdigest()[:32]


def canonical(value: Any) -> str:
    """One spelling per value: sorted keys, no spaces, ASCII; 1 and 1.0 are one number, True is not."""
    return _text(spelled(value))


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def spelled(value: Any) -> Any:
    """Plain JSON for a value: equal numbers get one spelling, infinities become {"$number": ...}."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key.startswith("$"):
                raise TypeError(f"a key must be a string that does not begin with $, got {key!r}")
        return {key: spelled(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [spelled(each) for each in value]
    raise TypeError(f"{value!r} of type {type(value).__name__} has no canonical JSON")


def _number(value: float) -> Any:
    if math.isnan(value):
        raise TypeError("nan has no canonical JSON: it is not equal to itself")
    if math.isinf(value):
        return {"$number": "inf" if value > 0 else "-inf"}
    # A whole float is spelled as the integer it equals, so that 1 and 1.0 (and 0.0 and -0.0) agree.
    return int(value) if value.is_integer() else value


def despelled(value: Any) -> Any:
    """Undo `spelled`: {"$number": ...} becomes an infinity again."""
    if isinstance(value, dict):
        if "$number" in value:
            return float(value["$number"])
        return {key: despelled(each) for key, each in value.items()}
    if isinstance(value, list):
        # A call for every number of a ROC curve would take longer than reading the file it is in.
        return [each if isinstance(each, float) else despelled(each) for each in value]
    return value
