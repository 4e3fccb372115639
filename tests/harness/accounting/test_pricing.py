"""Prices against published and closed-form numbers, at their limits, and refusals."""

import json
import math

import numpy as np
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
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    UnsupportedDpEvent,
    ZCDpEvent,
)
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

from harness.accounting import price, pricing
from harness.accounting.accountants.pld import epsilon_pld, mesh
from harness.accounting.accountants.prv import Estimate
from harness.accounting.accountants.rdp import (
    ORDERS,
    divergences,
    epsilon_proved,
    epsilon_rdp,
    has_exact_divergences,
)
from harness.accounting.adjacency import find_relation
from harness.accounting.ledger import natural_adjacency
from harness.accounting.pricing import check_agreement, check_opinion
from methods.mechanisms.events import ParallelDpEvent, PureDpEvent, VonMisesFisherDpEvent
from workloads.errors import AccountingError

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE


def sgm(rate: float, noise: float, steps: int) -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps)


@pytest.mark.parametrize(
    ("members", "batch", "noise", "steps", "rdp", "classic", "pld"),
    [  # dp_sgd_eps_1e-5 of the specification
        (60000, 256, 1.1, 14062, 2.5966, 3.0083, 2.3817),
        (60000, 512, 1.23, 4687, 2.5808, 2.9946, 2.3633),
        (60000, 2048, 2.15, 1171, 2.6043, 3.0171, 2.3884),
        (50000, 1024, 1.54, 1464, 2.6083, 3.0267, 2.3863),
        (60000, 600, 4.0, 10000, 1.0355, 1.2586, 0.9470),
        (60000, 256, 1.3, 3515, 0.954, 1.192, 0.864),
    ],
)
def test_dp_sgd_has_its_known_price(
    members: int, batch: int, noise: float, steps: int, rdp: float, classic: float, pld: float
) -> None:
    guarantee = price(sgm(batch / members, noise, steps), 1e-5)
    digits = 1.5e-4 if pld != 0.864 else 6e-4
    stated = dict(guarantee.epsilons)
    prv = stated.pop("prv")
    assert stated == pytest.approx({"rdp": rdp, "rdp_classic": classic, "pld": pld}, abs=digits)
    assert guarantee.epsilon == guarantee.epsilons["pld"]
    assert pld <= prv <= pld + 0.0125, "PRV gives the upper end of its interval, 0.01 above the middle"


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
def test_one_gaussian_costs_its_closed_form(noise: float, epsilon: float) -> None:
    assert exact_gaussian_epsilon(noise, 1e-5) == pytest.approx(epsilon, abs=1e-6)
    found = price(GaussianDpEvent(noise), 1e-5).epsilon
    assert found == pytest.approx(epsilon, rel=2e-4)
    assert found is not None
    assert found >= epsilon - 1e-6, "an upper bound"


def test_many_gaussians_cost_what_one_with_less_noise_does() -> None:
    found = price(SelfComposedDpEvent(GaussianDpEvent(20.0), 100), 1e-5).epsilon
    assert found == pytest.approx(exact_gaussian_epsilon(2.0, 1e-5), rel=2e-4)


def test_sampling_every_record_is_not_sampling() -> None:
    sampled = price(sgm(1.0, 5.0, 10), 1e-5).epsilon
    assert sampled == pytest.approx(
        price(SelfComposedDpEvent(GaussianDpEvent(5.0), 10), 1e-5).epsilon, rel=1e-3
    )


@pytest.mark.slow
@settings(max_examples=7, deadline=None)
@given(
    rate=st.floats(0.01, 1.0),
    steps=st.integers(1, 200),
    noise=st.floats(1.0, 20.0),
    more=st.floats(1.05, 2.0),
)
def test_more_noise_never_costs_more(rate: float, steps: int, noise: float, more: float) -> None:
    less_noise, more_noise = (price(sgm(rate, s, steps), 1e-5).epsilons for s in (noise, noise * more))
    # Prices on two meshes round differently, by less than one per mille.
    assert more_noise["pld"] <= less_noise["pld"] * 1.001
    assert more_noise["rdp"] <= less_noise["rdp"]
    assert less_noise["pld"] <= less_noise["rdp"]


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(rate=st.floats(0.01, 0.5), steps=st.integers(1, 100), noise=st.floats(1.0, 10.0))
def test_more_steps_and_larger_samples_cost_more(rate: float, steps: int, noise: float) -> None:
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


