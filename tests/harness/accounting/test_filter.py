"""The filter stops before the budget is exceeded, whatever event comes next."""

import math

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    UnsupportedDpEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.accounting import Allotment, Filter, check, price
from harness.accounting.adjacency import REPLACE_ONE
from methods.mechanisms.events import VonMisesFisherDpEvent
from workloads.errors import AccountingError

STEP = PoissonSampledDpEvent(0.05, GaussianDpEvent(2.0))


def test_it_admits_until_the_next_step_would_pass_the_budget() -> None:
    gate = Filter(2.0, 1e-5, STEP)
    room = gate.remaining_uses(STEP)
    for _ in range(room):
        gate.spend(STEP)
    assert not gate.admits(STEP)
    with pytest.raises(AccountingError) as caught:
        gate.spend(STEP)
    error = caught.value
    assert (error.field, error.value, error.allowed) == ("spent", gate.spent, gate.allowed)
    spent = price(SelfComposedDpEvent(STEP, room), 1e-5)
    check(spent, 2.0)
    assert spent.epsilons["rdp"] == pytest.approx(2.0, rel=0.01), "little is left unused"
    assert price(SelfComposedDpEvent(STEP, room + 1), 1e-5).epsilons["rdp"] > 2.0


@settings(max_examples=4, deadline=None)
@given(noises=st.lists(st.floats(4.0, 40.0), min_size=1, max_size=8))
def test_whatever_was_admitted_costs_at_most_the_budget(noises: list[float]) -> None:
    gate, done = Filter(1.0, 1e-5, GaussianDpEvent(10.0)), []
    for noise in noises:
        event = GaussianDpEvent(noise)
        if gate.admits(event):
            gate.spend(event)
            done.append(event)
    if done:
        check(price(ComposedDpEvent(done), 1e-5), 1.0)


def test_a_filter_resumes_from_what_was_spent() -> None:
    gate = Filter(2.0, 1e-5, STEP)
    for _ in range(7):
        gate.spend(STEP)
    resumed = Filter(2.0, 1e-5, STEP)
    resumed.load_state_dict(gate.state_dict())
    assert (
        resumed.remaining_uses(STEP)
        == gate.remaining_uses(STEP)
        == Filter(2.0, 1e-5, STEP).remaining_uses(STEP) - 7
    )


def test_the_order_is_fixed_in_advance() -> None:
    gate = Filter(2.0, 1e-5, STEP)
    order = gate.order
    gate.spend(GaussianDpEvent(30.0))
    assert gate.order == order
    assert Filter(0.1, 1e-5, STEP).order > order, "a small budget wants a high order"


def test_free_events_are_always_admitted_and_unpriced_ones_never() -> None:
    gate = Filter(1.0, 1e-5, STEP)
    gate.spend(NoOpDpEvent())
    assert gate.spent == 0
    assert not gate.admits(NonPrivateDpEvent())
    with pytest.raises(AccountingError) as caught:
        gate.admits(UnsupportedDpEvent())
    assert (caught.value.field, caught.value.value) == ("event", "UnsupportedDpEvent")
    with pytest.raises(AccountingError) as caught:
        gate.remaining_uses(NoOpDpEvent())
    assert (caught.value.field, caught.value.value) == ("cost", 0)


def test_it_has_its_own_adjacency() -> None:
    event = VonMisesFisherDpEvent(16000, 1.0)
    assert Filter(1.0, 1e-5, event, REPLACE_ONE).remaining_uses(event) > 100
    with pytest.raises(AccountingError) as caught:
        Filter(1.0, 1e-5, event)
    assert caught.value.field == "adjacency"


@pytest.mark.parametrize(
    ("epsilon", "delta", "field"),
    [
        (0.0, 1e-5, "epsilon"),
        (math.inf, 1e-5, "epsilon"),
        (math.nan, 1e-5, "epsilon"),
        (1.0, 0.0, "delta"),
        (1e-3, 1e-9, "budget"),
    ],
)
def test_an_impossible_budget_is_refused(epsilon: float, delta: float, field: str) -> None:
    event: DpEvent = STEP
    with pytest.raises(AccountingError) as caught:
        Filter(epsilon, delta, event)
    assert caught.value.field == field


def test_an_allotment_is_all_that_the_tight_price_allows() -> None:
    allotted = Allotment(2.0, 1e-5, STEP)
    most = allotted.remaining_uses(STEP)
    check(price(SelfComposedDpEvent(STEP, most), 1e-5), 2.0)
    over = price(SelfComposedDpEvent(STEP, most + max(1, most // 200)), 1e-5).epsilon
    assert over is not None and over > 2.0, "half a per cent more would be too many"
    assert most > Filter(2.0, 1e-5, STEP).remaining_uses(STEP)


def test_an_allotment_ends_and_admits_nothing_else() -> None:
    allotted = Allotment(0.5, 1e-5, STEP)
    while allotted.admits(STEP):
        allotted.spend(STEP)
    assert allotted.spent == allotted.uses
    with pytest.raises(AccountingError) as caught:
        allotted.spend(STEP)
    assert (caught.value.value, caught.value.allowed) == (allotted.uses, allotted.uses)
    resumed = Allotment(0.5, 1e-5, STEP)
    resumed.load_state_dict({"spent": 3})
    assert resumed.remaining_uses(STEP) == resumed.uses - 3
    assert not resumed.admits(GaussianDpEvent(100.0)), "however little it costs"
    assert resumed.remaining_uses(GaussianDpEvent(100.0)) == 0


@pytest.mark.parametrize("event", [GaussianDpEvent(0.5), NonPrivateDpEvent()])
def test_an_allotment_that_does_not_pay_for_one_use_is_empty(event: DpEvent) -> None:
    assert not Allotment(0.5, 1e-5, event).admits(event)
