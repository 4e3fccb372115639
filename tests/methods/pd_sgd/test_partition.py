"""Random partitions: whole, fair, and with a batch that stays together."""

import math

import pytest
import torch

from methods.pd_sgd.partition import TOGETHER, Partition, flip_labels
from workloads.base import Records
from workloads.errors import SpecError


def seeded(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


@pytest.mark.parametrize(("members", "batches"), [(10, 3), (12, 4), (7, 7), (5, 1)])
def test_every_draw_is_a_partition_into_batches_of_nearly_one_size(members: int, batches: int) -> None:
    partition = Partition(members, batches, seeded())
    for _ in range(5):
        numbers = partition.draw()
        assert sorted(numbers) == list(range(batches))
        parts = [partition.rows(number) for number in numbers]
        assert sorted(torch.cat(parts).tolist()) == list(range(members))
        assert {len(part) for part in parts} <= {members // batches, math.ceil(members / batches)}


@pytest.mark.slow
def test_every_record_is_as_often_in_the_seed_batch() -> None:
    """Also where one batch is larger: 7 records in 3 batches, each in the first one third of the time."""
    partition, draws = Partition(7, 3, seeded()), 6000
    counts = torch.zeros(7)
    for _ in range(draws):
        counts[partition.rows(partition.draw()[0])] += 1
    # Binomial, five standard deviations.
    assert (counts / draws - 1 / 3).abs().max() < 5 * math.sqrt(2 / 9 / draws)


def test_a_batch_that_stays_together_is_one_of_the_batches_and_may_lead() -> None:
    together = torch.tensor([1, 4, 8])
    partition = Partition(12, 4, seeded(), together)
    leads = []
    for _ in range(200):
        numbers = partition.draw()
        leads.append(numbers[0])
        assert sorted(torch.cat([partition.rows(number) for number in numbers]).tolist()) == list(range(12))
        assert torch.equal(partition.rows(TOGETHER), together)
    assert 20 < leads.count(TOGETHER) < 80
    forced = partition.draw(TOGETHER)
    assert forced[0] == TOGETHER
    assert sorted(forced) == [0, 1, 2, 3]


def test_more_batches_than_members_are_refused() -> None:
    with pytest.raises(SpecError) as caught:
        Partition(3, 4, seeded())
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batches", 4, (1, 3))


@pytest.mark.parametrize(("share", "flipped"), [(0.0, 0), (0.5, 10), (1.0, 20)])
def test_labels_are_flipped_to_another_class_in_one_batch_only(share: float, flipped: int) -> None:
    members = Records(torch.zeros(100, 1), torch.arange(100) % 4)
    spoilt, rows = flip_labels(members, 20, share, 4, seeded())
    changed = (spoilt.y != members.y).nonzero().flatten()
    assert len(changed) == flipped
    assert set(changed.tolist()) <= set(rows.tolist())
    assert len(set(rows.tolist())) == 20
    assert set(spoilt.y.tolist()) <= {0, 1, 2, 3}
    assert torch.equal(members.y, torch.arange(100) % 4), "the caller's records stay as they were"


def test_every_other_class_is_as_likely() -> None:
    members = Records(torch.zeros(3000, 1), torch.zeros(3000, dtype=torch.int64))
    spoilt, _ = flip_labels(members, 3000, 1.0, 4, seeded())
    shares = torch.bincount(spoilt.y, minlength=4) / 3000
    assert shares[0] == 0
    assert (shares[1:] - 1 / 3).abs().max() < 5 * math.sqrt(2 / 9 / 3000)
