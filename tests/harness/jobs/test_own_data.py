"""A worker that loads wrong data: the failure says what is wrong with them, and of whose workload."""

import errno
from collections.abc import Callable

import pytest
import torch

import workloads
from harness.jobs.failures import failure
from harness.jobs.setup import Setup
from harness.spec import Cell, Plugin
from tests.harness.own_data import OwnData
from workloads.base import Records
from workloads.errors import DataError

CELL = Cell(Plugin("own-data", "1"), 30, Plugin("sgd", "1"), {}, 0)


def failed(workload: OwnData, monkeypatch: pytest.MonkeyPatch) -> DataError:
    monkeypatch.setitem(workloads.family.members, "own-data", workload)
    with pytest.raises(DataError) as caught:
        _ = Setup(CELL, 0, torch.device("cpu")).records
    return caught.value


@pytest.mark.parametrize(
    ("mistake", "field"),
    [("labels from 1", "y"), ("NaN", "x"), ("missing file", "pool"), ("model of other classes", "model")],
)
def test_wrong_data_end_a_task_as_an_error(mistake: str, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = failed(OwnData(mistake), monkeypatch)
    row = failure(error)
    assert error.field == field
    assert (row.reason, row.message) == ("error", str(error))
    assert row.message.startswith("workload own-data: ")


def exhausted() -> Exception:
    return RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (MemoryError, "out_of_memory"),
        (exhausted, "out_of_memory"),
        (lambda: OSError(errno.ENOSPC, "No space left on device"), "killed"),
    ],
)
def test_what_is_not_the_data_keeps_its_reason(
    raised: Callable[[], Exception], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Trouble(OwnData):
        def pool(self) -> Records:
            raise raised()

    assert failure(failed(Trouble(), monkeypatch)).reason == reason
