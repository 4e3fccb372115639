"""What a plan finds before anything is sent: data, models, and attacks that do not fit."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import workloads
from harness import attacks
from harness.attacks.base import AttackedCell, Evidence, Floats
from harness.backends.base import Settings
from harness.enqueue import enqueue
from harness.plan.plan import Plan, make_plan
from harness.plan.sweep_file import read_sweep
from harness.store import Store
from methods.base import Params
from tests.harness.own_data import ROWS, Elsewhere, OwnData, Persons, Private
from workloads.errors import SpecError

Install = Callable[[OwnData], None]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make a workload a member of the family."""
    return lambda workload: monkeypatch.setitem(workloads.family.members, workload.name, workload)


def plan(*asked: Any, workload: Any = "own-data", method: Any = "sgd", models: int = 2, **grid: Any) -> Plan:
    sweep = {
        "models": models,
        "attacks": list(asked),
        "grid": [{"workload": workload, "method": method, **grid}],
    }
    return make_plan(*read_sweep(sweep, "test"), None)


def refused(*asked: Any, **grid: Any) -> list[str]:
    with pytest.raises(SpecError) as caught:
        plan(*asked, **grid)
    return caught.value.problems


def attacks_on(made: Plan) -> set[tuple[str, str]]:
    return {(task.cell.workload.name, task.attack.name) for task in made.tasks if task.attack}


def test_wrong_data_are_refused_with_all_problems(install: Install) -> None:
    install(OwnData("NaN"))
    install(replace(OwnData("labels from 1"), name="other-data"))
    found = refused(workload=["own-data", "other-data"])
    assert [each.partition(":")[0] for each in found] == ["workload own-data", "workload other-data"]


def test_canaries_of_a_missing_file_are_refused(install: Install) -> None:
    install(OwnData("missing file"))
    (problem,) = refused(canary="mislabelled", canaries=5)
    assert "FileNotFoundError" in problem


def test_more_members_than_records_are_refused(install: Install) -> None:
    install(OwnData())
    (problem,) = refused("loss", n_train=ROWS + 1)
    assert "n_train = 61 exceeds the pool of 60" in problem
    assert not plan(n_train=ROWS - 1).warnings


def test_copies_and_persons_are_warnings(install: Install) -> None:
    install(Persons("copies"))
    assert len(plan().warnings) == 2


def test_batch_normalisation_is_refused_for_per_example_methods_only(install: Install) -> None:
    install(OwnData("batch normalisation"))
    plan(method="sgd")
    (problem,) = refused(method=["dp-sgd", "dpis"], epsilon=8, steps=5, batch_size=10)
    assert problem.startswith("workload own-data with dp-sgd, dpis: layer '1' (BatchNorm1d)")


@pytest.mark.parametrize(
    ("attack", "grid"),
    [
        ("dlg", {}),
        ("inverting-gradients", {}),
        ("attribute-inference", {}),
        ("loss", {"n_train": ROWS}),
        ("strongest", {"n_train": ROWS, "models": 4}),
    ],
)
def test_an_attack_that_fits_no_cell_is_refused(install: Install, attack: str, grid: dict[str, Any]) -> None:
    install(OwnData())
    (problem,) = refused(attack, **grid)
    assert problem.startswith(f"attack {attack} fits no cell of the sweep: own-data (sgd): ")


def test_an_attack_on_shared_gradients_needs_gradient_steps() -> None:
    (problem,) = refused("dlg", workload="shape-lenet", method="memguard")
    assert "shares no gradient" in problem


def test_cells_that_an_attack_does_not_fit_are_left_to_the_others(install: Install) -> None:
    install(OwnData())
    install(replace(Private(), name="private-data"))
    made = plan("attribute-inference", workload=["own-data", "private-data"])
    assert attacks_on(made) == {
        ("private-data", "attribute-inference"),
        ("private-data", "blind"),
        ("own-data", "blind"),
    }
    (warning,) = made.warnings
    assert warning.startswith("own-data (sgd): without attribute-inference: ")


def test_a_cell_without_non_members_is_not_checked_blindly(install: Install) -> None:
    install(OwnData())
    made = plan(n_train=ROWS)
    assert attacks_on(made) == set()
    (warning,) = made.warnings
    assert warning.startswith("own-data (sgd): without blind: every model trains on the whole pool of 60")


def test_canaries_make_up_for_non_members(install: Install) -> None:
    install(OwnData())
    made = plan("loss", "audit-one-run", n_train=ROWS, canary="mislabelled", canaries=10)
    assert ("own-data", "loss") in attacks_on(made)


class Picky:
    """An attack on two classes."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "tosses a coin"
    source: ClassVar[str] = "nobody"
    caveats: ClassVar[tuple[str, ...]] = ()
    Params: ClassVar[type[Params]] = Params
    shadows: ClassVar[int] = 0

    def unfit(self, cell: AttackedCell) -> str | None:
        return None if cell.classes == 2 else f"it needs two classes, not {cell.classes}"

    def scores(self, evidence: Evidence, params: Any) -> Floats:
        return np.zeros(evidence.members.shape)


def test_an_attack_of_another_package_declares_what_it_needs(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(attacks.family.members, "picky", Picky())
    install(OwnData())
    (problem,) = refused("picky")
    assert problem.endswith("own-data (sgd): it needs two classes, not 3")


def test_shadows_of_an_attack_that_is_left_out_are_not_trained(install: Install) -> None:
    install(OwnData())
    two = [
        {"workload": "own-data", "method": "memguard", "n_train": ROWS},
        {"workload": "digits-linear", "method": "memguard"},
    ]
    asked = [{"attack": "shadow", "shadows": "sgd"}]
    made = make_plan(*read_sweep({"models": 4, "attacks": asked, "grid": two}, "test"), None)
    trained = {(task.cell.workload.name, task.cell.method.name) for task in made.tasks if not task.attack}
    assert trained == {("own-data", "memguard"), ("digits-linear", "memguard"), ("digits-linear", "sgd")}


def test_absent_data_are_a_warning_and_refused_where_they_would_be_read(
    install: Install, tmp_path: Path
) -> None:
    install(Elsewhere("missing file"))
    made = plan("loss")
    (warning,) = made.warnings
    assert warning.endswith("own-data.pt is missing: run `fetch-own-data`")
    assert list(made.absent) == ["own-data"]
    store = Store.open(tmp_path / "store", create=True)
    with pytest.raises(SpecError) as caught:
        enqueue(made, store, "local", Settings())
    assert caught.value.value == ("own-data",)
    assert not store.keys()


def test_a_finished_sweep_needs_no_data(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(OwnData())
    made = plan("loss")
    everything = frozenset(task.key for task in made.tasks)
    install(OwnData("missing file"))
    monkeypatch.setattr("harness.plan.plan.standing_of", lambda tasks, store: (everything, {}))
    assert not plan("loss").todo


def test_an_answer_is_kept() -> None:
    """Of a workload of ours, in a process of its own: what other tests read here would count as its data."""
    script = """
from harness.plan.inspection import readiness
from tests.harness.plan.inspection.test_readiness import plan
plan(workload="digits-linear")
readiness.inspect = None  # would fail if it was called
plan(workload="digits-linear")
"""
    subprocess.run([sys.executable, "-c", script], check=True)
