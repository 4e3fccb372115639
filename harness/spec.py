"""Cells and tasks as plain data, their canonical JSON and their keys."""

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

from workloads.errors import StoreError

PROTOCOL = 1
"""Raised when results stop being comparable; part of every key. Stores of a newer protocol are rejected."""

FIRST_VERSION = "1"
"""The first version of a kind of canaries, which is not part of keys."""

Json = dict[str, Any]
Kind = Literal["train", "attack", "bench"]


@dataclass(frozen=True)
class Plugin:
    """Name and version of a member of a family."""

    name: str
    version: str

    def spec(self) -> Json:
        """Its part of a task's JSON."""
        return {"name": self.name, "version": self.version}


@dataclass(frozen=True)
class Cell:
    """One resolved point of a grid: workload, method and parameters."""

    workload: Plugin
    n_train: int
    method: Plugin
    params: Mapping[str, Any]
    seed: int
    canary: str | None = None
    """The kind of canaries (harness/plan/canaries.py)."""
    canaries: int = 0
    canary_version: str = FIRST_VERSION
    """Of the kind of canaries; raised when the same kind and number would give other records."""
    protocol: int = PROTOCOL
    """The protocol it was planned under; another one only in cells read from a store."""

    def spec(self) -> Json:
        """Its part of a task's JSON; canaries are left out if there are none."""
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
        """`spec` in canonical form, cached since every task of the cell is hashed with it."""
        plain: Json = spelled(self.spec())
        return plain

    @cached_property
    def key(self) -> str:
        """The hash of the cell."""
        return hash_of({"kind": "cell", "protocol": self.protocol, **self.plain})

    def training_key(self, index: int) -> str:
        """The key of the training of model `index`, cached since every attack on the cell needs all."""
        if index not in self._training_keys:
            head = {"kind": "train", "protocol": self.protocol, **self.plain}
            self._training_keys[index] = hash_of({**head, "index": index})
        return self._training_keys[index]

    @cached_property
    def _training_keys(self) -> dict[int, str]:
        return {}

    @property
    def label(self) -> str:
        """A short name for display: the method, its epsilon and its canaries."""
        epsilon = self.params.get("epsilon")
        name = self.method.name if epsilon is None else f"{self.method.name} ε={epsilon:g}"
        return f"{name} +{self.canaries} {self.canary}" if self.canary else name


def epochs_of(params: Mapping[str, Any], n_train: int) -> float | None:
    """How often a training visits a member on average; None for a method without steps of batches."""
    steps, batch = params.get("steps"), params.get("batch_size")
    return steps * batch / n_train if steps is not None and batch is not None else None


def steps_of(epochs: float, batch_size: int, n_train: int) -> int:
    """The steps of so many epochs; a last part of an epoch counts as a step."""
    # A product that is off by a rounding error must not cost another step.
    return math.ceil(round(epochs * n_train / batch_size, 6))


@dataclass(frozen=True)
class Declared:
    """What the method declared when the task was planned."""

    role: str | None = None
    """A `Role` of methods/base.py; None for a method that is not a baseline."""
    solved: str | None = None
    """The parameter that was solved for to meet epsilon, if any."""
    illustrated: bool = False
    """Whether it has figures of its own, which reports include."""


@dataclass(frozen=True)
class Notes:
    """Annotations of a task that do not affect its results: not part of its key."""

    tried: int | None = None
    """Number of configurations tried to find the recipe values in use."""
    tuned_by: str | None = None
    """`recipe`, `paper`, `tune:` and the name of a tune, or None if no value was tuned."""
    tuned_on: str | None = None
    """`validation` or, in some papers, `test`."""
    configuration: str | None = None
    """See `configuration_of`; None in tasks of 0.1."""
    levels: Mapping[str, Any] = field(default_factory=dict)
    """Parameters other than epsilon that trade privacy for utility; configurations are counted per level."""
    declared: Declared | None = None
    """What the method declared; None in old tasks, for which the installed method is asked."""
    attack_defaults: bool | None = None
    """Of an attack: whether it has its default parameters; None in old tasks."""
    trials: int | None = None
    """Configurations of each study of the tune, if values are a tune's."""
    studies: int | None = None
    tune: str | None = None
    """The checksum of the tune's record, by which its trials are not counted twice."""
    study: int | None = None
    """The study of the tune that chose all of these values; None if some are of a grid."""
    tuned_at: str | None = None
    """Where the recipe's values were tuned, if that is not here: another epsilon or number of members."""


def configuration_of(params: Mapping[str, Any], uncounted: Collection[str]) -> str:
    """A hash of a configuration that ignores uncounted parameters."""
    return key_of({name: value for name, value in params.items() if name not in uncounted})


@dataclass(frozen=True)
class Timing:
    """What a bench times: cells of one workload and batch size, interleaved in one process."""

    variants: Mapping[str, Cell]
    """Cells by the name of the variant; the first is the baseline."""
    batch_size: int
    settings: Mapping[str, Any]
    """Device, threads, rounds: how it is measured."""
    stamp: str | None = None
    """Makes the key of a bench started by hand unique: it measures a machine at a moment and is never reused.
    The bench of a sweep has none, so that the sweep can be finished."""

    def spec(self) -> Json:
        """Its part of a task's JSON."""
        variants = [
            {"variant": name, "method": cell.method.spec(), "params": dict(cell.params)}
            for name, cell in self.variants.items()
        ]
        stamp = {} if self.stamp is None else {"stamp": self.stamp}
        return {"batch_size": self.batch_size, "variants": variants, "settings": dict(self.settings), **stamp}


