"""Paired comparisons in the database: made from what tasks left, and only where they can be made."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from harness.leakage.candidates import FAMILY, Candidates
from harness.leakage.comparison import measure_strongest, paired_accuracy, paired_strongest
from harness.leakage.figures import recompute
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Cell, Task
from harness.store import Store
from tests.harness.simulated import attack, cell, leakage, publish, training

MODELS, RECORDS = 6, 300


def stored(strength: float, seed: int) -> dict[str, Any]:
    """What `strongest` leaves of a cell: the same members in every cell."""
    masks, random = np.random.default_rng(0), np.random.default_rng(seed)
    members = np.zeros((MODELS, RECORDS), dtype=np.bool_)
    for row in members:
        row[masks.permutation(RECORDS)[: RECORDS // 2]] = True
    phi = random.standard_normal(members.shape) + strength * members
    scores = {f"scores/{name}": phi + 0.1 * random.standard_normal(phi.shape) for name in FAMILY}
    return {"members": members, "phi": phi, **scores}


def add(store: Store, each: Cell, accuracies: np.ndarray[Any, Any], content: dict[str, Any] | None) -> None:
    for index, accuracy in enumerate(accuracies):
        task = Task("train", each, index=index)
        publish(store, task, training(task, float(accuracy)))
    publish(store, attack(each, "blind", models=MODELS), leakage(0.5, valid=True, message="looked"))
    task = attack(each, "strongest", models=MODELS)
    if content is None:
        publish(store, attack(each, "loss", models=MODELS), leakage(0.6))
        return
    store.add(task)
    artefact = store.write_artefact(task.key, "scores.safetensors", save(content))
    publish(store, task, {**recompute(content, "record"), "artefacts": {"scores": artefact}})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


def rows(store: Store) -> dict[str, dict[str, Any]]:
    collect(store.path)
    found = query(store.path, "select * from comparison").arrow.to_pylist()
    return {row["axis"]: row for row in found}


def test_two_cells_are_compared_as_the_statistics_say(store: Store) -> None:
    one, two = cell("w", "sgd"), cell("w", "dp-sgd", epsilon=1.0, delta=1e-5)
    first, second = np.linspace(0.90, 0.95, MODELS), np.linspace(0.80, 0.86, MODELS) ** 1.1
    leaky, private = stored(1.5, 1), stored(0.1, 2)
    add(store, one, first, leaky)
    add(store, two, second, private)
    found = rows(store)
    sign = 1 if found["accuracy"]["cell"] == one.key else -1
    expected = paired_accuracy(first, second)
    assert expected.difference is not None
    assert found["accuracy"]["difference"] == pytest.approx(sign * expected.difference)
    assert found["accuracy"]["p"] == pytest.approx(expected.p)
    measured = [
        measure_strongest("auc", Candidates.of({n: each[f"scores/{n}"] for n in FAMILY}, each["members"]), {})
        for each in (leaky, private)
    ]
    auc = paired_strongest(*measured)
    assert auc.difference is not None
    assert found["auc"]["difference"] == pytest.approx(sign * auc.difference)
    assert found["auc"]["p_holm"] < 0.05
    assert all(row["shown"] and row["pairs"] == 1 for row in found.values())


def test_without_scores_leakage_is_not_compared_and_says_why(store: Store) -> None:
    for method in ("sgd", "dp-sgd"):
        add(store, cell("w", method), np.linspace(0.8, 0.9, MODELS), None)
    found = rows(store)
    assert found["accuracy"]["p"] is not None
    assert found["auc"]["difference"] is None
    assert "strongest" in found["auc"]["reason"]


def test_cells_of_other_members_are_not_compared(store: Store) -> None:
    for n_train in (100, 200):
        each = cell("w", "sgd")
        add(store, Cell(**{**vars(each), "n_train": n_train}), np.linspace(0.8, 0.9, MODELS), None)
    collect(store.path)
    assert query(store.path, "select * from comparison").rows == []
