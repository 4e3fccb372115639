"""Losses on a mesh and of samples, against hockey-stick divergences computed the long way."""

import math

import numpy as np
import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from harness.accounting import price
from harness.accounting.accountants.losses import losses, solve_epsilon
from harness.accounting.accountants.pld import deltas_pld
from methods.mechanisms.events import PureDpEvent, VonMisesFisherDpEvent

REPLACE = NeighboringRelation.REPLACE_ONE
EPSILONS = np.array([-0.7, -0.1, 0.0, 0.05, 0.3, 0.9, 1.7])


def sampled_delta(rate: float, noise: float, epsilon: float) -> float:
    """Worst case of a sample of fixed size with a record replaced, by integrating densities.

    Outputs 0 with the record's chance 1 - q, else +1 or -1 on the two neighbours: one of the pairs that the
    bound must cover.
    """
    grid = np.linspace(-60, 60, 400_001)
    rest = (1 - rate) * norm.pdf(grid, 0, noise)
    one, other = (rest + rate * norm.pdf(grid, mean, noise) for mean in (1, -1))
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum() * (grid[1] - grid[0]))


@pytest.mark.parametrize(("rate", "noise"), [(0.1, 1.0), (0.5, 3.0), (0.01, 0.8)])
def test_a_sample_of_fixed_size_is_covered(rate: float, noise: float) -> None:
    event = SampledWithoutReplacementDpEvent(1000, int(1000 * rate), GaussianDpEvent(noise))
    bounds = np.minimum(*deltas_pld(event, EPSILONS, REPLACE, 1e-3))
    truth = np.array([sampled_delta(rate, noise, epsilon) for epsilon in EPSILONS])
    assert (bounds >= truth - 1e-8).all()


def test_what_was_sampled_whole_is_not_a_sample() -> None:
    whole, _ = deltas_pld(GaussianDpEvent(3.0), EPSILONS, REPLACE, 1e-3)
    sampled, _ = deltas_pld(
        SampledWithoutReplacementDpEvent(50, 50, GaussianDpEvent(3.0)), EPSILONS, REPLACE, 1e-3
    )
    assert sampled == pytest.approx(whole, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 10.0])
def test_a_pure_guarantee_is_randomised_response(epsilon: float) -> None:
    """Its delta: p - e^eps (1 - p) with p = e^eps0 / (1 + e^eps0)."""
    share = 1 / (1 + math.exp(-epsilon))
    bounds, _ = deltas_pld(PureDpEvent(epsilon), EPSILONS, REPLACE, 1e-4)
    truth = np.maximum.reduce([share - np.exp(EPSILONS) * (1 - share), 1 - np.exp(EPSILONS), 0 * EPSILONS])
    assert (bounds >= truth - 1e-12).all()
    assert bounds == pytest.approx(truth, abs=1e-4)


@pytest.mark.parametrize(("epsilon", "amplified"), [(2.0, 0.01622367), (10.0, 4.04978630)])
def test_a_sampled_pure_mechanism_has_a_smaller_pure_epsilon(epsilon: float, amplified: float) -> None:
    """acct_pure_metric_composition: log(1 + q (e^eps - 1)) at q = 128 / 50000, here read off the losses."""
    found = losses(PureDpEvent(epsilon), REPLACE)
    assert found is not None
    assert found.sampled(128 / 50000).values.max() == pytest.approx(amplified, abs=1e-8)


@settings(max_examples=25, deadline=None)
@given(
    event=st.one_of(
        st.builds(PureDpEvent, st.floats(0.01, 8)),
        st.builds(VonMisesFisherDpEvent, st.integers(2, 500), st.floats(0.1, 20)),
        st.builds(GaussianDpEvent, st.floats(0.5, 20)),
    ),
    rate=st.floats(0.001, 0.9),
)
def test_losses_are_a_pair_of_distributions(event: DpEvent, rate: float) -> None:
    """Masses under P and under Q add up to 1, before and after sampling and rounding to a mesh."""
    whole = losses(event, REPLACE)
    assert whole is not None
    for each in (whole, whole.sampled(rate)):
        assert each.masses.min() >= 0
        assert each.masses.sum() == pytest.approx(1, abs=1e-9)
        assert each.masses @ np.exp(-each.values) == pytest.approx(1, abs=1e-6)
        assert each.distribution(1e-2).get_delta_for_epsilon(-50.0) == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sampled", [False, True])
def test_the_mesh_only_ever_raises_the_price(sampled: bool) -> None:
    event: DpEvent = VonMisesFisherDpEvent(30, 4.0)
    event = SampledWithoutReplacementDpEvent(100, 10, event) if sampled else event
    fine, coarse = (deltas_pld(event, EPSILONS, REPLACE, width)[0] for width in (1e-4, 0.05))
    assert (coarse >= fine - 1e-12).all()
    assert coarse == pytest.approx(fine, abs=2e-3)


def test_sampling_pays() -> None:
    """A smaller sample has a smaller price; and the Rényi bound stays above that of the losses."""
    prices = [
        price(
            SelfComposedDpEvent(
                SampledWithoutReplacementDpEvent(50000, size, VonMisesFisherDpEvent(16000, 10.0)), 100
            ),
            1e-5,
        ).epsilons
        for size in (128, 1024, 50000)
    ]
    assert prices[0]["pld"] < prices[1]["pld"] < prices[2]["pld"]
    assert all(each["pld"] <= each["rdp"] for each in prices)


def test_a_poisson_sample_of_a_pure_mechanism_is_amplified_too() -> None:
    event = PoissonSampledDpEvent(0.01, PureDpEvent(1.0))
    guarantee = price(event, 1e-5)
    assert guarantee.epsilons["pure"] == pytest.approx(math.log1p(0.01 * math.expm1(1.0)))
    assert (guarantee.epsilon or 0) <= guarantee.epsilons["pure"] * 1.01


def test_epsilon_is_where_delta_is_met() -> None:
    values, masses = np.array([-1.0, 0.5, 2.0]), np.array([0.3, 0.5, 0.2])
    epsilon = solve_epsilon(values, masses, 0.1)
    assert masses @ np.maximum(-np.expm1(epsilon - values), 0) == pytest.approx(0.1)
    assert solve_epsilon(values, masses, 0.9) == 0