@dataclass(frozen=True)
class Task:
    """The unit of work: `train` (one model of a cell), `attack` (on the models of a cell) or `bench`."""

    kind: Kind
    cell: Cell
    """For a bench, the cell of the baseline."""
    index: int = 0
    models: int = 0
    attack: Plugin | None = None
    attack_params: Mapping[str, Any] = field(default_factory=dict)
    shadows: Cell | None = None
    """The cell of the shadow models, with the same members; None for the cell itself."""
    notes: Notes = Notes()
    timing: Timing | None = None
    """Set for a bench."""

    def spec(self) -> Json:
        """Everything that determines the result; the key is the hash of its canonical JSON."""
        head: Json = {"kind": self.kind, "protocol": self.protocol}
        if self.timing is not None:
            cell = self.cell.spec()
            return head | {name: cell[name] for name in ("workload", "n_train", "seed")} | self.timing.spec()
        head |= self.cell.spec()
        if self.kind == "train":
            return {**head, "index": self.index}
        if self.attack is None:
            raise ValueError("an attack task needs an attack")
        attack = {"attack": self.attack.spec(), "attack_params": dict(self.attack_params)}
        shadows = {"shadows": self.shadows.spec()} if self.shadows else {}
        return {**head, "models": self.models, **attack, **shadows}

    @property
    def protocol(self) -> int:
        """The protocol it was planned under."""
        return self.cell.protocol

    @cached_property
    def key(self) -> str:
        """The name of the task in the store: the hash of its canonical JSON."""
        if self.kind == "train":
            return self.cell.training_key(self.index)
        if self.kind == "bench":
            return key_of(self.spec())
        own = {name: value for name, value in self.spec().items() if name not in self.cell.plain}
        return hash_of({**self.cell.plain, **spelled(own)})

    @property
    def cell_key(self) -> str | None:
        """The key of its cell; None for a bench."""
        return None if self.kind == "bench" else self.cell.key

    @property
    def label(self) -> str:
        """A short name for display."""
        if self.timing is None:
            return self.cell.label
        return f"bench of {self.cell.workload.name}, batches of {self.timing.batch_size}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The keys of the trainings that this attack reads; empty for a training or a bench."""
        cells = [self.cell, self.shadows] if self.shadows else [self.cell]
        return tuple(cell.training_key(index) for cell in cells for index in range(self.models))

    def file(self) -> Json:
        """The content of `spec.json`: the task and its notes."""
        head = {"cell": self.cell_key, "label": self.label}
        notes = spelled(asdict(self.notes)) if self.kind != "bench" else {}
        return {"task": spelled(self.spec()), "notes": {**head, **notes}}

    def refuse_other_protocol(self) -> None:
        """StoreError if it was planned under another protocol."""
        if self.protocol != PROTOCOL:
            raise StoreError(
                f"the task was planned under protocol {self.protocol}, but this privbench has protocol "
                f"{PROTOCOL}, whose results are not comparable: enqueue the sweep again to plan new tasks",
                field="protocol",
                value=self.protocol,
                allowed=PROTOCOL,
            )


def distinct_labels(cells: Sequence[Cell]) -> dict[str, str]:
    """Labels by cell key; cells with the same label get the values in which they differ appended."""
    alike: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        alike.setdefault((cell.workload.name, cell.label), []).append(cell)
    labels = {}
    for group in alike.values():
        values = [{"n_train": cell.n_train, "seed": cell.seed, **cell.params} for cell in group]
        differing = [name for name in values[0] if len({str(each.get(name)) for each in values}) > 1]
        for cell, own in zip(group, values, strict=True):
            values_shown = [f"{name}={_short(own.get(name))}" for name in differing]
            labels[cell.key] = " ".join([cell.label, *values_shown])
    return labels


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def read_task(file: Mapping[str, Any]) -> Task:
    """Parse a `spec.json` of any protocol; StoreError if it is not a task."""
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
    """Parse the notes of a `spec.json`; those of 0.1 have only the number of tries, as `tuned`."""
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
    """The first 32 hex digits of the SHA-256 of a value's canonical JSON."""
    return hash_of(spelled(value))


def hash_of(plain: Any) -> str:
    """The key of a value that is already in canonical form."""
    return hashlib.sha256(_text(plain).encode("ascii")).hexdigest()[:32]


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, ASCII; 1 and 1.0 are the same number, True is not."""
    return _text(spelled(value))


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def spelled(value: Any) -> Any:
    """Convert to canonical plain JSON: equal numbers become identical, infinities {"$number": ...}."""
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
        raise TypeError("NaN has no canonical JSON: it is not equal to itself")
    if math.isinf(value):
        return {"$number": "inf" if value > 0 else "-inf"}
    # A float without a fraction becomes an int, so that 1 and 1.0 (and 0.0 and -0.0) agree.
    return int(value) if value.is_integer() else value


def despelled(value: Any) -> Any:
    """Undo `spelled`: {"$number": ...} becomes an infinity."""
    if isinstance(value, dict):
        if "$number" in value:
            return float(value["$number"])
        return {key: despelled(each) for key, each in value.items()}
    if isinstance(value, list):
        # A call for every number of a ROC curve would take longer than reading its file.
        return [each if isinstance(each, float) else despelled(each) for each in value]
    return value
