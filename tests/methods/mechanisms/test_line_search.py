"""Losses along a line, against their definition."""

import math

import pytest
import torch
from torch import nn

from methods.base import Problem
from methods.mechanisms.line_search import READ_AT_ONCE, LineSearch, pieces
from workloads.base import Records
from workloads.records import LazyRecords


def test_losses_are_those_of_moved_models(problem: Problem, members: Records) -> None:
    model, bound = problem.model(1), 1.2
    weights = list(model.parameters())
    direction = [torch.ones_like(weight) for weight in weights]
    lengths = torch.tensor([0.0, 0.1, 0.7], dtype=torch.float64)
    before = [weight.detach().clone() for weight in weights]
    found = LineSearch(model, problem.loss, weights, bound).losses(members, direction, lengths)
    assert all(map(torch.equal, before, weights)), "the model is left as it was"
    assert model.training
    for place, length in enumerate(lengths.tolist()):
        moved = problem.model(1)
        with torch.no_grad():
            for weight in moved.parameters():
                weight.sub_(length)
            losses = problem.loss(moved(members.x), members.y).tolist()
        assert float(found[place]) == pytest.approx(sum(min(each, bound) for each in losses), rel=1e-5)


def test_a_loss_that_is_not_a_number_counts_as_the_bound(problem: Problem, members: Records) -> None:
    model = problem.model(1)
    search = LineSearch(model, problem.loss, list(model.parameters()), 2.0)
    spoilt = Records(torch.full_like(members.x, math.nan), members.y)
    direction = [torch.ones_like(weight) for weight in model.parameters()]
    assert float(search.losses(spoilt, direction, torch.zeros(1))[0]) == 2.0 * len(members)


def test_a_move_goes_against_the_direction() -> None:
    layer = nn.Linear(2, 1, bias=False)
    nn.init.ones_(layer.weight)
    LineSearch(layer, lambda logits, labels: logits, list(layer.parameters()), 1.0).move(
        [torch.tensor([[1.0, -2.0]])], 0.5
    )
    assert layer.weight.tolist() == [[0.5, 2.0]]


@pytest.mark.parametrize("count", [0, 5, READ_AT_ONCE + 1])
def test_pieces_are_all_records_in_their_order(count: int) -> None:
    y = torch.arange(count)
    for records in (Records(y.float(), y), LazyRecords([(each.float(), each) for each in y], y)):  # type: ignore[arg-type]
        parts = list(pieces(records))
        assert torch.equal(torch.cat([part.y for part in parts]) if parts else y[:0], y)
        assert all(torch.equal(part.x, part.y.float()) for part in parts)
        assert all(0 < len(part) <= READ_AT_ONCE for part in parts)
