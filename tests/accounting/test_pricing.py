"""Prices against published and closed-form numbers, at their limits, and in what they refuse."""

import json
import math

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    UnsupportedDpEvent,
)
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr

from harness.accounting import price
from harness.accounting.pld import epsilon_pld, mesh
from harness.accounting.pricing import check_agreement
from harness.accounting.rdp import epsilon_rdp
from workloads.errors import AccountingError

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


def sgm(rate: float, noise: float, steps: int) -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)


@pytest.mark.parametrize(
    ("members", "batch", "noise", "steps", "rdp", "pld"),
    [
        (60000, 256, 1.1, 14062, 2.5966, 2.3817),
        (60000, 512, 1.23, 4687, 2.5808, 2.3633),
        (60000, 2048, 2.15, 1171, 2.6043, 2.3884),
        (50000, 1024, 1.54, 1464, 2.6083, 2.3863),
        (60000, 600, 4.0, 10000, 1.0355, 0.9470),
    ],
)
def test_dp_sgd_has_its_known_price(
    members: int, batch: int, noise: float, steps: int, rdp: float, pld: float
) -> None:
    guarantee = price(sgm(batch / members, noise, steps), 1e-5)
    assert guarantee.epsilons == pytest.approx({"rdp": rdp, "pld": pld}, abs=1.5e-4)
    assert guarantee.epsilon == guarantee.epsilons["pld"]


@pytest.mark.parametrize(
    ("rate", "noise", "order", "divergence"),
    [
        (0.01, 1.0, 2, 1.71813422e-04),
        (0.01, 1.0, 8, 8.93643908e-04),
        (0.01, 1.0, 32, 11.2462759),
        (256 / 60000, 1.1, 2, 2.339578e-5),
        (256 / 60000, 1.1, 8, 9.834106e-5),
        (256 / 60000, 1.1, 32, 7.5901883),
    ],
)
def test_renyi_divergence_of_the_sampled_gaussian(
    rate: float, noise: float, order: int, divergence: float
) -> None:
    accountant = RdpAccountant([order], ADD_OR_REMOVE).compose(sgm(rate, noise, 1))
    assert accountant.rdp[0] == pytest.approx(divergence, rel=1e-6)


def exact_gaussian_epsilon(noise: float, delta: float) -> float:
    """Balle and Wang 2018: the epsilon of one Gaussian, without any accountant."""

    def excess(epsilon: float) -> float:
        near, far = 1 / (2 * noise) - epsilon * noise, -1 / (2 * noise) - epsilon * noise
        return float(ndtr(near) - math.exp(epsilon) * ndtr(far)) - delta

    return float(brentq(excess, 0, 100))


@pytest.mark.parametrize(("noise", "epsilon"), [(1, 4.377178), (2, 1.993091), (4, 0.926342), (8, 0.434416)])
def test_one_gaussian_costs_what_the_closed_form_says(noise: float, epsilon: float) -> None:
    assert exact_gaussian_epsilon(noise, 1e-5) == pytest.approx(epsilon, abs=1e-6)
    found = price(GaussianDpEvent(noise), 1e-5).epsilon
    assert found == pytest.approx(epsilon, rel=2e-4)
    assert found is not None
    assert found >= epsilon - 1e-6, "an upper bound"


def test_many_gaussians_cost_what_one_with_less_noise_does() -> None:
    found = price(SelfComposedDpEvent(GaussianDpEvent(20.0), 100), 1e-5).epsilon
    assert found == pytest.approx(exact_gaussian_epsilon(2.0, 1e-5), rel=2e-4)


def test_sampling_everybody_is_not_sampling() -> None:
    sampled = price(sgm(1.0, 5.0, 10), 1e-5).epsilon
    assert sampled == pytest.approx(
        price(SelfComposedDpEvent(GaussianDpEvent(5.0), 10), 1e-5).epsilon, rel=1e-3
    )


@settings(max_examples=7, deadline=None)
@given(
    rate=st.floats(0.01, 1.0),
    steps=st.integers(1, 200),
    noise=st.floats(1.0, 20.0),
    more=st.floats(1.05, 2.0),
)
def test_more_noise_never_costs_more(rate: float, steps: int, noise: float, more: float) -> None:
    less_noise, more_noise = (price(sgm(rate, s, steps), 1e-5).epsilons for s in (noise, noise * more))
    # Prices on two meshes round differently, by less than one per mille of what they say.
    assert more_noise["pld"] <= less_noise["pld"] * 1.001
    assert more_noise["rdp"] <= less_noise["rdp"]
    assert less_noise["pld"] <= less_noise["rdp"]


@settings(max_examples=4, deadline=None)
@given(rate=st.floats(0.01, 0.5), steps=st.integers(1, 100), noise=st.floats(1.0, 10.0))
def test_more_steps_and_more_people_cost_more(rate: float, steps: int, noise: float) -> None:
    base = price(sgm(rate, noise, steps), 1e-5).epsilon
    assert base is not None
    for dearer in (sgm(rate, noise, 2 * steps), sgm(2 * rate, noise, steps)):
        assert (price(dearer, 1e-5).epsilon or 0) >= base


