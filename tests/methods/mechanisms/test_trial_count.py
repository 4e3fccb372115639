"""The number of trials of a private search: its distribution and its draws."""

import math

import pytest
import torch
from scipy.special import gammaln
from scipy.stats import chisquare

from methods.mechanisms.trial_count import POISSON, TrialCount

DRAWS = 10_000
SHAPES = (0.0, 0.5, 1.0, POISSON)
MEANS = (5, 10, 30)
GAMMAS = {
    0.0: (0.069920, 0.026918, 0.006594),
    0.5: (0.137016, 0.0625, 0.018962),
    1.0: (0.2, 0.1, 0.033333),
}


def chance(k: int, mean: float, shape: float) -> float:
    """P[K = k] by its formula (Papernot and Steinke 2022, definition 1), with products as gamma functions."""
    if shape == POISSON:
        return math.exp(k * math.log(mean) - mean - gammaln(k + 1))
    if k == 0:
        return 0.0
    gamma = GAMMAS[shape][MEANS.index(int(mean))]
    if shape == 0:
        return (1 - gamma) ** k / (k * math.log(1 / gamma))
    rising = math.exp(gammaln(k + shape) - gammaln(shape) - gammaln(k + 1))
    return (1 - gamma) ** k / (math.pow(gamma, -shape) - 1) * rising


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("shape", SHAPES)
def test_draws_follow_the_distribution_and_have_its_mean(shape: float, mean: int) -> None:
    count, generator = TrialCount(mean, shape), torch.Generator().manual_seed(7)
    drawn = torch.tensor([count.draw(generator) for _ in range(DRAWS)], dtype=torch.float64)
    assert abs(float(drawn.mean()) - mean) < 3 * float(drawn.std()) / math.sqrt(DRAWS)
    assert float(drawn.min()) >= (0 if shape == POISSON else 1)
    seen, expected, left = [], [], 1.0
    for k in range(400):  # numbers of an expected count of at least 20, and all others together
        if DRAWS * chance(k, mean, shape) >= 20:
            seen.append(float((drawn == k).sum()))
            expected.append(DRAWS * chance(k, mean, shape))
            left -= chance(k, mean, shape)
    seen.append(DRAWS - sum(seen))
    expected.append(DRAWS * left)
    assert chisquare(seen, expected, sum_check=False).pvalue > 0.001


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("shape", GAMMAS)
def test_gamma_is_that_of_the_mean(shape: float, mean: int) -> None:
    assert TrialCount(mean, shape).gamma() == pytest.approx(GAMMAS[shape][MEANS.index(mean)], abs=1e-6)


@pytest.mark.parametrize(("shape", "quantiles"), [(0.0, (4, 41)), (1.0, (7, 29)), (POISSON, (10, 15))])
def test_quantiles_at_a_mean_of_10(shape: float, quantiles: tuple[int, int]) -> None:
    count = TrialCount(10, shape)
    assert (count.quantile(0.5), count.quantile(0.95)) == quantiles


@pytest.mark.parametrize("shape", SHAPES[:-1])
def test_a_mean_of_1_is_one_trial(shape: float) -> None:
    assert {TrialCount(1, shape).quantile(share) for share in (0.0, 0.5, 1 - 2**-53)} == {1}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_largest_double_below_1_has_a_quantile(shape: float) -> None:
    assert 30 < TrialCount(30, shape).quantile(1 - 2**-53) < 100_000