def test_sampling_no_record_costs_nothing() -> None:
    assert price(sgm(0.0, 0.0, 3), 1e-5).epsilon == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize(
    ("event", "field", "value"),
    [
        (UnsupportedDpEvent(), "event", "UnsupportedDpEvent"),
        (RandomizedResponseDpEvent(0.5, 2), "event", "RandomizedResponseDpEvent"),
        (ComposedDpEvent([NoOpDpEvent(), UnsupportedDpEvent()]), "event", "UnsupportedDpEvent"),
        (
            PoissonSampledDpEvent(0.1, RepeatAndSelectDpEvent(GaussianDpEvent(1.0), 3, 1)),
            "adjacency",
            "add_or_remove_one",
        ),
        (PoissonSampledDpEvent(0.1, ZCDpEvent(1.0)), "adjacency", "add_or_remove_one"),
        (GaussianDpEvent(-1.0), "noise_multiplier", -1.0),
        (GaussianDpEvent(math.inf), "noise_multiplier", math.inf),
        (sgm(1.5, 1.0, 2), "sampling_probability", 1.5),
        (sgm(0.5, 1.0, 0), "count", 0),
    ],
)
def test_unpriced_events_are_refused(event: DpEvent, field: str, value: object) -> None:
    with pytest.raises(AccountingError) as caught:
        price(event, 1e-5)
    assert (caught.value.field, caught.value.value) == (field, value)


def test_noise_that_is_no_number_is_refused() -> None:
    with pytest.raises(AccountingError) as caught:
        price(GaussianDpEvent(math.nan), 1e-5)
    assert caught.value.field == "noise_multiplier"


@pytest.mark.parametrize("delta", [None, 0.0, 1.0, -1.0, math.nan])
def test_delta_must_be_a_probability(delta: float | None) -> None:
    with pytest.raises(AccountingError) as caught:
        price(GaussianDpEvent(1.0), delta)
    assert (caught.value.field, caught.value.allowed) == ("delta", (0, 1))


def test_unknown_adjacency_is_refused_with_the_nearest() -> None:
    with pytest.raises(AccountingError, match="did you mean 'add-or-remove-one'"):
        price(GaussianDpEvent(1.0), 1e-5, adjacency="add-remove-one")


def test_an_adjacency_without_a_theorem_is_refused() -> None:
    with pytest.raises(AccountingError) as caught:
        price(sgm(0.1, 1.0, 2), 1e-5, adjacency="replace-one")
    assert (caught.value.field, caught.value.value) == ("adjacency", "replace_one")


def test_accountants_that_disagree_are_an_error() -> None:
    check_agreement(pld=2.0, rdp=2.2, proved=1.5, width=1e-4)
    check_agreement(pld=2.0 + 1e-4, rdp=2.0, proved=2.0, width=1e-4)
    for pld, proved in ((2.2, 1.0), (1.4, 1.5)):
        with pytest.raises(AccountingError) as caught:
            check_agreement(pld=pld, rdp=2.0, proved=proved, width=1e-4)
        error = caught.value
        assert (error.field, error.value, error.allowed) == ("pld", pld, (proved, 2.0))


