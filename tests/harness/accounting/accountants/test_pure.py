"""Pure epsilons: rules of composition with their known numbers."""

import math

import numpy as np
import pytest
from dp_accounting import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from hypothesis import given
from hypothesis import strategies as st

from harness.accounting import price
from harness.accounting.accountants.pure import (
    amplified,
    epsilon_pure,
    renyi_pure,
)
from methods.mechanisms.events import (
    MetricDpEvent,
    OneOfDpEvent,
    ParallelDpEvent,
    PureDpEvent,
    VonMisesFisherDpEvent,
)

ADD_OR_REMOVE, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


@pytest.mark.parametrize(("epsilon", "found"), [(2.0, 0.01622367), (10.0, 4.04978630)])
def test_amplification(epsilon: float, found: float) -> None:
    """acct_pure_metric_composition, q = 128 / 50000."""
    assert amplified(epsilon, 128 / 50000) == pytest.approx(found, abs=1e-8)


@pytest.mark.parametrize("kappa", [1.0, 5.0, 50.0])
def test_directions_on_fixed_samples(kappa: float) -> None:
    """dirdp_sgd, caveat 3: n = 50000, L = 128; amplification saves at most log(n / L) = 5.97."""
    event = SampledWithoutReplacementDpEvent(50000, 128, VonMisesFisherDpEvent(16000, kappa))
    each = epsilon_pure(event, REPLACE)
    assert each == pytest.approx({1.0: 0.01622, 5.0: 4.05, 50.0: 94.03}[kappa], rel=1e-3)
    assert 11718 * (each or 0) == pytest.approx({1.0: 190.1, 5.0: 47455, 50.0: 1101864}[kappa], rel=1e-3)
    assert epsilon_pure(event, ADD_OR_REMOVE) is None


@given(st.floats(1e-6, 600), st.floats(0, 1))
def test_amplification_is_between_nothing_and_everything(epsilon: float, rate: float) -> None:
    found = amplified(epsilon, rate)
    assert 0 <= found <= epsilon * (1 + 1e-12)
    assert found >= rate * epsilon * (1 - 1e-9), "a sample helps at most by its rate"


def test_pure_to_renyi_is_the_tight_curve() -> None:
    """acct_pure_metric_composition: eps = 2 at order 2 is log 6.524391 = 1.875548, not min(2, 4)."""
    assert renyi_pure(2.0, [2.0])[0] == pytest.approx(1.875548, abs=1e-6)
    sinh = math.sinh
    twin = math.log((sinh(3.5 * 0.3) - sinh(2.5 * 0.3)) / sinh(0.3)) / 2.5
    assert renyi_pure(0.3, [3.5])[0] == pytest.approx(twin, rel=1e-9)


@given(st.floats(1e-9, 500), st.floats(1.01, 512))
def test_pure_to_renyi_stays_within_its_bounds(epsilon: float, order: float) -> None:
    found = renyi_pure(epsilon, [order])[0]
    assert 0 <= found <= min(epsilon * (1 + 1e-9) + 1e-12, order * epsilon**2 / 2)
    assert renyi_pure(epsilon, [2 * order])[0] >= found * (1 - 1e-6) - 1e-14


def test_composition_adds_and_parts_take_the_largest() -> None:
    event = ComposedDpEvent([SelfComposedDpEvent(PureDpEvent(0.5), 4), LaplaceDpEvent(2.0)])
    assert epsilon_pure(event, ADD_OR_REMOVE) == 2.5
    assert epsilon_pure(event, REPLACE) == 3.0, "a replaced record moves a sum twice as far"
    assert epsilon_pure(ParallelDpEvent((PureDpEvent(0.5), PureDpEvent(0.7))), REPLACE) == 0.7
    assert epsilon_pure(OneOfDpEvent((PureDpEvent(0.5), PureDpEvent(0.7))), REPLACE) == 0.7
    assert epsilon_pure(ComposedDpEvent([PureDpEvent(1.0), GaussianDpEvent(1.0)]), REPLACE) is None


def test_rows_add_up_and_do_not_go_with_the_root() -> None:
    """dirdp_sgd, caveat 4: 50 rows at kappa 1 are 100 per use, not the paper's 14.1."""
    rows = SelfComposedDpEvent(VonMisesFisherDpEvent(75, 1.0), 50)
    assert epsilon_pure(rows, REPLACE) == 100


def test_a_metric_guarantee_times_the_diameter() -> None:
    sphere, angle = MetricDpEvent(1.0, 2.0), MetricDpEvent(1.0, math.pi)
    assert price(sphere, 0.0).epsilon == 2
    assert price(SelfComposedDpEvent(angle, 3), 0.0).epsilon == pytest.approx(3 * math.pi)
    assert price(sphere, 1e-5).epsilon == price(PureDpEvent(2.0), 1e-5).epsilon


def test_private_selection() -> None:
    """Papernot and Steinke 2022 give 2 + shape: 3 trials for a geometric number (Liu and Talwar 2019)."""
    trials = RepeatAndSelectDpEvent(PureDpEvent(0.5), 20, 1)
    assert epsilon_pure(trials, REPLACE) == 1.5
    assert epsilon_pure(RepeatAndSelectDpEvent(PureDpEvent(0.5), 20, np.inf), REPLACE) is None
