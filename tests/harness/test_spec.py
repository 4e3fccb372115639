"""Canonical JSON and keys: one spelling per value, no two tasks under one key."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec import (
    PROTOCOL,
    Cell,
    Notes,
    Plugin,
    Task,
    Timing,
    canonical,
    despelled,
    distinct_labels,
    key_of,
    read_task,
    spelled,
)
from workloads.errors import StoreError

names = st.text(max_size=8).filter(lambda text: not text.startswith("$"))
numbers = st.integers() | st.floats(allow_nan=False)
leaves = st.none() | st.booleans() | numbers | st.text(max_size=8)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


def cell(**params: Any) -> Cell:
    return Cell(Plugin("digits-mlp", "1"), 718, Plugin("dp-sgd", "1"), params, seed=0)


def same(one: Any, other: Any) -> bool:
    """Equality as a task means it: numbers by value, but True is not 1 and lists are not dicts."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


@pytest.mark.slow
@given(st.dictionaries(names, leaves, max_size=6))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical(value) == canonical(turned)


@given(values, values)
def test_two_values_share_a_key_only_if_they_are_the_same(one: Any, other: Any) -> None:
    assert (key_of(one) == key_of(other)) == same(one, other)


@given(values)
def test_canonical_values_are_json_and_round_trip(value: Any) -> None:
    back = despelled(json.loads(canonical(value)))
    assert same(back, value)


@given(st.integers(min_value=-(2**60), max_value=2**60))
def test_a_whole_float_is_the_integer(number: int) -> None:
    as_float = float(number)
    assert canonical(as_float) == canonical(int(as_float))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0.0, -0.0),
        (1e22, 10**22),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1.0}),
        ((1, 2), [1, 2]),
    ],
)
def test_spellings_of_one_value(one: Any, other: Any) -> None:
    assert key_of(one) == key_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (math.inf, "inf"),
        (math.inf, -math.inf),
        ("é", "e\u0301"),
        ([1, -2], [1, 2]),
        ([0.5], [0, 5]),
        ({}, []),
        (None, "null"),
        (1e-5, 1.0000000000000001e-05 * (1 + 2**-50)),
    ],
)
def test_values_that_only_look_alike(one: Any, other: Any) -> None:
    assert key_of(one) != key_of(other)


@pytest.mark.parametrize("value", [math.nan, {"$number": "inf"}, {1: 2}, {"a": object()}])
def test_values_without_a_canonical_form_are_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical(value)


def test_every_part_of_a_task_changes_its_key() -> None:
    base = cell(epsilon=1, clip=1.0)
    lira, loss = Plugin("lira", "1"), Plugin("loss", "1")
    tasks = [
        Task("train", base, index=0),
        Task("train", base, index=1),
        Task("train", cell(epsilon=2, clip=1.0)),
        Task("train", cell(epsilon=math.inf, clip=1.0)),
        Task("train", Cell(base.workload, 719, base.method, base.params, 0)),
        Task("train", Cell(base.workload, 718, base.method, base.params, 1)),
        Task("train", Cell(Plugin("digits-mlp", "2"), 718, base.method, base.params, 0)),
        Task("train", Cell(base.workload, 718, Plugin("dp-sgd", "2"), base.params, 0)),
        Task("attack", base, models=8, attack=lira),
        Task("attack", base, models=4, attack=lira),
        Task("attack", base, models=8, attack=loss),
        Task("attack", base, models=8, attack=lira, attack_params={"mode": "offline"}),
    ]
    assert len({task.key for task in tasks}) == len(tasks)


def test_notes_are_not_part_of_the_identity() -> None:
    assert Task("train", cell(epsilon=1), notes=Notes(tried=5)).key == Task("train", cell(epsilon=1)).key


@pytest.mark.parametrize(
    "task",
    [
        Task(
            "train",
            cell(epsilon=math.inf, clip=0.1, name="ü"),
            index=3,
            notes=Notes(4, "recipe", "validation", "c", {"T": 3}),
        ),
        Task("attack", cell(epsilon=1), models=8, attack=Plugin("lira", "1"), attack_params={"a": 0.5}),
    ],
)
def test_a_task_survives_its_file(task: Task) -> None:
    back = read_task(json.loads(json.dumps(task.file(), allow_nan=False)))
    assert back.key == task.key
    assert back.cell.key == task.file()["notes"]["cell"]
    assert back.notes == task.notes


def test_an_attack_reads_the_trainings_of_its_cell() -> None:
    attack = Task("attack", cell(epsilon=1), models=3, attack=Plugin("loss", "1"))
    assert list(attack.needs) == [Task("train", cell(epsilon=1), index=i).key for i in range(3)]
    assert Task("train", cell(epsilon=1)).needs == ()


def test_a_key_is_stable_over_time() -> None:
    """Stores outlive this code: a change of the hash must be intended, and raise PROTOCOL."""
    task = Task("train", cell(epsilon=8, clip=1.0, noise_multiplier=1.5), index=2)
    assert task.key == key_of(spelled(task.spec()))
    assert task.key == "68fd27aeac081bf4fc228de0a4204e74"


