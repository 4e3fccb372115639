"""Own data: every wrong input is one problem that says what was found and what is needed."""

import time
from typing import Any

import pytest
import torch

import workloads
from harness.plan.inspection.inspection import Inspection, inspect, load_checked, parse_inspection
from tests.harness.own_data import ROWS, OwnData, Persons
from workloads.base import Records
from workloads.errors import DataError

WRONG: dict[str, tuple[str, Any, Any]] = {
    "no tensors": ("x", "numpy.ndarray", "torch.Tensor"),
    "labels are strings": ("y", "list", "torch.Tensor"),
    "missing file": ("pool", "FileNotFoundError", None),
    "a tuple": ("pool", "tuple", "Records"),
    "more features than labels": ("pool", "ValueError", None),
    "other test records": ("test", (4,), (5,)),
    "empty test": ("test", 0, "1 or more"),
    "labels are floats": ("y", "float32", "int64"),
    "labels are fractions": ("y", "float32", "int64"),
    "labels are bytes": ("y", "uint8", "int64"),
    "labels from 1": ("y", (1, 3), (0, 2)),
    "negative labels": ("y", (-1, 1), (0, 2)),
    "labels beyond classes": ("y", (2, 4), (0, 2)),
    "labels in a column": ("y", (60, 1), "(n,)"),
    "one-hot labels": ("y", (60, 3), "(n,)"),
    "float64": ("x", "float64", "float32"),
    "whole numbers": ("x", "int64", "float32"),
    "NaN": ("x", 1, 0),
    "infinity": ("x", 1, 0),
    "model for other records": ("model", (5,), None),
    "model of other classes": ("model", (2, 4), (2, 3)),
}
"""Field, value and what is allowed, by mistake."""


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_input_is_one_problem(mistake: str) -> None:
    (problem,) = inspect(OwnData(mistake)).problems
    assert (problem.field, problem.value, problem.allowed) == WRONG[mistake]


@pytest.mark.parametrize("mistake", WRONG)
def test_a_worker_refuses_it_by_the_same_error(mistake: str) -> None:
    with pytest.raises(DataError) as caught:
        load_checked(OwnData(mistake))
    error = caught.value
    assert (error.field, error.value, error.allowed) == WRONG[mistake]
    (problem,) = inspect(OwnData(mistake)).problems
    assert str(error) == f"workload own-data: {problem.message}"


def test_a_worker_checks_a_workload_once(monkeypatch: pytest.MonkeyPatch) -> None:
    good = OwnData()
    load_checked(good)
    monkeypatch.setattr(OwnData, "model", None)  # would fail if it was tried again
    assert len(load_checked(good)[0]) == ROWS


def test_strings_are_told_how_to_become_numbers() -> None:
    (problem,) = inspect(OwnData("labels are strings")).problems
    assert "numpy.unique(y, return_inverse=True)[1]" in problem.message


def test_a_failed_load_names_the_line_of_the_workload() -> None:
    (problem,) = inspect(OwnData("missing file")).problems
    assert "own_data.py, line" in problem.message
    assert "/nowhere/own-data.pt" in problem.message


def test_labels_and_features_are_found_at_once() -> None:
    class Both(OwnData):
        def pool(self) -> Records:
            good = OwnData("NaN").pool()
            return Records(good.x, good.y + 1)

    assert [each.field for each in inspect(Both()).problems] == ["y", "x"]


def test_good_data_are_sized() -> None:
    found = inspect(OwnData())
    assert (found.problems, found.warnings) == ((), ())
    assert found.facts is not None
    assert (found.facts.pool, found.facts.test, found.facts.shape) == (60, 30, (5,))
    assert parse_inspection(found.dump()) == found


def warnings(found: Inspection) -> list[str]:
    assert found.problems == ()
    return list(found.warnings)


def test_copies_are_warned_about() -> None:
    (told,) = warnings(inspect(OwnData("copies")))
    assert told.startswith("3 of 60 pool records are identical to others (1 groups, the largest of 3)")
    (told,) = warnings(inspect(OwnData("pool in test")))
    assert told.startswith("30 of 30 test records are identical to records of the pool")


def test_several_records_of_a_person_are_warned_about() -> None:
    (told,) = warnings(inspect(Persons()))
    assert told.startswith("10 of 40 persons have several records, up to 3")
    (problem,) = inspect(Persons("persons of other records")).problems
    assert (problem.field, problem.value, problem.allowed) == ("groups", (59,), (60,))


def test_models_leave_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    inspect(OwnData())
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.slow
def test_a_data_set_of_the_usual_size_is_inspected_in_seconds() -> None:
    class Large(OwnData):
        def pool(self) -> Records:
            return Records(large, torch.arange(len(large)) % 3)

        def model(self, seed: int) -> torch.nn.Module:
            return torch.nn.Linear(3072, 3)

        def test(self) -> Records:
            return Records(large[:10], torch.arange(10) % 3)

    large = torch.rand(60_000, 3072)
    began = time.process_time()
    (told,) = inspect(Large()).warnings
    assert told.startswith("10 of 10 test records")
    assert time.process_time() - began < 20


def test_our_own_embedded_data_have_no_copies() -> None:
    assert inspect(workloads.family.get("digits-linear")).warnings == ()
