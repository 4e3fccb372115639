"""The plan of an audit of a training: its tasks, and what does not fit it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.plan.program_audit import Extent, ProgramAudit, again, plan_audit
from harness.programs.ask import Given
from harness.programs.shelf import keep_program, keep_records
from harness.store import Store
from workloads.errors import SpecError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


@pytest.fixture
def given(store: Store) -> Given:
    random = np.random.default_rng(0)
    arrays = {"x": random.normal(size=(100, 5)), "y": np.arange(100) % 2}
    arrays |= {"test_x": random.normal(size=(60, 5)), "test_y": np.arange(60) % 2}
    about = {
        "command": ["train", "{members}", "{records}", "{predictions}"],
        "features": None,
        "shown": "train",
    }
    return Given(keep_records(store, arrays), keep_program(store, "train", about, {}))


def attacks(given: Given, store: Store, **extent: Any) -> list[str]:
    plan = plan_audit(ProgramAudit(given, Extent(**extent)), store)
    return [task.attack.name for task in plan.tasks if task.attack is not None]


def test_its_tasks_are_those_of_a_cell_and_one_training_more(given: Given, store: Store) -> None:
    asked = ProgramAudit(given, Extent(models=4, canaries=20))
    plan = plan_audit(asked, store)
    (cell,) = plan.cells
    assert (cell.workload.name, cell.method.name, cell.n_train) == (given.workload, given.method, 50)
    assert (cell.canary, cell.canaries) == ("mislabelled", 20)
    trainings = [task for task in plan.tasks if task.kind == "train"]
    assert [task.cell == cell for task in trainings] == [True] * 4 + [False]
    assert trainings[-1].cell == again(cell)
    names = [task.attack.name for task in plan.tasks if task.attack is not None]
    expected = ["loss", "population", "lira", "rmia", "reference", "strongest", "audit-one-run", "blind"]
    assert sorted(names) == sorted(expected)
    assert plan.sweep.name == f"audit-{given.method}"


def test_attacks_are_those_that_the_models_are_enough_for(given: Given, store: Store) -> None:
    assert sorted(attacks(given, store, models=1)) == ["blind", "loss", "population"]
    assert "audit-one-run" in attacks(given, store, models=1, canaries=20)
    assert attacks(given, store, models=4, canaries=20, attack="audit-one-run").count("audit-one-run") == 1


@pytest.mark.parametrize(
    ("extent", "problem"),
    [
        ({"attack": "white-box"}, "attack white-box fits no cell of the sweep"),
        (
            {"attack": "label-only"},
            "it queries or opens the model, and of a program only the predictions are kept",
        ),
        ({"attack": "dlg"}, "attack dlg fits no cell"),
        ({"attack": "lirra"}, "unknown attack 'lirra', did you mean 'lira'?"),
        ({"attack": "lira", "models": 1}, "attack lira needs at least"),
        ({"n_train": 101}, "n_train = 101 exceeds the pool of 100 records"),
        ({"n_train": 100}, "there are no non-members"),
        ({"canaries": 31}, "give at most 30"),
        ({"canaries": 10, "canary": "gradient"}, "canary = 'gradient' would test nothing"),
        ({"canaries": 10, "canary": "odd"}, "canary = 'odd': give one of"),
    ],
)
def test_what_does_not_fit_is_refused(
    extent: dict[str, Any], problem: str, given: Given, store: Store
) -> None:
    with pytest.raises(SpecError) as refused:
        plan_audit(ProgramAudit(given, Extent(**{"models": 4, **extent})), store)
    assert any(problem in each for each in refused.value.problems), refused.value.problems


def test_every_record_of_other_canaries_is_a_record(given: Given, store: Store) -> None:
    for kind in ("near-duplicate", "out-of-distribution"):
        plan = plan_audit(ProgramAudit(given, Extent(models=4, canaries=10, canary=kind)), store)
        assert plan.cells[0].canary == kind
