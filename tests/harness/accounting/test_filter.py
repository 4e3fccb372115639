"""The filter stops before the budget is passed, whatever is asked next."""

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
    with pytest.raises(AccountingError, match="does not admit"):
        gate.spend(STEP)
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


def test_a_filter_goes_on_from_what_was_spent() -> None:
    gate = Filter(2.0, 1e-5, STEP)
    for _ in range(7):
        gate.spend(STEP)
    again = Filter(2.0, 1e-5, STEP)
    again.load_state_dict(gate.state_dict())
    assert (
        again.remaining_uses(STEP)
        == gate.remaining_uses(STEP)
        == Filter(2.0, 1e-5, STEP).remaining_uses(STEP) - 7
    )


def test_the_order_is_fixed_beforehand() -> None:
    gate = Filter(2.0, 1e-5, STEP)
    order = gate.order
    gate.spend(GaussianDpEvent(30.0))
    assert gate.order == order
    assert Filter(0.1, 1e-5, STEP).order > order, "a small budget wants a high order"


def test_what_costs_nothing_is_always_admitted_and_what_has_no_price_never() -> None:
    gate = Filter(1.0, 1e-5, STEP)
    gate.spend(NoOpDpEvent())
    assert gate.spent == 0
    assert not gate.admits(NonPrivateDpEvent())
    with pytest.raises(AccountingError, match="no price for the event"):
        gate.admits(UnsupportedDpEvent())
    with pytest.raises(AccountingError, match="costs nothing"):
        gate.remaining_uses(NoOpDpEvent())


def test_it_speaks_of_its_own_neighbours() -> None:
    event = VonMisesFisherDpEvent(16000, 1.0)
    assert Filter(1.0, 1e-5, event, REPLACE_ONE).remaining_uses(event) > 100
    with pytest.raises(AccountingError, match="has none"):
        Filter(1.0, 1e-5, event)


@pytest.mark.parametrize(
    ("epsilon", "delta", "word"),
    [
        (0.0, 1e-5, "epsilon must be"),
        (math.inf, 1e-5, "epsilon must be"),
        (math.nan, 1e-5, "epsilon must be"),
        (1.0, 0.0, "delta must be"),
        (1e-3, 1e-9, "leaves no room"),
    ],
)
def test_an_impossible_budget_is_refused(epsilon: float, delta: float, word: str) -> None:
    event: DpEvent = STEP
    with pytest.raises(AccountingError, match=word):
        Filter(epsilon, delta, event)


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
    with pytest.raises(AccountingError, match="is not admitted"):
        allotted.spend(STEP)
    again = Allotment(0.5, 1e-5, STEP)
    again.load_state_dict({"spent": 3})
    assert again.remaining_uses(STEP) == again.uses - 3
    assert not again.admits(GaussianDpEvent(100.0)), "however little it costs"
    assert again.remaining_uses(GaussianDpEvent(100.0)) == 0


@pytest.mark.parametrize("event", [GaussianDpEvent(0.5), NonPrivateDpEvent()])
def test_an_allotment_that_does_not_pay_for_one_use_is_empty(event: DpEvent) -> None:
    assert not Allotment(0.5, 1e-5, event).admits(event)
