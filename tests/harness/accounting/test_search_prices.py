"""Prices of the best of a random number of trials (Papernot and Steinke 2022), forward and backward."""

import math

import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from scipy.special import gammaln, logsumexp

from harness.accounting import calibrate, price
from methods.mechanisms.events import OneOfDpEvent, ParallelDpEvent

RATE, STEPS, DELTA = 0.01, 1000, 1e-5
MEANS = (5, 10, 30)

TOTALS: dict[float, tuple[float, float, float]] = {
    0.0: (3.2434, 3.5226, 3.9124),
    1.0: (3.6858, 4.1033, 4.6890),
    math.inf: (3.2842, 4.3295, 8.1392),
}
"""By shape: epsilon of a search of 5, 10 and 30 trainings on average, at noise 1."""

NOISES: dict[float, dict[float, tuple[float, float, float]]] = {
    1.0: {0.0: (2.2260, 2.3852, 2.6007), 1.0: (2.5761, 2.8353, 3.1910), math.inf: (2.2567, 2.9683, 5.2788)},
    4.0: {0.0: (0.9080, 0.9423, 0.9899), 1.0: (0.9603, 1.0134, 1.0882), math.inf: (0.9125, 1.0434, 1.6026)},
    8.0: {0.0: (0.6881, 0.7088, 0.7378), 1.0: (0.7106, 0.7408, 0.7828), math.inf: (0.6939, 0.7588, 1.0104)},
}
"""By total epsilon and shape: the noise of a training that leaves room for the search."""

BASES: dict[float, dict[float, tuple[float, float, float]]] = {
    1.0: {0.0: (0.544, 0.499, 0.450), 1.0: (0.455, 0.406, 0.353), math.inf: (0.534, 0.384, 0.199)},
    4.0: {0.0: (2.268, 2.081, 1.868), 1.0: (1.994, 1.779, 1.546), math.inf: (2.242, 1.677, 0.836)},
    8.0: {0.0: (4.864, 4.448, 3.952), 1.0: (4.415, 3.906, 3.336), math.inf: (4.741, 3.645, 1.789)},
}
"""By total epsilon and shape: epsilon of one such training."""


def training(noise: float) -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(RATE, GaussianDpEvent(noise)), STEPS)


def epsilon(event: DpEvent) -> float:
    found = price(event, DELTA).epsilon
    assert found is not None
    return found


# -- a slow and obvious twin, at whole orders only ---------------------------------------------------

ORDERS = range(2, 257)


def curve(noise: float) -> dict[int, float]:
    """Mironov, Talwar and Zhang 2019 at whole orders: a binomial sum."""
    found = {}
    for order in ORDERS:
        terms = [
            gammaln(order + 1)
            - gammaln(k + 1)
            - gammaln(order - k + 1)
            + (order - k) * math.log1p(-RATE)
            + k * math.log(RATE)
            + k * (k - 1) / (2 * noise**2)
            for k in range(order + 1)
        ]
        found[order] = STEPS * float(logsumexp(terms)) / (order - 1)
    return found


def gamma_of(shape: float, mean: float) -> float:
    """Gamma of a truncated negative binomial with this mean, by bisection of the formula of the mean."""

    def mean_at(gamma: float) -> float:
        if shape == 0:
            return (1 / gamma - 1) / math.log(1 / gamma)
        return shape * (1 - gamma) / (gamma * (1 - math.pow(gamma, shape)))

    low, high = 1e-9, 1 - 1e-9
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if mean_at(middle) > mean else (low, middle)
    return high


def searched(one: dict[int, float], mean: float, shape: float) -> dict[int, float]:
    """Theorem 2, and theorem 6 where the number of trials is Poisson."""
    if shape == math.inf:
        return {
            a: e + mean * delta_at(one, math.log1p(1 / (a - 1))) + math.log(mean) / (a - 1)
            for a, e in one.items()
        }
    gamma = gamma_of(shape, mean)
    extra = (1 + shape) * min((1 - 1 / a) * e + math.log(1 / gamma) / a for a, e in one.items())
    return {a: e + extra + math.log(mean) / (a - 1) for a, e in one.items()}


