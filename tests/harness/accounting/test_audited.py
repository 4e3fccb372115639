"""Lower bounds from experiments: known values, limits, and their confidence."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from harness.accounting.audited import chance_of, many_runs, one_run


@pytest.mark.parametrize(("runs", "proved"), [(100, 3.2813), (500, 4.9056), (1000, 5.6006), (10000, 7.9048)])
def test_perfect_runs_prove_what_their_number_allows(runs: int, proved: float) -> None:
    assert many_runs(runs, runs, 0, runs, 1e-5) == pytest.approx(proved, abs=5e-5)


def test_many_runs_at_other_levels_and_counts() -> None:
    assert many_runs(500, 500, 0, 500, 1e-5, confidence=0.99) == pytest.approx(4.5419, abs=5e-5)
    assert many_runs(300, 1000, 10, 1000, 1e-5) == pytest.approx(2.6971, abs=5e-5)
    assert many_runs(500, 1000, 500, 1000, 1e-5) == 0
    assert many_runs(0, 0, 0, 5, 1e-5) == 0, "without trainings on one side nothing is proved"


def test_a_test_that_is_always_wrong_proves_nothing() -> None:
    assert many_runs(0, 500, 500, 500, 1e-5) == 0
    assert one_run(1000, 100, 0, 1e-5) == 0


@pytest.mark.parametrize(
    ("coins", "guesses", "right", "delta", "proved"),
    [
        (1000, 100, 100, 0.0, 3.4930),
        (1000, 100, 100, 1e-5, 3.4654),
        (1000, 1000, 600, 1e-5, 0.2972),
        (1000, 1000, 500, 1e-5, 0.0),
        (1000, 200, 180, 1e-5, 1.7963),
        (5000, 500, 490, 1e-5, 3.3357),
    ],
)
def test_one_run(coins: int, guesses: int, right: int, delta: float, proved: float) -> None:
    assert one_run(coins, guesses, right, delta) == pytest.approx(proved, abs=5e-5)


def test_the_chance_of_right_guesses_is_the_slow_sum() -> None:
    for guesses, right, epsilon, delta in itertools.product((6, 11), (1, 4, 6), (0.0, 0.7), (0.0, 1e-3)):
        share = math.exp(epsilon) / (1 + math.exp(epsilon))
        mass = [math.comb(guesses, k) * share**k * (1 - share) ** (guesses - k) for k in range(guesses + 1)]
        beta = sum(mass[right:])
        alpha = max(sum(mass[right - i : right]) / i for i in range(1, right + 1))
        slow = min(1.0, beta + 2 * 20 * delta * alpha)
        assert chance_of(20, guesses, right, epsilon, delta) == pytest.approx(slow, rel=1e-12)


def test_copies_divide_the_bound() -> None:
    alone = one_run(400, 100, 95, 0.0)
    assert one_run(400, 100, 95, 0.0, copies=2) == pytest.approx(alone / 2, abs=1e-8)
    assert one_run(400, 100, 95, 1e-5, copies=2) < one_run(400, 100, 95, 1e-5) / 2
    assert many_runs(90, 100, 1, 100, 0.0, copies=3) == pytest.approx(
        many_runs(90, 100, 1, 100, 0.0) / 3, abs=1e-8
    )


def test_randomised_response_is_never_refuted_more_often_than_allowed() -> None:
    epsilon, draws = 1.2, 2000
    share = math.exp(epsilon) / (1 + math.exp(epsilon))
    right = np.random.default_rng(0).binomial(200, share, draws)
    bounds = {each: one_run(200, 200, int(each), 0.0) for each in set(right.tolist())}
    wrong = sum(bounds[each] > epsilon for each in right.tolist())
    # 5 % are allowed; the binomial's upper limit at 1e-4 makes a chance failure negligible
    assert wrong <= stats.binom.ppf(1 - 1e-4, draws, 0.05)
    assert wrong > 0, "the bound is so loose that nothing would ever be caught"