def test_composition_is_the_sum_of_its_parts_in_any_order() -> None:
    one, other = sgm(0.1, 2.0, 10), sgm(0.05, 3.0, 20)
    forth, back = (price(ComposedDpEvent(parts), 1e-5).epsilon for parts in ([one, other], [other, one]))
    assert forth == pytest.approx(back, rel=1e-9)
    assert (forth or 0) > (price(one, 1e-5).epsilon or 0)


@pytest.mark.parametrize(
    "event",
    [
        NonPrivateDpEvent(),
        GaussianDpEvent(0.0),
        sgm(0.1, 0.0, 3),
        ComposedDpEvent([sgm(0.1, 1.0, 3), NonPrivateDpEvent()]),
    ],
)
def test_no_noise_is_no_guarantee(event: DpEvent) -> None:
    guarantee = price(event, None)
    assert (guarantee.kind, guarantee.epsilon, guarantee.delta) == ("none", None, None)
    json.dumps(guarantee.asdict(), allow_nan=False)


@pytest.mark.parametrize("event", [NoOpDpEvent(), SelfComposedDpEvent(NoOpDpEvent(), 5), ComposedDpEvent([])])
def test_touching_nothing_costs_nothing(event: DpEvent) -> None:
    assert price(event, 1e-5).epsilon == 0


def test_sampling_nobody_costs_nothing() -> None:
    assert price(sgm(0.0, 0.0, 3), 1e-5).epsilon == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (UnsupportedDpEvent(), "UnsupportedDpEvent"),
        (LaplaceDpEvent(1.0), "LaplaceDpEvent"),
        (ComposedDpEvent([NoOpDpEvent(), UnsupportedDpEvent()]), "UnsupportedDpEvent"),
        (PoissonSampledDpEvent(0.1, SelfComposedDpEvent(GaussianDpEvent(1.0), 2)), "PLD accounting"),
        (GaussianDpEvent(-1.0), "noise_multiplier"),
        (GaussianDpEvent(math.nan), "noise_multiplier"),
        (sgm(1.5, 1.0, 2), "sampling_probability"),
        (sgm(0.5, 1.0, 0), "count"),
    ],
)
def test_what_has_no_price_is_refused(event: DpEvent, word: str) -> None:
    with pytest.raises(AccountingError, match=word):
        price(event, 1e-5)


@pytest.mark.parametrize("delta", [None, 0.0, 1.0, -1.0, math.nan])
def test_delta_must_be_a_probability(delta: float | None) -> None:
    with pytest.raises(AccountingError, match="delta must be"):
        price(GaussianDpEvent(1.0), delta)


def test_unknown_adjacency_is_refused_with_the_nearest() -> None:
    with pytest.raises(AccountingError, match="did you mean 'add-or-remove-one'"):
        price(GaussianDpEvent(1.0), 1e-5, adjacency="add-remove-one")


def test_an_adjacency_without_a_theorem_is_refused() -> None:
    with pytest.raises(AccountingError, match="RDP accounting has no price under replace_one"):
        price(sgm(0.1, 1.0, 2), 1e-5, adjacency="replace-one")


def test_accountants_that_disagree_are_an_error() -> None:
    check_agreement(pld=2.0, rdp=2.2, width=1e-4)
    check_agreement(pld=2.0 + 1e-4, rdp=2.0, width=1e-4)
    with pytest.raises(AccountingError, match="disagree"):
        check_agreement(pld=2.2, rdp=2.0, width=1e-4)


def test_rounding_never_makes_renyi_prices_vanish() -> None:
    """At extreme noise some computed divergences are negative; the bound must stay above the truth."""
    event = sgm(0.18, 1e5, 300)
    assert min(RdpAccountant(range(2, 64), ADD_OR_REMOVE).compose(event).rdp) < 1e-7
    assert epsilon_rdp(event, 1e-9, ADD_OR_REMOVE) > 0


def test_a_guarantee_says_what_it_takes_for_granted() -> None:
    told = price(sgm(0.1, 2.0, 3), 1e-5).asdict()
    assert set(told) == {"kind", "epsilon", "delta", "adjacency", "accountant", "epsilons", "assumptions"}
    assert (told["kind"], told["adjacency"], told["accountant"]) == (
        "approximate-dp",
        "add-or-remove-one",
        "pld",
    )
    assert any("independently" in line for line in told["assumptions"])
    assert len(told["assumptions"]) == len(set(told["assumptions"])) == 3
    json.dumps(told, allow_nan=False)


@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.2, 3.0, 100), (0.5, 40.0, 20), (0.01, 0.8, 300)])
def test_the_mesh_costs_next_to_nothing(rate: float, noise: float, steps: int) -> None:
    event = sgm(rate, noise, steps)
    chosen = price(event, 1e-5).epsilon
    finer = epsilon_pld(event, 1e-5, ADD_OR_REMOVE, mesh(chosen or 0, steps) / 4)
    assert finer == pytest.approx(chosen, rel=5e-4)


def test_the_mesh_is_fine_for_small_epsilons_and_many_releases() -> None:
    widths = [mesh(4.0, 10), mesh(4.0, 10_000), mesh(0.04, 10_000), mesh(0.0, 1)]
    assert widths == sorted(widths, reverse=True)
    assert all(0 < width <= 4e-3 for width in widths)
