"""Rényi divergences against tables, integrals and dp-accounting."""

import math

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)
from scipy.integrate import quad
from scipy.stats import norm

from harness.accounting.accountants.rdp import divergences
from harness.accounting.accountants.renyi import renyi, renyi_mixture, renyi_sampled
from harness.accounting.accountants.sphere import Floats

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


@pytest.mark.parametrize(
    ("order", "divergence"),
    [  # renyi_example; the lecture's -0.653 at order 2 is impossible
        (1, 0.0201355136),
        (2, 0.0392207132),
        (3, 0.0566643427),
        (10, 0.1274734743),
        (math.inf, 0.1823215568),
    ],
)
def test_a_table_has_its_divergence(order: float, divergence: float) -> None:
    assert renyi([0.6, 0.4], [0.5, 0.5], order) == pytest.approx(divergence, abs=1e-9)


def test_the_order_of_arguments_matters() -> None:
    assert renyi([0.5, 0.5], [0.6, 0.4], 2) == pytest.approx(0.0408220, abs=1e-7)
    assert renyi([0.5, 0.5], [0.6, 0.4], math.inf) == pytest.approx(0.2231436, abs=1e-7)


def test_what_the_other_cannot_do_costs_everything() -> None:
    assert renyi([0.5, 0.5], [1.0, 0.0], 2) == math.inf
    assert renyi([1.0, 0.0], [0.5, 0.5], 2) == pytest.approx(math.log(2))


@pytest.mark.parametrize(("rate", "noise"), [(0.1, 2.0), (0.01, 0.7), (0.5, 1.0)])
def test_a_mixture_of_two_is_the_sampled_gaussian(rate: float, noise: float) -> None:
    orders = [2, 4, 16, 63]
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    found = renyi_mixture(noise, [0.0, 1.0], [1 - rate, rate], orders)
    assert found == pytest.approx(divergences(event, ADD_OR_REMOVE, orders), rel=1e-6, abs=2e-9)
    between = renyi_mixture(noise, [0.0, 1.0], [1 - rate, rate], [1.5, 4.5])
    assert (between <= divergences(event, ADD_OR_REMOVE, [1.5, 4.5])).all(), "a bound between whole orders"


def test_a_mixture_against_an_integral() -> None:
    def integrand(x: float) -> float:
        base = float(norm.pdf(x, 0, 2))
        mixed = 0.81 * base + 0.18 * float(norm.pdf(x, 1, 2)) + 0.01 * float(norm.pdf(x, 2, 2))
        return float(mixed**3 / base**2)

    twin = math.log(quad(integrand, -40, 50, limit=400, epsabs=1e-13)[0]) / 2
    assert renyi_mixture(2.0, [0.0, 1.0, 2.0], [0.81, 0.18, 0.01], [3])[0] == pytest.approx(twin, rel=1e-8)


def test_a_fixed_sample_covers_the_truth_and_is_no_looser_than_the_whole() -> None:
    """Wang, Balle and Kasiviswanathan's bound against a pair of neighbours and against no sampling."""
    rate, noise = 0.05, 2.0
    orders = np.array([2.0, 2.5, 5.0, 20.0])

    def base(every: Floats) -> Floats:
        return every * (2 / noise) ** 2 / 2

    bound = renyi_sampled(base, math.inf, rate, orders)
    grid = np.linspace(-60, 60, 120_001)
    rest = (1 - rate) * norm.pdf(grid, 0, noise)
    one, other = (rest + rate * norm.pdf(grid, mean, noise) for mean in (1, -1))
    for order, most in zip(orders, bound, strict=True):
        truth = renyi(one / one.sum(), other / other.sum(), float(order))
        assert truth <= most <= base(np.array([order]))[0]


def test_ours_for_any_mechanism_is_no_tighter_than_dp_accountings_for_gaussians() -> None:
    orders = [2, 5, 9]
    event = SampledWithoutReplacementDpEvent(1000, 10, GaussianDpEvent(4.0))
    theirs = divergences(event, NeighboringRelation.REPLACE_ONE, orders)
    ours = renyi_sampled(lambda a: a / 8, math.inf, 0.01, orders)
    assert (theirs <= ours + 2e-9).all()
    assert theirs == pytest.approx(ours, rel=0.3)
