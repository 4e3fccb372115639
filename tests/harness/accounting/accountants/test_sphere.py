"""Von Mises-Fisher: known numbers, quadrature of the privacy loss, prices of directions and of samples."""

import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from harness.accounting import price
from harness.accounting.accountants.pld import deltas_pld
from harness.accounting.accountants.sphere import cosine_losses, renyi_von_mises_fisher
from methods.mechanisms.bessel import mean_resultant_length
from methods.mechanisms.events import PureDpEvent, VonMisesFisherDpEvent
from workloads.errors import AccountingError


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


def test_a_sum_of_directions_reveals_their_number() -> None:
    """The sum of one more unit vector reaches further: no price when records come and go."""
    with pytest.raises(AccountingError) as caught:
        price(VonMisesFisherDpEvent(100, 1.0), 1e-5, "add-or-remove-one")
    assert (caught.value.field, caught.value.value) == ("adjacency", "add_or_remove_one")
    whole = VonMisesFisherDpEvent(100, 1.0, per_example=False)
    assert price(whole, 1e-5).adjacency == "add-or-remove-one"
    assert price(whole, 1e-5).epsilon == price(VonMisesFisherDpEvent(100, 1.0), 1e-5).epsilon


def sampled(release: DpEvent, members: int, batch_size: int, draws: int) -> DpEvent:
    return SelfComposedDpEvent(SampledWithoutReplacementDpEvent(members, batch_size, release), draws)


def test_rows_on_a_sample_cost_what_they_cost_alone_where_every_record_is_in_it() -> None:
    whole = price(SelfComposedDpEvent(lenet(0.3), 24), 1e-5).epsilons
    everybody = price(sampled(lenet(0.3), 40, 40, 24), 1e-5).epsilons
    assert everybody["rdp"] == pytest.approx(whole["rdp"], rel=1e-12)
    assert everybody["pure"] == pytest.approx(whole["pure"], rel=1e-12)
    # Two meshes round up where one did.
    assert whole["pld"] <= everybody["pld"] <= whole["pld"] * (1 + 1e-3)


def test_one_direction_on_a_sample_has_one_price_however_it_is_written() -> None:
    plain = price(sampled(VonMisesFisherDpEvent(9610, 30.0), 718, 64, 50), 1e-5).epsilons
    for written in (
        SelfComposedDpEvent(VonMisesFisherDpEvent(9610, 30.0), 1),
        ComposedDpEvent([VonMisesFisherDpEvent(9610, 30.0)]),
    ):
        epsilons = price(sampled(written, 718, 64, 50), 1e-5).epsilons
        assert epsilons["rdp"] == pytest.approx(plain["rdp"], rel=1e-12)
        assert epsilons["pld"] == pytest.approx(plain["pld"], rel=1e-3)


def test_a_smaller_sample_of_rows_costs_less_and_all_accountants_agree() -> None:
    prices = [price(sampled(lenet(0.3), 1000, size, 50), 1e-5).epsilons for size in (10, 100, 1000)]
    for found in prices:
        assert 0 < found["pld"] <= found["rdp"] <= found["pure"]
    # Amplification saves a pure price no more than log(1000 / 10) a step.
    for key, share in (("pld", 0.1), ("rdp", 0.1), ("pure", 0.9)):
        costs = [found[key] for found in prices]
        assert costs == sorted(costs)
        assert costs[0] < share * costs[-1]


def test_rows_on_a_sample_have_the_curve_of_the_theorem() -> None:
    """One use: delta'(log(1 + q (e^eps - 1))) = q delta(eps) (Balle, Barthe and Gaboardi 2018)."""
    rate, epsilons = 0.05, np.array([0.5, 1.0, 2.0, 4.0])
    whole, _ = deltas_pld(lenet(0.3), epsilons, NeighboringRelation.REPLACE_ONE, 2**-12)
    one = SampledWithoutReplacementDpEvent(1000, 50, lenet(0.3))
    amplified = np.log1p(rate * np.expm1(epsilons))
    found, _ = deltas_pld(one, amplified, NeighboringRelation.REPLACE_ONE, 2**-12)
    assert (found >= rate * whole).all()
    assert found == pytest.approx(rate * whole, rel=1e-2)


def test_rows_beside_another_pure_mechanism_on_a_sample_have_a_price() -> None:
    both = ComposedDpEvent([VonMisesFisherDpEvent(75, 1.0), PureDpEvent(0.5)])
    epsilons = price(sampled(both, 1000, 10, 50), 1e-5).epsilons
    assert 0 < epsilons["pld"] <= epsilons["rdp"]
    alone = price(sampled(VonMisesFisherDpEvent(75, 1.0), 1000, 10, 50), 1e-5).epsilons
    assert alone["pld"] < epsilons["pld"]


def test_rows_of_very_different_lengths_on_a_sample_have_a_price_without_a_warning() -> None:
    """A mass below 1e-300 at the end of the losses, where a bound of dp-accounting's overflows."""
    kappa = 3.58791477028674  # met by a calibration; another digit has no such mass
    layers = ComposedDpEvent([VonMisesFisherDpEvent(each, kappa) for each in (10, 128, 1280, 8192)])
    epsilons = price(sampled(layers, 718, 8, 500), 1e-5).epsilons
    assert 8 < epsilons["pld"] <= epsilons["rdp"]


def test_hardly_any_noise_on_thousands_of_samples_has_a_price() -> None:
    """The paper's kappa = 300,000: an epsilon of many millions, and no mesh of billions of points."""
    epsilons = price(sampled(lenet(3e5), 30_000, 128, 7031), 1e-5).epsilons
    assert 1e8 < epsilons["pld"] <= epsilons["rdp"] <= epsilons["pure"]


def test_poisson_batches_of_directions_have_no_price() -> None:
    with pytest.raises(AccountingError) as caught:
        price(SelfComposedDpEvent(PoissonSampledDpEvent(0.1, lenet(1.0)), 5), 1e-5)
    assert caught.value.field == "adjacency"
