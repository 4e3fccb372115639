"""The population attack is the loss attack with a calibrated scale."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from harness.attacks.base import Bools, Evidence, Floats
from harness.attacks.loss import Loss, LossParams
from harness.attacks.population import Population, PopulationParams, calibrated_rank
from harness.leakage.figures import evaluate
from workloads.errors import BenchError

LOSSES = hnp.arrays(
    np.float64, st.integers(1, 30), elements=st.floats(0, 1e3) | st.sampled_from([0.0, 0.1, 1e-300])
)


@given(LOSSES, LOSSES)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_rank_is_strictly_increasing_in_the_loss(losses: Floats, population: Floats) -> None:
    rank = calibrated_rank(losses, population)
    order = np.argsort(losses, kind="stable")
    apart = np.diff(losses[order]) > 0
    np.testing.assert_array_equal(np.diff(rank[order]) > 0, apart)
    assert ((rank >= 0) & (rank <= 1)).all()


def test_rank_is_the_mid_rank_at_population_losses() -> None:
    population = np.array([1.0, 2.0, 2.0, 4.0])
    rank = calibrated_rank(np.array([1.0, 2.0, 3.0, 4.0, 0.5, 9.0]), population)
    np.testing.assert_allclose(rank, [0.2, 0.5, 0.65, 0.8, 0.1, 0.9])


def test_threshold_gives_the_requested_false_positive_rate(from_phi: Callable[..., Evidence]) -> None:
    random = np.random.default_rng(0)
    evidence = from_phi(
        random.standard_normal((2, 4000)),
        random.random((2, 4000)) < 0.5,
        population=random.standard_normal((2, 4000)),
    )
    scores = Population().scores(evidence, PopulationParams())
    for rate in (0.5, 0.1, 0.01):
        deviation = np.sqrt(2 * rate * (1 - rate) / 4000)  # of both samples
        assert abs((scores > -rate).mean() - rate) < 4 * deviation


def test_auc_equals_that_of_the_loss_attack_exactly(
    from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    random = np.random.default_rng(1)
    members = masks(random, 4, 500, 250)
    phi = np.round(random.standard_normal((4, 500)) * 30 + 20 + members, 1)  # with ties
    evidence = from_phi(phi, members, population=np.round(random.standard_normal((4, 50)) * 30, 1))
    scores = Population().scores(evidence, PopulationParams())
    losses = Loss().scores(evidence, LossParams())
    for m in range(4):
        ours, plain = (evaluate(s[[m]], members[[m]], "alone") for s in (scores, losses))
        assert ours.auc == plain.auc
        assert ours.accuracy_oracle == plain.accuracy_oracle


def test_needs_a_population(from_phi: Callable[..., Evidence]) -> None:
    evidence = from_phi(np.zeros((1, 2)), np.array([[True, False]]), population=np.zeros((1, 0)))
    with pytest.raises(BenchError) as caught:
        Population().scores(evidence, PopulationParams())
    assert (caught.value.field, caught.value.value) == ("population", 0)
