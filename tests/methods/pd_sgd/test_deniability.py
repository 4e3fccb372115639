"""The privacy test of PD-SGD against its definition, its probability and the algorithm as printed."""

import itertools
import math

import pytest
import torch
from scipy.stats import norm

from methods.pd_sgd.deniability import DeniabilityTest, count_plausible, half_acceptance, log_ratio


def plausible_share(distance: float, sigma: float, gamma: float, draws: int, size: int = 50) -> float:
    """How often a batch at this distance passes, over fresh noise."""
    random = torch.Generator().manual_seed(1)
    seed, noise = torch.randn(size, generator=random), torch.empty(size)
    direction = torch.randn(size, generator=random, dtype=torch.float64)
    other = (seed.double() - distance * direction / direction.norm()).float()
    test = DeniabilityTest(seed, noise, sigma, gamma)
    passed = 0
    for _ in range(draws):
        noise.normal_(0.0, sigma, generator=random)
        test.begin()
        passed += test.passes(other)
    return passed / draws


# Squared distance, sigma, gamma, and q from Lemma 1.
@pytest.mark.parametrize(
    ("squared", "sigma", "gamma", "q"),
    [(0.36, 0.3, 2.0, 0.47724987), (1.0, 1.0, 1.0, 0.62465526), (0.1, 0.1, 2.0, 0.15796251)],
)
def test_a_batch_passes_with_the_probability_of_lemma_1(
    squared: float, sigma: float, gamma: float, q: float
) -> None:
    draws = 8_000
    found = plausible_share(math.sqrt(squared), sigma, gamma, draws)
    assert found == pytest.approx(q, abs=4 * math.sqrt(q * (1 - q) / draws))


def test_the_statistic_is_the_difference_of_the_full_log_densities() -> None:
    random = torch.Generator().manual_seed(2)
    noise, difference = 0.3 * torch.randn(2, 40, generator=random, dtype=torch.float64)
    expected = norm.logpdf(noise, scale=0.3).sum() - norm.logpdf(noise + difference, scale=0.3).sum()
    squared, inner = float(difference @ difference), float(noise @ difference)
    assert log_ratio(squared, inner, 0.3) == pytest.approx(expected, rel=1e-12)


def test_a_million_weights_lose_nothing_to_cancellation() -> None:
    """Summed in single precision the log-densities of so many weights are too coarse for any gamma."""
    random, size, sigma = torch.Generator().manual_seed(3), 1_000_000, 0.1
    seed, noise = torch.randn(size, generator=random), sigma * torch.randn(size, generator=random)
    other = seed + 1e-4 * torch.randn(size, generator=random)
    difference = seed.double() - other.double()
    squared = math.fsum((difference**2).tolist())
    exact = (squared + 2 * math.fsum((noise.double() * difference).tolist())) / (2 * sigma**2)
    for gamma, verdict in ((abs(exact) * (1 + 1e-9), True), (abs(exact) * (1 - 1e-9), False)):
        test = DeniabilityTest(seed, noise, sigma, gamma)
        test.begin()
        assert test.passes(other) is verdict
    assert test.distances == [pytest.approx(math.sqrt(squared), rel=1e-12)]


def test_the_verdict_does_not_change_when_a_constant_is_added_to_all_gradients() -> None:
    random = torch.Generator().manual_seed(4)
    # Multiples of 1/256 below 2: sums with the constant are exact.
    seed, *others = torch.randint(-128, 128, (41, 30), generator=random) / 256
    noise = 0.5 * torch.randn(30, generator=random)
    verdicts = []
    for constant in (0.0, 1.5):
        test = DeniabilityTest(seed + constant, noise, 0.5, gamma=8.0)
        test.begin()
        verdicts.append([test.passes(other + constant) for other in others])
    assert verdicts[0] == verdicts[1]
    assert set(verdicts[0]) == {True, False}, "both verdicts occur"


def test_a_batch_with_the_same_gradient_always_passes() -> None:
    seed = torch.randn(30, generator=torch.Generator().manual_seed(5))
    test = DeniabilityTest(seed, torch.full((30,), 3.0), 0.1, gamma=1e-12)
    test.begin()
    assert test.passes(seed.clone())


def test_an_infinite_threshold_lets_all_pass_and_a_lost_gradient_nothing() -> None:
    seed, noise = torch.ones(3), torch.ones(3)
    test = DeniabilityTest(seed, noise, 1e-200, gamma=math.inf)
    test.begin()
    assert test.passes(torch.zeros(3))
    assert not test.passes(torch.tensor([math.nan, 0.0, 0.0]))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 1000.0])
def test_half_of_the_batches_pass_at_the_half_acceptance_distance(gamma: float) -> None:
    """There q = Phi(sqrt(2 gamma)) - 1/2, which tends to a half."""
    root = half_acceptance(gamma)
    q = norm.cdf((root**2 + 2 * gamma) / (2 * root)) - norm.cdf((root**2 - 2 * gamma) / (2 * root))
    assert q == pytest.approx(norm.cdf(root) - 0.5, rel=1e-12)


@pytest.mark.parametrize("needed", range(1, 8))
def test_stopping_early_gives_the_verdict_of_the_printed_algorithm(needed: int) -> None:
    for pattern in itertools.product((False, True), repeat=6):
        asked: list[int] = []

        def passes(number: int, pattern: tuple[bool, ...] = pattern, asked: list[int] = asked) -> bool:
            asked.append(number)
            return pattern[number]

        verdict = count_plausible(range(6), needed, passes)
        assert verdict.accepted == (1 + sum(pattern) >= needed)
        assert asked == list(range(verdict.evaluated - 1)), "each batch once, in order, none for nothing"
        assert verdict.count == 1 + sum(pattern[: len(asked)])


def test_no_batch_is_tested_once_the_outcome_is_certain() -> None:
    assert count_plausible(range(9), 3, lambda number: True).evaluated == 3
    assert count_plausible(range(9), 1, lambda number: False).evaluated == 1
    # Nine of ten are needed: the second batch that fails decides.
    assert count_plausible(range(9), 9, lambda number: False).evaluated == 3
