"""Von Mises-Fisher: known numbers, multi-precision twins, and quadrature of the privacy loss."""

import math

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, DpEvent, SelfComposedDpEvent

from harness.accounting import price
from harness.accounting.sphere import (
    cosine_losses,
    log_normaliser,
    mean_resultant_length,
    renyi_von_mises_fisher,
)
from methods.events import VonMisesFisherDpEvent
from workloads.errors import AccountingError


@pytest.mark.parametrize(
    ("dimension", "kappa", "length"),
    [  # vmf_A of the specification, and more of dirdp_sgd
        (2, 1, 0.44638997),
        (3, 1, 0.31303529),
        (10, 5, 0.42245015),
        (25, 50, 0.78657653),
        (75, 10, 0.13109938),
        (300, 500, 0.74453901),
        (768, 1, 0.00130208),
        (1000, 50, 0.04987587),
        (10000, 500, 0.04987565),
        (3072, 500, 0.15866550),
        (10000, 300000, 0.98347382),
    ],
)
def test_the_mean_has_its_known_length(dimension: int, kappa: float, length: float) -> None:
    assert mean_resultant_length(dimension, kappa) == pytest.approx(length, abs=6e-9)


@pytest.mark.parametrize(
    ("dimension", "kappa", "order", "divergence"),
    [  # vmf_rdp_antipodal, and more of dirdp_sgd
        (3, 1, 2, 1.044319),
        (3, 1, 8, 1.633909),
        (75, 10, 2, 4.946102),
        (1000, 10, 2, 0.399801),
        (1000, 10, 8, 1.582474),
        (1000, 50, 8, 33.064377),
        (10000, 50, 2, 0.999875),
    ],
)
def test_the_divergence_of_opposite_directions(
    dimension: int, kappa: float, order: float, divergence: float
) -> None:
    assert renyi_von_mises_fisher(dimension, kappa, [order])[0] == pytest.approx(divergence, abs=1e-6)


def test_the_divergence_has_its_limits() -> None:
    """KL = 2 kappa A at order 1, 2 kappa at infinity, a Gaussian's in high dimension, 0 without kappa."""
    near_one = renyi_von_mises_fisher(1000, 10.0, [1 + 1e-6])[0]
    assert near_one == pytest.approx(2 * 10 * mean_resultant_length(1000, 10.0), rel=1e-5)
    assert near_one == pytest.approx(0.199980, abs=1e-6)
    assert renyi_von_mises_fisher(3, 1.0, [1e6])[0] == pytest.approx(2.0, rel=1e-4)
    assert renyi_von_mises_fisher(10**6, 10.0, [5.0])[0] == pytest.approx(2 * 5 * 100 / 10**6, rel=1e-3)
    assert renyi_von_mises_fisher(50, 0.0, [2.0, 30.0]).tolist() == [0, 0]


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
        twin = mpmath.log(mpmath.hyp0f1(mpmath.mpf(dimension) / 2, mpmath.mpf(kappa) ** 2 / 4))
    assert log_normaliser(dimension, [kappa])[0] == pytest.approx(float(twin), rel=1e-10)


def test_the_normaliser_stands_extreme_numbers() -> None:
    values = log_normaliser(10**6, np.array([3e5, 3e8, 3e5 * 1023]))
    assert np.isfinite(values).all()
    assert (np.diff(values) > 0).all()
    assert values[1] == pytest.approx(3e8, rel=0.02)


@pytest.mark.parametrize(("dimension", "kappa"), [(2, 3.0), (3, 1.0), (10, 40.0), (768, 5.0)])
def test_the_losses_have_the_divergence_of_the_closed_form(dimension: int, kappa: float) -> None:
    """A quadrature over the angle against Bessel functions: two ways to the same number."""
    losses, masses = cosine_losses(dimension, kappa, 20001)
    for order in (1.5, 2.0, 6.0):
        twin = math.log(masses @ np.exp((order - 1) * losses)) / (order - 1)
        assert renyi_von_mises_fisher(dimension, kappa, [order])[0] == pytest.approx(twin, rel=1e-8)


def lenet(kappa: float) -> DpEvent:
    """Rows of the LeNet for CIFAR-10: 50 directions."""
    rows = [(75, 12), (300, 24), (768, 10), (12, 3), (10, 1)]
    return ComposedDpEvent([SelfComposedDpEvent(VonMisesFisherDpEvent(k, kappa), m) for k, m in rows])


@pytest.mark.parametrize(
    ("event", "uses", "rdp", "pld", "pure"),
    [  # the table of dirdp_sgd, caveat 5
        (VonMisesFisherDpEvent(16000, 1.0), 1, 0.052, 0.045, 2),
        (VonMisesFisherDpEvent(16000, 1.0), 30, 0.321, 0.291, 60),
        (VonMisesFisherDpEvent(16000, 10.0), 30, 4.01, 3.71, 600),
        (VonMisesFisherDpEvent(16000, 50.0), 1, 3.62, 3.34, 100),
        (VonMisesFisherDpEvent(16000, 500.0), 30, 1142, 1120, 30000),
        (lenet(1.0), 1, 7.55, 7.07, 100),
        (lenet(1.0), 30, 74.7, 71.1, 3000),
        (lenet(10.0), 30, 3245, 3200, 30000),
    ],
)
def test_directions_have_their_known_price(
    event: DpEvent, uses: int, rdp: float, pld: float, pure: float
) -> None:
    guarantee = price(SelfComposedDpEvent(event, uses), 1e-5)
    assert guarantee.adjacency == "replace-one"
    assert guarantee.accountant == "pld"
    assert guarantee.epsilons["rdp"] == pytest.approx(rdp, rel=3e-3, abs=6e-4)
    assert guarantee.epsilons["pld"] == pytest.approx(pld, rel=3e-3, abs=6e-4)
    assert guarantee.epsilons["pure"] == pure


def test_huge_models_and_hardly_any_noise_have_a_price() -> None:
    epsilons = price(VonMisesFisherDpEvent(10**6, 3e5), 1e-5).epsilons
    assert 0 < epsilons["pld"] <= epsilons["rdp"] <= epsilons["pure"] == 6e5


def test_a_sum_of_directions_tells_how_many_there_are() -> None:
    """The sum of one more unit vector reaches further: no price when records come and go."""
    with pytest.raises(AccountingError, match="RDP accounting has no price under add_or_remove_one"):
        price(VonMisesFisherDpEvent(100, 1.0), 1e-5, "add-or-remove-one")
    whole = VonMisesFisherDpEvent(100, 1.0, per_example=False)
    assert price(whole, 1e-5).adjacency == "add-or-remove-one"
    assert price(whole, 1e-5).epsilon == price(VonMisesFisherDpEvent(100, 1.0), 1e-5).epsilon
