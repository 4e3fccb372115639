"""Records from a Dataset: the same values as in memory, and nothing read before it is needed."""

from functools import partial
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

import methods
from harness.jobs.run import Run
from harness.jobs.setup import per_example_loss
from harness.jobs.train import collect_signals, utility
from harness.plan.canaries import CellRecords
from methods.base import Problem
from workloads.base import Records
from workloads.features.pixels import IMAGENET, Pixels
from workloads.models.mlp import mlp
from workloads.records import LazyRecords, every_other, without

CPU = torch.device("cpu")
IN_MEMORY = Records(torch.randn(50, 4, generator=torch.Generator().manual_seed(1)), torch.arange(50) % 3)


class Counting(Dataset[tuple[Tensor, Tensor]]):
    """The records above, one by one; counts which were read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        self.read.append(row)
        return IN_MEMORY.x[row], IN_MEMORY.y[row]


class Together(Counting):
    """The same, many at once."""

    def __getitems__(self, rows: list[int]) -> list[tuple[Tensor, Tensor]]:
        return [self[row] for row in rows]


@pytest.mark.parametrize("kind", [Counting, Together])
def test_they_are_the_records_in_memory(kind: type[Counting]) -> None:
    lazy = LazyRecords(kind(), IN_MEMORY.y)
    assert len(lazy) == 50
    assert torch.equal(lazy.x, IN_MEMORY.x)
    rows = torch.tensor([7, 3, 3, 49])
    twice = lazy.take(torch.arange(0, 50, 2)).take(torch.tensor([4, 0]))
    for found, expected in (
        (lazy.take(rows), IN_MEMORY.take(rows)),
        (twice, IN_MEMORY.take(torch.tensor([8, 0]))),
        (lazy.to(CPU).take(rows), IN_MEMORY.take(rows)),
    ):
        assert torch.equal(found.x, expected.x)
        assert torch.equal(found.y, expected.y)


def test_only_requested_records_are_read() -> None:
    dataset = Counting()
    members = LazyRecords(dataset, IN_MEMORY.y).to(CPU).take(torch.arange(10, 40))
    assert "30 rows" in repr(members)
    assert dataset.read == []
    batch = members.take(torch.tensor([5, 0]))
    assert len(batch) == 2
    assert dataset.read == []
    assert batch.x.shape == (2, 4)
    assert dataset.read == [15, 10]


def test_batches_cover_everything_and_hold_no_more_than_their_size() -> None:
    dataset = Counting()
    lazy = LazyRecords(dataset, IN_MEMORY.y)
    sizes = []
    for batch, expected in zip(lazy.batches(20), IN_MEMORY.batches(20), strict=True):
        assert torch.equal(batch, expected)
        sizes.append(len(batch))
        assert len(dataset.read) == sum(sizes)
    assert sizes == [20, 20, 10]


def test_none_of_them_have_a_shape_too() -> None:
    nobody = torch.empty(0, dtype=torch.int64)
    lazy, memory = LazyRecords(Counting(), IN_MEMORY.y).take(nobody), IN_MEMORY.take(nobody)
    assert lazy.x.shape == memory.x.shape == (0, 4)
    assert [batch.shape for batch in lazy.batches(8)] == [batch.shape for batch in memory.batches(8)]


def test_labels_that_do_not_fit_are_reported() -> None:
    with pytest.raises(ValueError, match="2 rows of the Dataset but 50 labels"):
        LazyRecords(Counting(), IN_MEMORY.y, torch.arange(2))


@pytest.mark.parametrize("name", ["sgd", "dp-sgd"])
def test_a_method_trains_to_the_same_bits_and_is_judged_the_same(name: str) -> None:
    method = methods.family.get(name)
    settings: dict[str, Any] = {"steps": 20, "batch_size": 8}
    params = method.Params(**settings | ({} if name == "sgd" else {"noise_multiplier": 1.0}))
    problem = Problem(3, partial(mlp, (4, 3)), per_example_loss)
    mask = torch.arange(50) < 30
    found = []
    for pool in (IN_MEMORY, LazyRecords(Together(), IN_MEMORY.y)):
        released = method.train(pool.take(mask.nonzero().squeeze(1)), problem, params, Run("0" * 64, CPU))
        records = CellRecords(pool, pool, problem.model, pool.take(torch.arange(0)), copies=1)
        signals = collect_signals(released, records, CPU)
        found.append((signals, utility(signals, mask, ~mask)))
    (signals, judged), (lazy_signals, lazy_judged) = found
    assert all(torch.equal(signals[key], lazy_signals[key]) for key in signals)
    assert judged == lazy_judged


def test_pixels_are_scaled_when_they_are_read() -> None:
    images = np.random.default_rng(0).integers(256, size=(6, 3, 4, 4), dtype=np.uint8)
    labels = torch.arange(6)
    lazy = LazyRecords(Pixels(images, labels, IMAGENET), labels)
    assert torch.equal(lazy.x, IMAGENET(images))
    x, y = Pixels(images, labels, IMAGENET)[4]
    assert torch.equal(x, IMAGENET(images)[4])
    assert int(y) == 4
    assert len(Pixels(images, labels, IMAGENET)) == 6


@pytest.mark.parametrize("records", [IN_MEMORY, LazyRecords(Counting(), IN_MEMORY.y)])
def test_every_other_record_and_the_rest(records: Records) -> None:
    some = every_other(records)
    assert torch.equal(some.x, IN_MEMORY.x[::2])
    rest = without(records, some)
    assert torch.equal(rest.x, IN_MEMORY.x[1::2])
    assert torch.equal(rest.y, IN_MEMORY.y[1::2])
    assert len(without(records, records)) == 0


def test_a_record_is_left_out_with_its_copies() -> None:
    doubled = Records(IN_MEMORY.x.repeat(2, 1), IN_MEMORY.y.repeat(2))
    assert len(without(doubled, every_other(IN_MEMORY))) == 50


def test_images_are_read_channels_last_on_request() -> None:
    images = torch.arange(60.0).view(5, 1, 3, 4)
    pairs = [(image, torch.tensor(0)) for image in images]
    lazy = LazyRecords(cast("Dataset[Any]", pairs), torch.zeros(5, dtype=torch.int64)).channels_last()
    for records in (lazy, lazy.to(CPU), lazy.take(torch.arange(5))):
        assert records.x.stride() == (12, 1, 4, 1)
        assert torch.equal(records.x, images)
    assert LazyRecords(Counting(), IN_MEMORY.y).channels_last().x.shape == IN_MEMORY.x.shape
