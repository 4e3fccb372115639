"""Bessel functions: known values and multi-precision references, up to dimensions of large models."""

import math

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from methods.mechanisms.bessel import log_normaliser, mean_resultant_length


@pytest.mark.parametrize(
    ("dimension", "kappa", "length"),
    [  # vmf_A of the specification, and more of dirdp_sgd
        (2, 1, 0.44638997),
        (3, 1, 0.31303529),
        (3, 10, 0.9),
        (10, 5, 0.42245015),
        (25, 50, 0.78657653),
        (75, 1, 0.01333103),
        (75, 10, 0.13109938),
        (300, 50, 0.16230385),
        (300, 500, 0.74453901),
        (768, 1, 0.00130208),
        (1000, 50, 0.04987587),
        (10000, 500, 0.04987565),
        (3072, 500, 0.15866550),
        (10000, 300000, 0.98347382),
        (50, math.inf, 1.0),
    ],
)
def test_the_mean_has_its_known_length(dimension: int, kappa: float, length: float) -> None:
    assert mean_resultant_length(dimension, kappa) == pytest.approx(length, abs=6e-9)


@pytest.mark.parametrize(
    ("dimension", "kappa"),
    [
        *((2, 0.1), (2, 1000.0), (3, 3e5), (51, 1e-4), (101, 30.0), (103, 20.5), (104, 30.0), (200, 1e5)),
        *((10**6, 1.0), (10**6, 1e-3), (16000, 500.0)),
    ],
)
def test_the_normaliser_keeps_its_digits(dimension: int, kappa: float) -> None:
    """Against 40 digits of mpmath, in all three ways of computing it."""
    with mpmath.workdps(40):
        expected = mpmath.log(mpmath.hyp0f1(mpmath.mpf(dimension) / 2, mpmath.mpf(kappa) ** 2 / 4))
    assert log_normaliser(dimension, [kappa])[0] == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize(("dimension", "kappa"), [(10**6, 3e5), (2_700_000, 3e4)])
def test_a_large_model_and_a_large_kappa_keep_their_digits(dimension: int, kappa: float) -> None:
    """0F1 summed around its largest term, in logarithms: what mpmath's own would take hours for."""
    half, square = dimension / 2, kappa**2 / 4
    peak = round((math.hypot(half, kappa) - half) / 2)
    first, last = max(0, peak - 12 * math.isqrt(peak) - 20), peak + 12 * math.isqrt(peak) + 20
    with mpmath.workdps(40):
        head = first * mpmath.log(square) - mpmath.loggamma(first + 1)
        head += mpmath.loggamma(half) - mpmath.loggamma(half + first)
        term, total = mpmath.mpf(1), mpmath.mpf(0)
        for k in range(first, last):
            total += term
            term *= mpmath.mpf(square) / ((k + 1) * (half + k))
        expected = float(head + mpmath.log(total))
    assert log_normaliser(dimension, [kappa])[0] == pytest.approx(expected, rel=1e-12)


def test_the_normaliser_stands_extreme_numbers() -> None:
    values = log_normaliser(10**6, np.array([3e5, 3e8, 3e5 * 1023]))
    assert np.isfinite(values).all()
    assert (np.diff(values) > 0).all()
    assert values[1] == pytest.approx(3e8, rel=0.02)
