"""PATE's votes: the papers' moments with their known numbers, and the price of a ledger of votes."""

import math
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent

from harness.accounting import price
from harness.accounting.accountants.noisy_votes import (
    ORDERS,
    log_flip_gaussian,
    log_flip_laplace,
    log_pass,
    renyi_gaussian_vote,
    renyi_laplace_vote,
    renyi_votes,
)
from methods.mechanisms.events import NoisyVotesDpEvent
from workloads.errors import AccountingError

GAMMA, SCALE = 0.1, 20.0
"""The chapter's: Laplace noise of scale 2 / gamma."""


def row(first: int, second: int) -> tuple[int, ...]:
    return (first, second, *([0] * 8))


def counts(first: int, second: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(row(first, second), dtype=np.float64)


@pytest.mark.parametrize(
    ("first", "second", "flip"),
    [  # pate_laplace_gamma0.1_q
        (250, 0, 1.21582e-04),
        (240, 10, 2.06227e-04),
        (200, 50, 2.40317e-03),
        (150, 100, 0.102854),
        (130, 120, 0.40464),
    ],
)
def test_laplace_flips(first: int, second: int, flip: float) -> None:
    assert math.exp(log_flip_laplace(counts(first, second), SCALE)) == pytest.approx(flip, rel=1e-5)


@pytest.mark.parametrize(
    ("first", "second", "log_flip"),
    [  # gnmax_sigma40_logq
        (250, 0, -10.019228),
        (240, 10, -9.094431),
        (200, 50, -5.179152),
        (130, 120, -0.661519),
    ],
)
def test_gaussian_flips(first: int, second: int, log_flip: float) -> None:
    assert log_flip_gaussian(counts(first, second), 40.0) == pytest.approx(log_flip, abs=1e-6)


@pytest.mark.parametrize(("gap", "chance"), [(1.0, 0.275910), (3.0, 0.062234)])
def test_the_difference_of_two_laplace_noises(gap: float, chance: float) -> None:
    """P[L1 - L2 > t] = (2 + t) e^-t / 4, also by drawing."""
    assert math.exp(log_flip_laplace(np.array([gap, 0.0]), 1.0)) == pytest.approx(chance, abs=1e-6)
    draws = np.random.default_rng(0).laplace(size=(2, 400_000))
    assert (draws[0] - draws[1] > gap).mean() == pytest.approx(chance, abs=3e-3)


@pytest.mark.parametrize(
    ("first", "second", "at_1", "at_8"),
    [
        (250, 0, 2.55736e-5, 2.51273e-4),
        (200, 50, 5.05424e-4, 4.95714e-3),
        (150, 100, 0.01, 0.196784),
        (130, 120, 0.01, 0.36),
    ],
)
def test_laplace_moments(first: int, second: int, at_1: float, at_8: float) -> None:
    """alpha(l) = l D_{l+1}."""
    found = renyi_laplace_vote(math.exp(log_flip_laplace(counts(first, second), SCALE)), GAMMA)
    assert (found[0], 8 * found[7]) == (pytest.approx(at_1, rel=1e-5), pytest.approx(at_8, rel=1e-5))


@pytest.mark.parametrize(
    ("first", "second", "epsilon"),
    [(250, 0, 0.2634), (240, 10, 0.2923), (200, 50, 0.5556), (130, 120, 5.3026)],
)
def test_a_hundred_queries(first: int, second: int, epsilon: float) -> None:
    """pate_100q_eps_1e-5."""
    event = NoisyVotesDpEvent((row(first, second),) * 100, "laplace", SCALE)
    guarantee = price(event, 1e-5)
    assert guarantee.epsilons["data_dependent"] == pytest.approx(epsilon, abs=1e-4)
    assert guarantee.epsilon == guarantee.epsilons["pld"], "the headline never reads the votes"
    assert guarantee.epsilons["pure"] == pytest.approx(10)
    assert any("not sanitised" in line for line in guarantee.assumptions)


def test_the_headline_is_the_same_whatever_the_votes() -> None:
    found = {
        price(NoisyVotesDpEvent((votes,) * 50, "gaussian", 40.0), 1e-5).epsilon
        for votes in (row(250, 0), row(130, 120))
    }
    assert len(found) == 1


def test_a_thousand_queries_without_looking() -> None:
    split = NoisyVotesDpEvent((row(125, 125),) * 1000, "laplace", SCALE)
    assert price(split, 1e-6).epsilons["data_dependent"] == pytest.approx(21.908, abs=1e-3)
    gaussian = price(NoisyVotesDpEvent((row(125, 125),) * 1000, "gaussian", 40.0), 1e-5).epsilons
    assert gaussian["data_dependent"] == pytest.approx(6.0032, abs=1e-4), "whole orders"
    assert gaussian["rdp_classic"] == pytest.approx(5.9899, abs=1e-4), "the same with order 5.3"


def test_eight_moments_are_too_few() -> None:
    alpha = renyi_laplace_vote(math.exp(log_flip_laplace(counts(250, 0), SCALE)), GAMMA)
    moment = np.asarray(ORDERS) - 1
    epsilons = (100 * moment * alpha + math.log(1e5)) / moment
    assert epsilons[:8].min() == pytest.approx(1.4423, abs=1e-4)
    assert (epsilons.argmin() + 1, epsilons.min()) == (54, pytest.approx(0.2634, abs=1e-4))


def test_gaussian_votes() -> None:
    found = renyi_gaussian_vote(log_flip_gaussian(counts(250, 0), 40.0), 40.0)
    at = [found[ORDERS.index(order)] for order in (2, 8, 32)]
    assert at == pytest.approx([1.52736e-5, 2.05891e-5, 2.03455e-4], rel=1e-5)
    split = renyi_gaussian_vote(log_flip_gaussian(counts(130, 120), 40.0), 40.0)
    assert [split[ORDERS.index(order)] for order in (2, 8, 32)] == pytest.approx([0.00125, 0.005, 0.02])


def test_the_confident_test() -> None:
    assert math.exp(log_pass(250, 200, 150)) == pytest.approx(0.630559, abs=1e-6)
    assert math.exp(log_pass(130, 200, 150)) == pytest.approx(0.320369, abs=1e-6)


@pytest.mark.parametrize("aggregator", ["laplace", "gaussian"])
def test_agreement_among_teachers_is_cheaper(aggregator: str) -> None:
    prices = [
        renyi_votes(NoisyVotesDpEvent((row(*split),), aggregator, 20.0))
        for split in ((250, 0), (200, 50), (150, 100), (130, 120))
    ]
    for cheaper, costlier in pairwise(prices):
        assert (cheaper <= costlier + 1e-15).all()
    moments = prices[0] * (np.asarray(ORDERS) - 1)
    assert (np.diff(moments) >= -1e-15).all()


def test_unanswered_queries_are_charged_for_their_test() -> None:
    votes = (row(200, 50),) * 10
    every = NoisyVotesDpEvent(votes, "confident", 40.0, 200.0, 150.0)
    half = NoisyVotesDpEvent(votes, "confident", 40.0, 200.0, 150.0, (True, False) * 5)
    none = NoisyVotesDpEvent(votes, "confident", 40.0, 200.0, 150.0, (False,) * 10)
    costs = [price(event, 1e-5).epsilon or 0 for event in (none, half, every)]
    assert 0 < costs[0] < costs[1] < costs[2]
    tests_only = price(SelfComposedDpEvent(GaussianDpEvent(150.0), 10), 1e-5).epsilon
    assert costs[0] == pytest.approx(tests_only, rel=1e-6)


def test_possible_answers_are_charged_not_only_given_ones() -> None:
    votes, passed = (row(200, 50),) * 10, (True, *[False] * 9)
    found = [
        price(NoisyVotesDpEvent(votes, "confident", 40.0, 200.0, 150.0, answered, most), 1e-5)
        for answered, most in ((passed, 4), ((), 4), (passed, None))
    ]
    assert found[0].epsilon == found[1].epsilon
    assert (found[0].epsilon or 0) > (found[2].epsilon or 0)
    assert found[0].epsilons["data_dependent"] == found[2].epsilons["data_dependent"]


def test_votes_beside_something_else_are_priced_together() -> None:
    votes = NoisyVotesDpEvent((row(250, 0),) * 100, "laplace", SCALE)
    both = price(ComposedDpEvent([votes, GaussianDpEvent(10.0)]), 1e-5).epsilons
    alone = price(votes, 1e-5).epsilons
    assert both["data_dependent"] > alone["data_dependent"]
    assert both["pld"] > alone["pld"]


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (NoisyVotesDpEvent(((1,),), "laplace", 1.0), "votes"),
        (NoisyVotesDpEvent(((1, -2),), "laplace", 1.0), "votes"),
        (NoisyVotesDpEvent(((1, 2),), "poll", 1.0), "aggregator"),
        (NoisyVotesDpEvent(((1, 2),), "confident", 1.0), "threshold_noise"),
        (NoisyVotesDpEvent(((1, 2),), "confident", 1.0, 1.0, 1.0, (True, True)), "answered"),
        (NoisyVotesDpEvent(((1, 2),), "laplace", math.nan), "noise"),
        (NoisyVotesDpEvent(((1, 2),) * 2, "confident", 1.0, 1.0, 1.0, (True, True), 1), "most_answers"),
    ],
)
def test_impossible_votes_are_refused(event: NoisyVotesDpEvent, field: str) -> None:
    with pytest.raises(AccountingError) as caught:
        price(event, 1e-5)
    assert caught.value.field == field