PRIVATE = Cell(
    Plugin("digits-mlp", "1"),
    718,
    Plugin("dp-sgd", "2"),
    {"epsilon": 8.0, "clip": 0.5, "batch_size": 64, "engine": "auto"},
    seed=7,
)
PLAIN = replace(PRIVATE, method=Plugin("pd-sgd", "1"), params={"gamma": math.inf, "lr": 0.1})
ARMED = replace(PLAIN, canary="near-duplicate", canaries=20, canary_version="2")
VARIANTS = {"pd-sgd": PLAIN, "dp-sgd auto": PRIVATE, "pd-sgd again": PLAIN}
SETTINGS = {"device": "cpu", "threads": 1, "seconds": math.inf}


def bench(stamp: str | None = None) -> Task:
    return Task("bench", PLAIN, timing=Timing(VARIANTS, 64, SETTINGS, stamp))


EVERY_KIND = {
    "train": Task("train", ARMED, index=3, notes=Notes(4, "recipe", "validation", "c", {"T": 3})),
    "attack": Task("attack", PRIVATE, models=8, attack=Plugin("lira", "2"), attack_params={"a": 0.5}),
    "attack with shadows": Task(
        "attack", ARMED, models=4, attack=Plugin("lira", "2"), attack_params={"k": 3}, shadows=PRIVATE
    ),
    "bench": bench(),
    "bench by hand": bench("2026-01-02 x"),
}
KEYS = {
    "train": "73e848d1bd91a59fce698de9eb3d0b99",
    "attack": "e667a15324bdf5bc24de0041dd88a46f",
    "attack with shadows": "6a637c75a2075241cb2084d6ff263cc2",
    "bench": "2b8bb0218a8c145725b4ecf5ab3684da",
    "bench by hand": "51a06098fc142bd0e6a10ebdd6d97a07",
}
"""Those of a training, an attack and a stamped bench are what they were when results were no models yet."""


@pytest.mark.parametrize("name", EVERY_KIND)
def test_the_keys_of_stored_tasks_stay(name: str) -> None:
    assert EVERY_KIND[name].key == KEYS[name]


@pytest.mark.parametrize("protocol", [0, PROTOCOL])
@pytest.mark.parametrize("name", EVERY_KIND)
def test_a_file_gives_an_equal_task_of_its_own_protocol(name: str, protocol: int) -> None:
    task = under(EVERY_KIND[name], protocol)
    back = read_task(json.loads(json.dumps(task.file(), allow_nan=False)))
    assert back == task
    assert back.key == task.key and back.file() == task.file()
    assert back.protocol == protocol and back.needs == task.needs
    if protocol == PROTOCOL:
        back.refuse_other_protocol()
    else:
        assert back.key != EVERY_KIND[name].key
        with pytest.raises(StoreError) as raised:
            back.refuse_other_protocol()
        found = raised.value
        assert (found.field, found.value, found.allowed) == ("protocol", protocol, PROTOCOL)


def under(task: Task, protocol: int) -> Task:
    """The task as it is planned under a protocol."""
    cell, shadows = (each and replace(each, protocol=protocol) for each in (task.cell, task.shadows))
    assert cell is not None
    timing = task.timing
    if timing is not None:
        variants = {name: replace(each, protocol=protocol) for name, each in timing.variants.items()}
        timing = replace(timing, variants=variants)
    return replace(task, cell=cell, shadows=shadows, timing=timing)


def test_a_bench_of_a_sweep_has_one_key_and_one_by_hand_its_own() -> None:
    assert bench().key == bench().key
    assert len({bench().key, bench("now").key, bench("later").key}) == 3
    assert bench("now").key == bench("now").key
    quicker = replace(bench(), timing=Timing(VARIANTS, 64, SETTINGS | {"threads": 2}))
    larger = replace(bench(), timing=Timing(VARIANTS, 128, SETTINGS))
    fewer = replace(bench(), timing=Timing({"pd-sgd": PLAIN}, 64, SETTINGS))
    assert len({task.key for task in (bench(), quicker, larger, fewer)}) == 4


def test_a_bench_has_no_cell_and_no_dependencies() -> None:
    assert bench().cell_key is None and bench().needs == ()
    assert bench().file()["notes"] == {"cell": None, "label": "bench of digits-mlp, batches of 64"}
    assert EVERY_KIND["train"].cell_key == ARMED.key


@pytest.mark.parametrize(
    "file",
    [
        {},
        {"task": {}},
        {"task": None, "notes": {}},
        {"task": {"kind": "train"}, "notes": {}},
        {"task": {**bench().file()["task"], "variants": []}, "notes": {}},
        {"task": {**bench().file()["task"], "variants": [{}]}, "notes": {}},
        {"task": EVERY_KIND["train"].file()["task"], "notes": None},
    ],
)
def test_files_that_no_task_has_are_refused(file: Any) -> None:
    with pytest.raises(StoreError, match="not the spec of a task"):
        read_task(file)


def test_cells_of_one_name_are_distinguished_by_what_differs() -> None:
    def cell(workload: str, n_train: int = 9, **params: Any) -> Cell:
        return Cell(Plugin(workload, "1"), n_train, Plugin("pd-sgd", "1"), params, 0)

    one, other = cell("w", gamma=1700.0, T=3), cell("w", gamma=2300.0, T=3)
    larger, elsewhere = cell("v", n_train=10, gamma=1.0), cell("v", gamma=1.0)
    assert list(distinct_labels([one, other, larger, elsewhere]).values()) == [
        "pd-sgd gamma=1700",
        "pd-sgd gamma=2300",
        "pd-sgd n_train=10",
        "pd-sgd n_train=9",
    ]
    assert distinct_labels([one, elsewhere]) == {one.key: "pd-sgd", elsewhere.key: "pd-sgd"}
