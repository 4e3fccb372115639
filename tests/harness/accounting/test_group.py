"""Group privacy: the conversion of epsilon, and the tighter price of a group's event."""

import math

import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)

from harness.accounting import price
from harness.accounting.group import group_delta, group_event
from methods.mechanisms.events import PureDpEvent
from workloads.errors import AccountingError


@pytest.mark.parametrize(
    ("size", "epsilon", "delta", "exact"),
    [  # group_privacy
        (2, 1, 1e-5, 3.7182818e-05),
        (5, 1, 1e-5, 8.5791025e-04),
        (10, 0.5, 1e-6, 2.27237e-4),
    ],
)
def test_known_deltas(size: int, epsilon: float, delta: float, exact: float) -> None:
    assert group_delta(epsilon, delta, size) == pytest.approx(exact, rel=1e-5)
    assert group_delta(epsilon, delta, 1) == pytest.approx(delta)


def test_huge_groups_have_no_guarantee() -> None:
    assert group_delta(100.0, 1e-5, 50) == 1
    assert group_delta(100.0, 0.0, 50) == 0


def test_a_group_of_a_gaussian_is_a_gaussian_with_less_noise() -> None:
    event = SelfComposedDpEvent(GaussianDpEvent(8.0), 4)
    tight = price(group_event(event, 4), 1e-5).epsilon
    assert tight == pytest.approx(price(GaussianDpEvent(1.0), 1e-5).epsilon, rel=1e-9)


@pytest.mark.slow
def test_a_group_in_poisson_samples_costs_more_than_one_and_less_than_black_box() -> None:
    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.02, GaussianDpEvent(2.0)), 20)
    one, pair = price(event, 1e-5), price(group_event(event, 2), 1e-5)
    assert (one.epsilon or 0) < (pair.epsilon or 0)
    assert pair.epsilons.keys() == {"pld", "rdp", "rdp_classic"}
    generic = price(event, 1e-7).epsilon or 0
    assert group_delta(generic, 1e-7, 2) < 1e-5
    assert (pair.epsilon or 0) < 2 * generic


def test_other_events_for_groups() -> None:
    found = group_event(ComposedDpEvent([LaplaceDpEvent(3.0), PureDpEvent(0.5), NoOpDpEvent()]), 3)
    assert found == ComposedDpEvent([LaplaceDpEvent(1.0), PureDpEvent(1.5), NoOpDpEvent()])
    assert math.isclose(price(found, 0.0).epsilon or 0, 2.5)
    with pytest.raises(AccountingError) as caught:
        group_event(ZCDpEvent(1.0), 2)
    assert (caught.value.field, caught.value.value) == ("event", "ZCDpEvent")
    with pytest.raises(AccountingError) as caught:
        group_event(PureDpEvent(1.0), 0)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("size", 0, 1)
