"""Events of a ledger: which have a price, their allowed numbers, and their expansion."""

import json
import math

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent, RepeatAndSelectDpEvent

from harness.accounting import price
from harness.accounting.ledger import (
    ASSUMPTIONS,
    assumptions,
    check_priceable,
    count_releases,
    describe,
    expand,
    is_private,
    natural_adjacency,
)
from methods.mechanisms.events import (
    MetricDpEvent,
    NoisyVotesDpEvent,
    OneOfDpEvent,
    ParallelDpEvent,
    PureDpEvent,
    SelectiveReleaseDpEvent,
    VonMisesFisherDpEvent,
)
from workloads.errors import AccountingError

EVENTS: list[DpEvent] = [
    NoOpDpEvent(),
    GaussianDpEvent(2.0),
    LaplaceDpEvent(2.0),
    MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.5, 0.5]),
    PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)),
    SampledWithoutReplacementDpEvent(100, 10, GaussianDpEvent(4.0)),
    ComposedDpEvent([GaussianDpEvent(3.0), LaplaceDpEvent(3.0)]),
    SelfComposedDpEvent(GaussianDpEvent(3.0), 2),
    ZCDpEvent(0.1),
    RepeatAndSelectDpEvent(PureDpEvent(0.5), 3, 1),
    PureDpEvent(1.0),
    MetricDpEvent(0.5, 2.0),
    VonMisesFisherDpEvent(10, 2.0),
    ParallelDpEvent((PureDpEvent(1.0), PureDpEvent(2.0))),
    OneOfDpEvent((PureDpEvent(1.0), GaussianDpEvent(2.0))),
    NoisyVotesDpEvent(((9, 1), (5, 5)), "gaussian", 4.0),
    SelectiveReleaseDpEvent(GaussianDpEvent(9.0), 1, 3),
]


def test_the_list_above_is_complete() -> None:
    kinds = {kind.__name__ for kind in ASSUMPTIONS}
    without_price = {"NonPrivateDpEvent", "ClaimedDpEvent"}
    assert {type(event).__name__ for event in EVENTS} == kinds - without_price


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_known_event_has_a_finite_price_and_states_its_assumptions(event: DpEvent) -> None:
    guarantee = price(event, 1e-5)
    assert guarantee.epsilon is not None
    assert 0 <= guarantee.epsilon < math.inf
    assert guarantee.accountant in guarantee.epsilons
    assert len(assumptions(event)) > 1 or isinstance(event, NoOpDpEvent)
    assert assumptions(event)[-1] == "the number of records is public", "masks have a fixed size"
    json.dumps(guarantee.asdict(), allow_nan=False)
    json.dumps(describe(event), allow_nan=False)


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (PureDpEvent(-1.0), "epsilon"),
        (PureDpEvent(math.nan), "epsilon"),
        (MetricDpEvent(1.0, math.inf), "diameter"),
        (VonMisesFisherDpEvent(1, 1.0), "dimension"),
        (VonMisesFisherDpEvent(3, -1.0), "kappa"),
        (LaplaceDpEvent(-1.0), "noise_multiplier"),
        (ZCDpEvent(-0.1), "rho"),
        (SampledWithoutReplacementDpEvent(10, 11, GaussianDpEvent(1.0)), "sample_size"),
        (SampledWithoutReplacementDpEvent(10, 0, GaussianDpEvent(1.0)), "sample_size"),
        (RepeatAndSelectDpEvent(GaussianDpEvent(1.0), 0.5, 1), "mean"),
        (RepeatAndSelectDpEvent(GaussianDpEvent(1.0), 5, -1), "shape"),
        (MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.6]), "sampling_probs"),
        (SelectiveReleaseDpEvent(GaussianDpEvent(1.0), 1, -1), "attempts"),
        (ParallelDpEvent((PureDpEvent(-1.0),)), "epsilon"),
    ],
)
def test_impossible_numbers_are_refused(event: DpEvent, field: str) -> None:
    with pytest.raises(AccountingError) as caught:
        check_priceable(event)
    assert caught.value.field == field
    assert f"{field} must be {caught.value.allowed}, got {caught.value.value}" in str(caught.value)


@pytest.mark.parametrize(
    "event",
    [
        LaplaceDpEvent(0.0),
        MixtureOfGaussiansDpEvent(0.0, [0.0, 1.0], [0.5, 0.5]),
        NoisyVotesDpEvent(((1, 2),), "laplace", 0.0),
        SelectiveReleaseDpEvent(GaussianDpEvent(0.0), 1, 2),
        ParallelDpEvent((GaussianDpEvent(1.0), GaussianDpEvent(0.0))),
        OneOfDpEvent((GaussianDpEvent(1.0), GaussianDpEvent(0.0))),
    ],
)
def test_without_noise_there_is_no_guarantee(event: DpEvent) -> None:
    assert not is_private(event)
    assert price(event, 1e-5).kind == "none"


def test_an_event_knows_its_neighbours() -> None:
    assert natural_adjacency(PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))) == "add-or-remove-one"
    rows = SelfComposedDpEvent(ComposedDpEvent([VonMisesFisherDpEvent(5, 1.0)]), 2)
    assert natural_adjacency(rows) == "replace-one"
    assert natural_adjacency(VonMisesFisherDpEvent(5, 1.0, per_example=False)) == "add-or-remove-one"


def test_events_expand_to_what_accountants_support() -> None:
    attempt = SelectiveReleaseDpEvent(MetricDpEvent(0.5, 2.0), 2, 5)
    assert expand(attempt) == SelfComposedDpEvent(PureDpEvent(1.0), 5)
    assert expand(attempt, "paper") == SelfComposedDpEvent(PureDpEvent(1.0), 2)
    assert expand(SelectiveReleaseDpEvent(PureDpEvent(1.0), 0, 0)) == NoOpDpEvent()
    votes = NoisyVotesDpEvent(((9, 1), (5, 5)), "laplace", 4.0)
    assert expand(PoissonSampledDpEvent(0.5, votes)) == PoissonSampledDpEvent(
        0.5, SelfComposedDpEvent(LaplaceDpEvent(4.0), 4)
    )
    assert expand(GaussianDpEvent(1.0)) == GaussianDpEvent(1.0)


def test_releases_are_counted() -> None:
    event = ComposedDpEvent([SelfComposedDpEvent(PureDpEvent(1.0), 3), NoOpDpEvent(), ZCDpEvent(1.0)])
    assert count_releases(event) == 4
    assert count_releases(ParallelDpEvent((event, PureDpEvent(1.0)))) == 4
    assert count_releases(OneOfDpEvent((event, PureDpEvent(1.0)))) == 4
