"""Groups of records: the sums, and events of their own that are tighter."""

import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from hypothesis import given
from hypothesis import strategies as st

from harness.accounting import price
from harness.accounting.accountants.rdp import ORDERS, convert, divergences
from harness.accounting.group import group_delta, group_delta_textbook, group_event, group_renyi
from methods.mechanisms.events import PureDpEvent
from workloads.errors import AccountingError


@pytest.mark.parametrize(
    ("size", "epsilon", "delta", "textbook", "exact"),
    [  # group_privacy
        (2, 1, 1e-5, 5.4365637e-05, 3.7182818e-05),
        (5, 1, 1e-5, 2.7299075e-03, 8.5791025e-04),
        (10, 0.5, 1e-6, 9.00171e-4, 2.27237e-4),
    ],
)
def test_known_deltas(size: int, epsilon: float, delta: float, textbook: float, exact: float) -> None:
    assert group_delta_textbook(epsilon, delta, size) == pytest.approx(textbook, rel=1e-5)
    assert group_delta(epsilon, delta, size) == pytest.approx(exact, rel=1e-5)


@given(st.integers(1, 50), st.floats(0, 3), st.floats(0, 1e-3))
def test_the_textbook_is_never_below_the_sum(size: int, epsilon: float, delta: float) -> None:
    assert group_delta(epsilon, delta, size) <= group_delta_textbook(epsilon, delta, size) * (1 + 1e-9)
    assert group_delta(epsilon, delta, 1) == pytest.approx(delta)


def test_huge_groups_are_promised_nothing() -> None:
    assert group_delta(100.0, 1e-5, 50) == group_delta_textbook(100.0, 1e-5, 50) == 1
    assert group_delta(100.0, 0.0, 50) == group_delta_textbook(100.0, 0.0, 50) == 0


def test_renyi_for_groups() -> None:
    orders, found = group_renyi([3.0, 4.0, 8.0], np.array([1.0, 2.0, 3.0]), 1)
    assert orders.tolist() == [2.0, 4.0]
    assert found.tolist() == [6.0, 9.0]


def test_a_group_of_a_gaussian_is_a_gaussian_with_less_noise() -> None:
    event = SelfComposedDpEvent(GaussianDpEvent(8.0), 4)
    tight = price(group_event(event, 4), 1e-5).epsilon
    assert tight == pytest.approx(price(GaussianDpEvent(1.0), 1e-5).epsilon, rel=1e-9)
    orders, found = group_renyi(ORDERS, divergences(event, NeighboringRelation.ADD_OR_REMOVE_ONE), 2)
    assert (tight or 0) < convert(list(orders), found, 1e-5), "tighter than the generic rule"


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
    with pytest.raises(AccountingError, match="no group price"):
        group_event(ZCDpEvent(1.0), 2)
    with pytest.raises(AccountingError, match="at least 1 record, got 0"):
        group_event(PureDpEvent(1.0), 0)