# Compositions that have a PLD and exact Rényi divergences, and how low a PLD is noticed: PRV knows Gaussians.
MIXED = {
    "two samples": (SelfComposedDpEvent(ComposedDpEvent([sgm(0.1, 2.0, 1), sgm(0.02, 1.3, 1)]), 100), 0.97),
    "a normalisation": (ComposedDpEvent([sgm(0.3, 3.0, 50), GaussianDpEvent(8.0)]), 0.97),
    "directions": (SelfComposedDpEvent(VonMisesFisherDpEvent(300, 2.0), 50), 0.25),
    "noisy counts": (SelfComposedDpEvent(LaplaceDpEvent(10.0), 100), 0.25),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("tampered", ["pld high", "pld low", "rdp low"])
def test_a_tampered_accountant_is_detected_on_either_side(
    name: str, tampered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event, noticed = MIXED[name]
    factor = {"pld high": 1.3, "pld low": noticed, "rdp low": 0.7}[tampered]
    honest = price(event, 1e-5).epsilons
    if tampered.startswith("pld"):
        monkeypatch.setattr(pricing, "epsilon_pld", lambda *_: factor * honest["pld"])
    else:
        monkeypatch.setattr(pricing, "divergences", lambda *given: factor * divergences(*given))
    with pytest.raises(AccountingError) as caught:
        price(event, 1e-5)
    assert caught.value.field == "pld"


@settings(max_examples=40, deadline=None)
@given(noise=st.floats(0.3, 60), uses=st.integers(1, 2000), exponent=st.integers(1, 12))
def test_what_renyi_divergences_prove_is_never_above_the_truth(
    noise: float, uses: int, exponent: int
) -> None:
    """Gaussians, whose delta at an epsilon is known in closed form (Balle and Wang 2018)."""
    mu, delta = math.sqrt(uses) / noise, 10.0**-exponent
    curve = divergences(SelfComposedDpEvent(GaussianDpEvent(noise), uses), ADD_OR_REMOVE)
    proved = epsilon_proved(ORDERS, curve, delta)
    with np.errstate(over="ignore", invalid="ignore"):
        log_other = proved + norm.logcdf(-proved / mu - mu / 2)
    true = norm.cdf(-proved / mu + mu / 2) - math.exp(log_other)
    assert proved == 0 or true >= delta * (1 - 1e-6)


@pytest.mark.slow
def test_what_renyi_divergences_prove_is_no_small_share() -> None:
    for event, _ in MIXED.values():
        relation = find_relation(natural_adjacency(event))
        proved = epsilon_proved(ORDERS, divergences(event, relation), 1e-5)
        epsilon = price(event, 1e-5).epsilon or 0
        assert 0.25 * epsilon < proved < epsilon


def test_bounds_on_divergences_prove_nothing() -> None:
    fixed = SampledWithoutReplacementDpEvent(1000, 100, GaussianDpEvent(2.0))
    assert not has_exact_divergences(SelfComposedDpEvent(fixed, 10), NeighboringRelation.REPLACE_ONE)
    sampled = PoissonSampledDpEvent(0.1, PureDpEvent(1.0))
    assert not has_exact_divergences(sampled, ADD_OR_REMOVE)


def test_no_price_is_given_on_which_the_accountants_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 20)
    rdp = price(event, 1e-5).epsilons["rdp"]
    monkeypatch.setattr("harness.accounting.pricing.epsilon_pld", lambda *_: 1.1 * rdp)
    with pytest.raises(AccountingError) as caught:
        price(event, 1e-5)
    assert (caught.value.field, caught.value.value) == ("pld", 1.1 * rdp)


def test_a_third_opinion_that_disagrees_is_an_error() -> None:
    opinion = Estimate(lower=1.9, middle=2.0, upper=2.1)
    for epsilon in (1.9, 2.0, 2.1):
        check_opinion(epsilon, opinion, width=1e-4)
    for epsilon in (1.89, 2.13):
        with pytest.raises(AccountingError) as caught:
            check_opinion(epsilon, opinion, width=1e-4)
        assert (caught.value.value, caught.value.allowed) == (epsilon, (1.9, 2.1))


@pytest.mark.parametrize(
    "event",
    [
        PoissonSampledDpEvent(0.1, SelfComposedDpEvent(GaussianDpEvent(2.0), 2)),
        ZCDpEvent(0.1),
        ComposedDpEvent([ZCDpEvent(0.1), GaussianDpEvent(3.0)]),
        RepeatAndSelectDpEvent(GaussianDpEvent(3.0), 10, 1),
        ParallelDpEvent((GaussianDpEvent(3.0), GaussianDpEvent(2.0))),
    ],
)
def test_without_known_losses_the_renyi_price_is_the_named_headline(event: DpEvent) -> None:
    guarantee = price(event, 1e-5)
    assert guarantee.accountant == "rdp"
    assert guarantee.epsilon == guarantee.epsilons["rdp"]
    assert "pld" not in guarantee.epsilons


def test_concentrated_dp_costs_what_a_gaussian_with_the_same_curve_does() -> None:
    assert price(ZCDpEvent(1 / 8), 1e-5).epsilon == pytest.approx(
        price(GaussianDpEvent(2.0), 1e-5).epsilons["rdp"], rel=1e-9
    )


def test_disjoint_parts_cost_as_much_as_the_most_expensive() -> None:
    cheap, dear = GaussianDpEvent(4.0), GaussianDpEvent(2.0)
    parts = price(ParallelDpEvent((cheap, dear)), 1e-5)
    assert parts.epsilon == pytest.approx(price(dear, 1e-5).epsilons["rdp"], rel=1e-9)
    equal = price(ParallelDpEvent((dear, dear, dear)), 1e-5)
    assert equal.epsilon == price(dear, 1e-5).epsilon


def test_replacing_a_record_moves_a_sum_twice_as_far_as_removing_it() -> None:
    """dp-accounting's RDP omits the factor; both accountants must include it."""
    replaced = price(GaussianDpEvent(4.0), 1e-5, "replace-one").epsilons
    removed = price(GaussianDpEvent(2.0), 1e-5).epsilons
    assert {name: replaced[name] for name in ("pld", "rdp")} == pytest.approx(
        {name: removed[name] for name in ("pld", "rdp")}, rel=1e-9
    )
    fixed = price(SampledWithoutReplacementDpEvent(100, 100, GaussianDpEvent(4.0)), 1e-5)
    assert fixed.adjacency == "replace-one"
    nested = SampledWithoutReplacementDpEvent(100, 100, SelfComposedDpEvent(GaussianDpEvent(8.0), 4))
    assert price(nested, 1e-5).epsilons["rdp"] == pytest.approx(removed["rdp"], rel=1e-9)
    assert fixed.epsilon == pytest.approx(removed["pld"], rel=1e-3)
    assert price(LaplaceDpEvent(4.0), 1e-5, "replace-one").epsilon == pytest.approx(
        price(LaplaceDpEvent(2.0), 1e-5).epsilon, rel=1e-6
    )


def test_delta_0_requests_a_pure_price() -> None:
    guarantee = price(ComposedDpEvent([LaplaceDpEvent(4.0), PureDpEvent(0.5)]), 0.0)
    assert (guarantee.kind, guarantee.epsilon, guarantee.delta) == ("pure-dp", 0.75, 0.0)
    assert guarantee.accountant == "pure"


def test_private_selection_costs_more_than_one_trial_and_less_than_all() -> None:
    """Papernot and Steinke 2022: the best of a geometric number of runs, ten on average."""
    one = price(GaussianDpEvent(3.0), 1e-5)
    best = price(RepeatAndSelectDpEvent(GaussianDpEvent(3.0), 10, 1), 1e-5)
    every = price(SelfComposedDpEvent(GaussianDpEvent(3.0), 10), 1e-5)
    assert one.epsilons["rdp"] < (best.epsilon or 0) < 3 * one.epsilons["rdp"]
    assert (best.epsilon or 0) < every.epsilons["rdp"]


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_composition_is_associative_and_ignores_order(data: st.DataObject) -> None:
    pool: list[DpEvent] = [
        sgm(0.5, 4.0, 2),
        GaussianDpEvent(5.0),
        LaplaceDpEvent(4.0),
        PureDpEvent(0.2),
        SelfComposedDpEvent(LaplaceDpEvent(9.0), 3),
    ]
    one, two, three = data.draw(st.permutations(pool))[:3]
    flat = price(ComposedDpEvent([one, two, three]), 1e-5).epsilons
    for other in (
        ComposedDpEvent([three, one, two]),
        ComposedDpEvent([one, ComposedDpEvent([two, three])]),
        ComposedDpEvent([ComposedDpEvent([one, two]), three]),
    ):
        assert price(other, 1e-5).epsilons == pytest.approx(flat, rel=1e-6)


def test_rounding_never_makes_renyi_prices_vanish() -> None:
    """At extreme noise some computed divergences are negative; the bound must stay above the truth."""
    event = sgm(0.18, 1e5, 300)
    assert min(RdpAccountant(range(2, 64), ADD_OR_REMOVE).compose(event).rdp) < 1e-7
    assert epsilon_rdp(event, 1e-9, ADD_OR_REMOVE) > 0


def test_a_guarantee_states_its_assumptions() -> None:
    stated = price(sgm(0.1, 2.0, 3), 1e-5).asdict()
    assert set(stated) == {
        *("kind", "epsilon", "delta", "adjacency", "accountant", "epsilons"),
        *("assumptions", "lower_bounds"),
    }
    assert (stated["kind"], stated["adjacency"], stated["accountant"]) == (
        "approximate-dp",
        "add-or-remove-one",
        "pld",
    )
    assert any("independently" in line for line in stated["assumptions"])
    assert len(stated["assumptions"]) == len(set(stated["assumptions"])) == 4
    json.dumps(stated, allow_nan=False)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.2, 3.0, 100), (0.5, 40.0, 20), (0.01, 0.8, 300)])
def test_the_mesh_costs_little(rate: float, noise: float, steps: int) -> None:
    event = sgm(rate, noise, steps)
    chosen = price(event, 1e-5).epsilon
    finer = epsilon_pld(event, 1e-5, ADD_OR_REMOVE, mesh(chosen or 0, steps) / 4)
    assert finer == pytest.approx(chosen, rel=5e-4)


def test_the_mesh_is_fine_for_small_epsilons_and_many_releases() -> None:
    widths = [mesh(4.0, 10), mesh(4.0, 10_000), mesh(0.04, 10_000), mesh(0.0, 1)]
    assert widths == sorted(widths, reverse=True)
    assert all(0 < width <= 4e-3 for width in widths)
