"""The theory of PD-SGD's test against numbers computed elsewhere, and against itself."""

import math

import numpy as np
import pytest

from methods.pd_sgd.theory import (
    corollary_1,
    half_accepted_at,
    lemma_2,
    normalised_distance,
    plausibility,
    rejected_from,
)

# Squared distance, sigma, gamma, q.
PLAUSIBILITIES = [
    (0.01, 0.1, 2, 0.92698313),
    (0.04, 0.1, 2, 0.47724987),
    (0.1, 0.1, 2, 0.15796251),
    (0.2, 0.1, 2, 0.033173956),
    (0.5, 0.1, 2, 0.00050442193),
    (1, 0.1, 2, 6.9368389e-07),
    (0.36, 0.3, 2, 0.47724987),
    (1, 1, 1, 0.62465526),
    (4, 1, 1, 0.24173034),
    (9, 1, 1, 0.088295997),
    (25, 1, 2, 0.015998607),
    (0.2, 0.01, 1000, 0.5),
    (0.25, 0.01, 1000, 2.8665e-7),
]
# Squared distance, sigma, gamma, Lemma 2, Corollary 1.
BOUNDS = [
    (0.2, 0.1, 2, 0.0414591, 0.0428102),
    (1, 0.3, 2, 0.200458, 0.203975),
    (9, 1, 1, 0.141903, 0.150848),
    (0.25, 0.01, 1000, 2.97344e-7, 2.97344e-7),
]
# delta to gamma to d* / sigma^2.
SQUARES = {
    0.05: {1: 12.330702, 2: 17.260912, 4: 24.097977, 6: 30.016848, 10: 41.086494},
    1e-5: {1: 73.423938, 2: 79.553101, 4: 87.910366, 6: 95.230107, 10: 109.09024},
}
# sigma = 0.1: delta to gamma to the normalised distance of Figure 1.
FIGURE_1 = {
    0.05: {1: 0.004007, 2: 0.004741, 4: 0.005602, 10: 0.007314},
    1e-5: {1: 0.009778, 2: 0.010178, 4: 0.010699, 10: 0.011918},
}


@pytest.mark.parametrize(("squared", "sigma", "gamma", "q"), PLAUSIBILITIES)
def test_plausibility(squared: float, sigma: float, gamma: float, q: float) -> None:
    assert plausibility(math.sqrt(squared) / sigma, gamma) == pytest.approx(q, rel=2e-5)


@pytest.mark.parametrize(("squared", "sigma", "gamma", "lemma", "corollary"), BOUNDS)
def test_bounds(squared: float, sigma: float, gamma: float, lemma: float, corollary: float) -> None:
    x = math.sqrt(squared) / sigma
    assert lemma_2(x, gamma) == pytest.approx(lemma, rel=5e-6)
    assert corollary_1(x, gamma) == pytest.approx(corollary, rel=5e-6)
    assert plausibility(x, gamma) < lemma_2(x, gamma)
    # Equal to six digits where gamma is large.
    assert lemma_2(x, gamma) <= corollary_1(x, gamma)


def test_lemma_2_is_the_printed_formula_with_the_constant_that_scales() -> None:
    d, sigma, gamma = 0.2, 0.1, 2.0
    width = 2 * sigma**2 * gamma
    bracket = math.exp(gamma / 2) / (d - width)
    bracket -= (d + width) * math.exp(-gamma / 2) / ((d + width) ** 2 + 4 * sigma**2 * d)
    tail = math.exp(-(d**2 + width**2) / (8 * d * sigma**2))
    scales, misread = (
        constant / math.sqrt(math.pi) * bracket * tail
        for constant in (
            sigma * math.sqrt(2 * d),
            math.sqrt(2 * d * sigma),
        )
    )
    assert lemma_2(math.sqrt(d) / sigma, gamma) == pytest.approx(scales, rel=1e-12)
    assert misread == pytest.approx(0.131105, rel=1e-5)


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0, 1000.0, 400_000.0])
def test_plausibility_falls_from_one_and_stays_below_its_bounds(gamma: float) -> None:
    x = half_accepted_at(gamma) + np.linspace(-half_accepted_at(gamma), 25, 2001)
    q = plausibility(x, gamma)
    assert q[0] == 1
    assert (np.diff(q) <= 0).all()
    assert (q > 0).all(), "tails do not vanish"
    beyond = x**2 > 2 * gamma * (1 + 1e-12)
    assert np.isnan(lemma_2(x, gamma)[x**2 < 2 * gamma * (1 - 1e-12)]).all()
    assert (q[beyond] < lemma_2(x, gamma)[beyond]).all()
    both = beyond & (x > 2)
    assert (lemma_2(x, gamma)[both] <= corollary_1(x, gamma)[both] * (1 + 1e-9)).all()


@pytest.mark.parametrize("delta", SQUARES)
def test_from_where_a_batch_is_rejected(delta: float) -> None:
    for gamma, squared in SQUARES[delta].items():
        assert rejected_from(gamma, delta) ** 2 == pytest.approx(squared, rel=1e-7)
    for gamma, distance in FIGURE_1[delta].items():
        assert normalised_distance(0.1, gamma, delta) == pytest.approx(distance, abs=5e-7)
        assert normalised_distance(1.0, gamma, delta) == pytest.approx(10 * distance, abs=5e-6)


def test_the_half_acceptance_distances_of_the_papers_settings() -> None:
    found = {gamma: half_accepted_at(gamma) for gamma in (2, 4, 1000, 400_000)}
    assert found == {
        2: 2.0,
        4: pytest.approx(2.83, abs=0.005),
        1000: pytest.approx(44.7, abs=0.05),
        400_000: pytest.approx(894, abs=0.5),
    }
    assert [float(plausibility(half_accepted_at(gamma), gamma)) for gamma in (1, 2, 1000)] == [
        pytest.approx(0.42, abs=0.005),
        pytest.approx(0.477, abs=0.0005),
        pytest.approx(0.5, abs=1e-9),
    ]
