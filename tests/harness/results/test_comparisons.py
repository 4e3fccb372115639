"""Paired comparisons in the database: computed from stored artefacts, and only if possible."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

from harness.leakage.candidates import FAMILY, Candidates
from harness.leakage.comparison import (
    accuracy_test_se,
    measure_strongest,
    paired_accuracy,
    paired_strongest,
)
from harness.leakage.declared import Signals, score_declared, score_strongest
from harness.leakage.figures import recompute
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Cell, Task
from harness.store import Store
from harness.store.purge import holdings, purge
from tests.harness.simulated import attack, cell, leakage, publish, training

MODELS, RECORDS = 6, 300


def masks(models: int) -> NDArray[np.bool_]:
    random = np.random.default_rng(0)
    members = np.zeros((models, RECORDS), dtype=np.bool_)
    for row in members:
        row[random.permutation(RECORDS)[: RECORDS // 2]] = True
    return members


def stored(strength: float, seed: int) -> dict[str, Any]:
    """The artefacts of `strongest` on a cell: the same members in every cell."""
    members, random = masks(MODELS), np.random.default_rng(seed)
    phi = random.standard_normal(members.shape) + strength * members
    scores = {f"scores/{name}": phi + 0.1 * random.standard_normal(phi.shape) for name in FAMILY}
    return {"members": members, "phi": phi, **scores}


def add(
    store: Store,
    each: Cell,
    accuracies: np.ndarray[Any, Any],
    content: dict[str, Any] | None,
    left: Sequence[dict[str, Any]] = (),
) -> None:
    for index, accuracy in enumerate(accuracies):
        task = Task("train", each, index=index)
        result = training(task, float(accuracy))
        if left:
            store.add(task)
            kept = store.write_artefact(task.key, "signals.safetensors", save(left[index]))
            result["artefacts"] = {"signals": kept}
        publish(store, task, result)
    models = len(accuracies)
    publish(store, attack(each, "blind", models=models), leakage(0.5, valid=True, message="looked"))
    task = attack(each, "strongest", models=models)
    if content is None:
        publish(store, attack(each, "loss", models=MODELS), leakage(0.6))
        return
    store.add(task)
    artefact = store.write_artefact(task.key, "scores.safetensors", save(content))
    publish(store, task, {**recompute(content, "record").model_dump(), "artefacts": {"scores": artefact}})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


def rows(store: Store) -> dict[str, dict[str, Any]]:
    collect(store.path)
    found = query(store.path, "select * from comparison").arrow.to_pylist()
    return {row["axis"]: row for row in found}


def test_two_cells_are_compared_by_the_paired_test(store: Store) -> None:
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


def signals(models: int, seed: int) -> list[dict[str, Any]]:
    """The signals of a cell's trainings, with the same members in every cell."""
    random = np.random.default_rng(seed)
    labels, test_labels = np.zeros(RECORDS, dtype=np.int64), np.zeros(40, dtype=np.int64)
    left = []
    for members in masks(models):
        logits = random.standard_normal((RECORDS, 2)).astype(np.float32)
        logits[:, 0] += 1.5 * members
        test = random.standard_normal((40, 2)).astype(np.float32)
        left.append(
            {
                "logits": logits,
                "labels": labels,
                "members": members,
                "test_logits": test,
                "test_labels": test_labels,
            }
        )
    return left


def add_predicted(store: Store, each: Cell, models: int, seed: int) -> Signals:
    """A cell with the signals of its trainings, attacked by `strongest`."""
    left = signals(models, seed)
    stacked = Signals.of({name: np.stack([one[name] for one in left]) for name in left[0]})
    content = score_strongest(stacked) | {"correct": stacked.correct}
    add(store, each, stacked.correct.mean(axis=1), content, left)
    return stacked


def test_a_cell_with_more_models_is_rescored_with_those_that_both_have(store: Store) -> None:
    one, two = cell("w", "sgd"), cell("w", "dp-sgd", epsilon=1.0, delta=1e-5)
    many, few = add_predicted(store, one, 2 * MODELS, 1), add_predicted(store, two, MODELS, 2)
    found = rows(store)
    assert found["auc"]["models"] == MODELS
    measured = [
        measure_strongest("auc", Candidates.of(score_declared(each), each.members), {})
        for each in (many.only(slice(MODELS)), few)
    ]
    expected = paired_strongest(*measured)
    assert expected.difference is not None
    sign = 1 if found["auc"]["cell"] == one.key else -1
    assert found["auc"]["difference"] == pytest.approx(sign * expected.difference)
    over_records = accuracy_test_se(many.correct[:MODELS], few.correct)
    assert found["accuracy"]["accuracy_test_se"] == pytest.approx(over_records)
    assert found["validation_accuracy"]["accuracy_test_se"] is None


def test_a_purged_cell_is_not_compared_and_states_why(store: Store) -> None:
    one, two = cell("w", "sgd"), cell("w", "dp-sgd", epsilon=1.0, delta=1e-5)
    add_predicted(store, one, 2 * MODELS, 1)
    add_predicted(store, two, MODELS, 2)
    purge(store, holdings(store))
    found = rows(store)
    assert found["auc"]["difference"] is None
    assert "was purged" in found["auc"]["reason"]


def test_without_scores_leakage_is_not_compared_and_the_reason_is_given(store: Store) -> None:
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