def delta_at(one: dict[int, float], eps: float) -> float:
    """Delta at an epsilon (Canonne, Kamath and Steinke 2020)."""
    exponents = [(a - 1) * (e - eps) - math.log(a - 1) + a * math.log1p(-1 / a) for a, e in one.items()]
    return math.exp(min(0.0, *exponents))


def converted(found: dict[int, float]) -> float:
    return min(e + math.log1p(-1 / a) - (math.log(DELTA) + math.log(a)) / (a - 1) for a, e in found.items())


# -- the tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "mean", "gamma"),
    [
        *((0.0, mean, value) for mean, value in zip(MEANS, (0.069920, 0.026918, 0.006594), strict=True)),
        *((0.5, mean, value) for mean, value in zip(MEANS, (0.137016, 0.0625, 0.018962), strict=True)),
        *((1.0, mean, value) for mean, value in zip(MEANS, (0.2, 0.1, 0.033333), strict=True)),
    ],
)
def test_the_twin_knows_the_gammas_of_the_table(shape: float, mean: int, gamma: float) -> None:
    assert gamma_of(shape, mean) == pytest.approx(gamma, abs=1e-6)


def test_one_training_costs_what_the_table_says() -> None:
    found = price(training(1.0), DELTA).epsilons
    assert found["pld"] == pytest.approx(1.8283, abs=1e-3)
    assert found["rdp"] == pytest.approx(2.1014, abs=1e-3)
    assert converted(curve(1.0)) == pytest.approx(2.1078, abs=1e-3)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("shape", TOTALS)
def test_the_price_of_a_search_is_that_of_the_table_and_just_below_the_twin(shape: float, mean: int) -> None:
    found = epsilon(RepeatAndSelectDpEvent(training(1.0), mean, shape))
    assert found == pytest.approx(TOTALS[shape][MEANS.index(mean)], abs=1e-3)
    twin = converted(searched(curve(1.0), mean, shape))
    assert found <= twin <= 1.02 * found, "whole orders only are an upper bound"


@pytest.mark.slow
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("shape", TOTALS)
@pytest.mark.parametrize("total", NOISES)
def test_the_noise_that_leaves_room_for_a_search_is_that_of_the_table(
    total: float, shape: float, mean: int
) -> None:
    place = MEANS.index(mean)
    noise = calibrate(lambda each: RepeatAndSelectDpEvent(training(each), mean, shape), total, DELTA)
    assert noise == pytest.approx(NOISES[total][shape][place], rel=1e-3)
    assert epsilon(training(noise)) == pytest.approx(BASES[total][shape][place], rel=2e-3, abs=1e-3)


# -- candidates and scores --------------------------------------------------------------------------


def test_one_of_several_costs_at_every_order_what_the_most_expensive_does() -> None:
    cheap, dear = training(1.5), training(1.0)
    assert epsilon(OneOfDpEvent((cheap, dear))) == pytest.approx(price(dear, DELTA).epsilons["rdp"], rel=1e-9)
    # Many small steps and one large one: neither curve is above the other everywhere.
    steps, jump = training(1.0), GaussianDpEvent(2.3)
    both = price(OneOfDpEvent((steps, jump)), DELTA)
    assert both.epsilons["rdp"] >= max(price(each, DELTA).epsilons["rdp"] for each in (steps, jump))
    assert both.accountant == "rdp"
    assert "pld" not in both.epsilons


@pytest.mark.parametrize("total", [1.0, 4.0, 8.0])
def test_a_score_on_held_out_records_with_noise_10_costs_nothing(total: float) -> None:
    noise = NOISES[total][1.0][1]
    alone = epsilon(RepeatAndSelectDpEvent(training(noise), 10, 1.0))

    def scored(score: DpEvent) -> DpEvent:
        return RepeatAndSelectDpEvent(ParallelDpEvent((OneOfDpEvent((training(noise),)), score)), 10, 1.0)

    assert epsilon(scored(GaussianDpEvent(10.0))) == pytest.approx(alone, rel=1e-6)
    extra = {1.0: 0.72, 4.0: 0.0, 8.0: 0.0}[total]
    assert epsilon(scored(GaussianDpEvent(5.0))) - alone == pytest.approx(extra, abs=0.01)
    for exact in (NonPrivateDpEvent(), GaussianDpEvent(0.0)):
        assert price(scored(exact), DELTA).kind == "none", "a score without noise has no price"
