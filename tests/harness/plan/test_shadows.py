"""Shadows trained without the defence: one shared cell, the same members, and marked rows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.attacks.base import Evidence
from harness.attacks.lira import Lira, LiraParams
from harness.jobs.judge import score
from harness.jobs.loop import Stop, run_task
from harness.plan.plan import Plan, make_plan
from harness.plan.sweep_file import read_sweep
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import read_task
from harness.store import Store
from workloads.base import Records
from workloads.errors import SpecError

MODELS = 3


def plan(*attacks: Any, epsilon: tuple[float, ...] = (1.0, 8.0)) -> Plan:
    grid = {"workload": "digits-linear", "method": "dp-sgd", "epsilon": list(epsilon), "steps": 5}
    return make_plan(*read_sweep({"models": MODELS, "attacks": list(attacks), "grid": [grid]}, "s"), None)


def test_all_cells_of_a_workload_share_one_cell_of_shadows() -> None:
    made = plan({"attack": "lira", "shadows": "sgd"}, {"attack": "rmia", "shadows": "sgd"}, "lira")
    trained = [task for task in made.tasks if task.kind == "train"]
    assert [task.cell.method.name for task in trained].count("sgd") == MODELS
    assert len(made.cells) == 2 and len({task.key for task in made.tasks}) == len(made.tasks)
    shadowed = [task for task in made.tasks if task.shadows is not None]
    assert len(shadowed) == 4 and len({task.shadows.key for task in shadowed if task.shadows}) == 1
    assert all(len(task.needs) == 2 * MODELS and read_task(task.file()) == task for task in shadowed)


def test_shadows_of_the_target_s_own_method_are_the_plain_attack() -> None:
    own = plan({"attack": "lira", "shadows": "dp-sgd"})
    assert {task.key for task in own.tasks} == {task.key for task in plan("lira").tasks}


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"attack": "lira", "shadows": "sdg"}, "unknown method 'sdg'"),
        ({"attack": "loss", "shadows": "sgd"}, "this attack has no shadows; leave it out"),
    ],
)
def test_wrong_shadows_are_refused(choice: dict[str, str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        plan(choice)


def test_a_target_is_scored_by_its_own_logits_and_the_others_by_the_shadows() -> None:
    random = np.random.default_rng(0)
    targets, shadows = random.standard_normal((2, MODELS, 40, 2)).astype(np.float32)
    members = random.random((MODELS, 40)) < 0.5
    labels = random.integers(0, 2, 40)
    records = Records(torch.zeros(40, 1), torch.from_numpy(labels))
    evidence = Evidence(targets, labels, members, targets[:, :1], labels[:1], records)
    mixed = replace(evidence, shadow_logits=shadows, shadow_population_logits=shadows[:, :1])
    scores = score(Lira(), mixed, LiraParams())
    for target in range(MODELS):
        slow = shadows.copy()
        slow[target] = targets[target]
        expected = Lira().scores(replace(evidence, logits=slow), LiraParams())[target]
        np.testing.assert_array_equal(scores[target], expected)


@pytest.mark.slow
def test_rows_distinguish_adaptive_shadows(tmp_path: Path) -> None:
    made = plan({"attack": "lira", "shadows": "sgd"}, "lira", epsilon=(1.0,))
    store = Store.open(tmp_path / "store", create=True)
    store.add(*made.tasks)
    assert {run_task(store, task.key, Stop()) for task in made.tasks} == {"done"}
    collect(store.path)
    sql = "select adaptive, attack_params, auc from frontier where attack = 'lira' order by adaptive"
    rows = query(store.path, sql).arrow.to_pylist()
    assert [row["adaptive"] for row in rows] == [False, True]
    assert '"shadows":"sgd"' in rows[0]["attack_params"] and "shadows" not in rows[1]["attack_params"]
    assert rows[0]["auc"] != rows[1]["auc"]
