"""Losses along a line and the private choice among them, against their definitions."""

import math

import pytest
import torch
from scipy.integrate import quad
from torch import nn

from methods.base import Problem
from methods.mechanisms.line_search import READ_AT_ONCE, LineSearch, noisy_argmin, pieces
from workloads.base import Records
from workloads.records import LazyRecords


def win_chances(sums: list[float], scale: float) -> list[float]:
    """The chance of every place to be the smallest of sum - scale * exponential, by integration."""
    scores = [-each / scale for each in sums]

    def chance(place: int) -> float:
        others = [score for other, score in enumerate(scores) if other != place]

        def density(value: float) -> float:
            below = [max(0.0, 1 - math.exp(-(value - score))) for score in others]
            return math.exp(-(value - scores[place])) * math.prod(below)

        start = max(scores)
        return quad(density, start, start + 60, limit=200)[0]

    return [chance(place) for place in range(len(sums))]


def test_the_choice_has_the_chances_of_report_noisy_max() -> None:
    sums, scale, draws = [3.0, 2.0, 2.5, 6.0], 1.5, 20_000
    random = torch.Generator().manual_seed(1)
    drawn = [noisy_argmin(torch.tensor(sums, dtype=torch.float64), scale, random) for _ in range(draws)]
    chances = win_chances(sums, scale)
    assert sum(chances) == pytest.approx(1, abs=1e-6)
    for place, expected in enumerate(chances):
        assert drawn.count(place) / draws == pytest.approx(expected, abs=5 * math.sqrt(expected / draws))


def test_one_more_record_changes_the_chances_by_at_most_its_price() -> None:
    """A record raises every sum by something in [0, bound]; bound / scale is the pure epsilon."""
    bound, scale = 3.0, 2.0
    before = [10.0, 10.0, 11.0, 14.0]
    random = torch.Generator().manual_seed(2)
    worst = 0.0
    for raised in [
        torch.tensor([3.0, 0, 0, 0]),
        *(bound * torch.rand(4, generator=random) for _ in range(20)),
    ]:
        after = [old + float(more) for old, more in zip(before, raised, strict=True)]
        ratios = [
            math.log(new / old)
            for new, old in zip(win_chances(after, scale), win_chances(before, scale), strict=True)
        ]
        worst = max(worst, *(abs(each) for each in ratios))
    assert worst <= bound / scale + 1e-6
    assert worst > 0.7 * bound / scale


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
