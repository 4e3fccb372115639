"""Ceilings on attacks: known values, a closed form, and the likelihood-ratio attack itself."""

import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from scipy.stats import norm

from harness.accounting import Guarantee, price, tpr_ceiling, tpr_ceilings
from harness.accounting.ceilings import curve_of_epsilon, curve_of_gaussian
from harness.accounting.tradeoff import inverse_variance
from methods.mechanisms.events import PureDpEvent, VonMisesFisherDpEvent
from workloads.errors import AccountingError


@pytest.mark.parametrize(("epsilon", "tpr"), [(1, 2.82e-4), (2, 7.49e-4), (4, 5.47e-3), (8, 0.298)])
def test_known_ceilings(epsilon: float, tpr: float) -> None:
    """attack_loss_threshold: delta = 1e-5, TPR at FPR 1e-4."""
    promise = Guarantee("approximate-dp", epsilon, 1e-5, "add-or-remove-one", "pld")
    found = tpr_ceiling(promise, 1e-4)
    assert found.basis == "epsilon-delta"
    assert found.tpr == pytest.approx(tpr, rel=2e-3)


def test_a_gaussian_is_exact() -> None:
    """trials: mu = 0.244 allows 1.87 % at 1 %."""
    found = tpr_ceiling(GaussianDpEvent(1 / 0.244), 0.01)
    assert found.basis == "gaussian"
    assert found.tpr == pytest.approx(0.0187, abs=5e-5)
    many = ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(4.0), 3), GaussianDpEvent(4.0)])
    assert inverse_variance(many) == pytest.approx(1 / 4)
    assert tpr_ceiling(many, 0.01).tpr == pytest.approx(float(curve_of_gaussian(0.5)(0.01)))
    assert tpr_ceiling(GaussianDpEvent(4.0), 0.01, "replace-one").tpr == pytest.approx(
        float(curve_of_gaussian(0.5)(0.01))
    )


@pytest.mark.slow
def test_the_curve_is_met_by_the_best_attack_on_a_sampled_gaussian() -> None:
    """Thresholding the likelihood ratio of one release is optimal, and reaches the ceiling."""
    rate, noise = 0.3, 1.0
    event = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    for fpr in (0.01, 0.1, 0.5):
        cut = norm.isf(fpr, 0, noise)
        attained = (1 - rate) * fpr + rate * float(norm.sf(cut, 1, noise))
        found = tpr_ceiling(event, fpr)
        assert found.basis == "pld"
        # Slightly above: the curve covers adding a record as well as removing one.
        assert attained - 1e-9 <= found.tpr <= attained * 1.03


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_a_pure_guarantee_has_the_curve_of_its_epsilon(epsilon: float) -> None:
    for fpr in (0.001, 0.1, 0.6):
        assert tpr_ceiling(PureDpEvent(epsilon), fpr).tpr == pytest.approx(
            float(curve_of_epsilon(epsilon, 0.0)(fpr)), rel=5e-3
        )


@pytest.mark.parametrize(
    "event",
    [
        SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 20),
        SelfComposedDpEvent(VonMisesFisherDpEvent(1000, 5.0), 3),
        SelfComposedDpEvent(LaplaceDpEvent(5.0), 4),
    ],
)
def test_the_whole_curve_is_below_each_of_its_points(event: SelfComposedDpEvent) -> None:
    fprs = [0.0, 1e-4, 0.01, 0.1, 0.5, 1.0]
    found = [each.tpr for each in tpr_ceilings(event, fprs)]
    for delta in (1e-6, 1e-3):
        promise = price(event, delta)
        points = [tpr_ceiling(promise, fpr).tpr for fpr in fprs]
        assert all(curve <= point * 1.001 + 1e-6 for curve, point in zip(found, points, strict=True))
    assert found == sorted(found)
    assert all(tpr >= fpr - 1e-9 for tpr, fpr in zip(found, fprs, strict=True))
    assert found[-1] == pytest.approx(1)


def test_losses_beyond_a_double_bound_an_attack_by_how_rarely_a_record_is_used() -> None:
    """One release gives its records away: the best attack misses only those that were never drawn."""
    batch, steps, records = 128, 1000, 30000
    rows = SelfComposedDpEvent(VonMisesFisherDpEvent(5, 1.0, per_example=True), 1500)
    event = SelfComposedDpEvent(SampledWithoutReplacementDpEvent(records, batch, rows), steps)
    found = tpr_ceiling(event, 1e-4)
    drawn = 1 - (1 - batch / records) ** steps
    assert found.basis == "pld"
    assert found.tpr == pytest.approx(drawn + 1e-4, abs=1e-5)


def test_without_a_guarantee_there_is_no_ceiling() -> None:
    assert tpr_ceiling(NonPrivateDpEvent(), 0.01).tpr == 1
    assert tpr_ceiling(price(NonPrivateDpEvent(), None), 0.01).tpr == 1


def test_events_without_a_curve_and_wrong_rates_are_refused() -> None:
    with pytest.raises(AccountingError) as caught:
        tpr_ceiling(ZCDpEvent(0.1), 0.01)
    assert (caught.value.field, caught.value.value) == ("event", "ZCDpEvent")
    with pytest.raises(AccountingError) as caught:
        tpr_ceiling(GaussianDpEvent(1.0), 1.5)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("fpr", 1.5, (0, 1))
