"""The population attack is the loss attack with a calibrated scale."""

from collections.abc import Callable

import numpy as np
import pytest

from harness.attacks.base import Bools, Evidence
from harness.attacks.loss import Loss, LossParams
from harness.attacks.population import Population, PopulationParams
from harness.leakage.figures import evaluate
from workloads.errors import BenchError


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
