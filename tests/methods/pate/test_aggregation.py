"""PATE's aggregators: rates of answers and errors against closed forms, and their DP events."""

import math

import pytest
import torch
from torch import Tensor

from harness.accounting import price
from harness.accounting.ledger import expand
from methods.pate.aggregation import NO_ANSWER, Aggregator, AggregatorName, count_votes

NAMES: tuple[AggregatorName, ...] = ("lnmax", "gnmax", "confident-gnmax")
MANY = 40_000


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(*counts: int) -> Tensor:
    """The same votes for many queries."""
    return torch.tensor(counts).expand(MANY, len(counts))


def within(share: float, expected: float) -> bool:
    """Five standard errors of a share of MANY."""
    return abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / MANY)


def test_votes_are_counted_as_by_hand() -> None:
    answers = torch.randint(4, (30, 11), generator=stream(), dtype=torch.int16)
    counts = count_votes(answers, 5)
    assert counts.tolist() == [
        [sum(int(answers[teacher, query]) == label for teacher in range(30)) for label in range(5)]
        for query in range(11)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_without_noise_the_plurality_wins(name: AggregatorName) -> None:
    votes = torch.tensor([[3, 9, 2], [8, 1, 5], [0, 4, 10]])
    assert Aggregator(name, 0.0, threshold=5.0).answer(votes, stream()).tolist() == [1, 0, 2]


@pytest.mark.parametrize(("gap", "tail"), [(20, 0.275910), (60, 0.062234)])
def test_laplace_noise_flips_labels_at_the_rate_of_its_tail(gap: int, tail: float) -> None:
    """P[L1 - L2 > t] = (2 + t) e^-t / 4, for t = gap / scale = 1 and 3."""
    labels = Aggregator("lnmax", 20.0).answer(rows(100 + gap, 100), stream())
    assert within(float((labels == 1).double().mean()), tail)


def test_gaussian_noise_flips_labels_at_the_rate_of_its_tail() -> None:
    labels = Aggregator("gnmax", 40.0).answer(rows(150, 100), stream())
    assert within(float((labels == 1).double().mean()), 0.5 * math.erfc(50 / (2 * 40)))


@pytest.mark.parametrize(("most", "answered"), [(250, 0.630559), (130, 0.320369)])
def test_the_confident_answer_as_often_as_their_test_passes(most: int, answered: float) -> None:
    aggregator = Aggregator("confident-gnmax", 40.0, threshold=200.0, threshold_noise=150.0)
    labels = aggregator.answer(rows(most, 250 - most), stream())
    assert within(float((labels != NO_ANSWER).double().mean()), answered)


def test_answers_end_at_the_limit_and_the_first_to_pass_get_them() -> None:
    votes = torch.tensor([[9, 1], [5, 5], [1, 9], [10, 0], [0, 10]])
    limited = Aggregator("confident-gnmax", 0.0, threshold=8.0, most_answers=2)
    assert limited.answer(votes, stream()).tolist() == [0, NO_ANSWER, 1, NO_ANSWER, NO_ANSWER]
    assert limited.limit(1) == 1
    everybody = Aggregator("confident-gnmax", 0.0, threshold=8.0)
    assert everybody.answer(votes, stream()).tolist() == [0, NO_ANSWER, 1, 0, 1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("limit", [None, 3])
def test_the_price_is_known_beforehand_and_votes_are_in_the_ledger(
    name: AggregatorName, limit: int | None
) -> None:
    aggregator = Aggregator(name, 20.0, 15.0, 30.0, limit)
    votes = torch.randint(12, (25, 4), generator=stream())
    event = aggregator.event(votes, aggregator.answer(votes, stream(1)))
    assert str(expand(event)) == str(expand(aggregator.planned(25)))
    assert [list(row) for row in event.votes] == votes.tolist()
    found = price(event, 1e-5)
    assert found.epsilon == price(aggregator.planned(25), 1e-5).epsilon
    assert found.epsilons["data_dependent"] > 0


def test_a_thousand_gaussian_answers_cost_what_the_paper_states() -> None:
    """5.9899 at order 5.3 (deviation 40, delta 1e-5), by the conversion of 2018."""
    epsilons = price(Aggregator("gnmax", 40.0).planned(1000), 1e-5).epsilons
    assert epsilons["rdp_classic"] == pytest.approx(5.9899, rel=1e-3)
    assert epsilons["pld"] < epsilons["rdp"] < epsilons["rdp_classic"]


def test_a_hundred_laplace_answers_cost_ten_at_delta_0() -> None:
    """(gamma, 0)-DP each at scale 2 / gamma = 20."""
    assert price(Aggregator("lnmax", 20.0).planned(100), 0.0).epsilon == pytest.approx(10.0)
