"""The synthetic records: their best accuracy is known and nothing beats it."""

import math

import numpy as np
import pytest

import workloads
from workloads.data.gaussian_classes import GaussianClasses
from workloads.tabular_synthetic import GENERATOR, TabularSynthetic


def test_two_classes_have_a_closed_form() -> None:
    """Two Gaussians at distance sqrt(2) a: the best accuracy is Phi(a / sqrt(2))."""
    generator = GaussianClasses(classes=2, features=5, distance=1.5, seed=3)
    assert generator.bayes_accuracy() == pytest.approx(0.5 * (1 + math.erf(1.5 / 2)), abs=1e-9)


def test_classes_in_one_place_cannot_be_distinguished() -> None:
    generator = GaussianClasses(classes=4, features=5, distance=0.0, seed=3)
    assert generator.bayes_accuracy() == pytest.approx(1 / 4, abs=1e-9)


def test_the_posterior_scores_the_stated_accuracy() -> None:
    count = 200_000
    records = GENERATOR.draw(count, stream=99)
    guesses = GENERATOR.posterior(records.x.numpy()).argmax(axis=1)
    accuracy = float((guesses == records.y.numpy()).mean())
    expected = TabularSynthetic().bayes_accuracy
    assert accuracy == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / count))


@pytest.mark.slow
def test_the_posterior_is_calibrated() -> None:
    """Of the records given a probability near p, a share near p has the label."""
    records = GENERATOR.draw(200_000, stream=98)
    posterior = GENERATOR.posterior(records.x.numpy())
    assert posterior.sum(axis=1) == pytest.approx(np.ones(len(records)))
    chosen = (posterior > 0.45) & (posterior < 0.55)
    right = np.arange(GENERATOR.classes) == records.y.numpy()[:, None]
    assert right[chosen].mean() == pytest.approx(posterior[chosen].mean(), abs=0.02)


def test_shapes_and_streams() -> None:
    workload = workloads.family.get("tabular-synthetic")
    pool, test = workload.pool(), workload.test()
    assert (len(pool), len(test), workload.n_train, workload.classes) == (2000, 1000, 1000, 6)
    assert pool.x is workload.pool().x, "drawn once"
    both = np.concatenate([pool.x.numpy(), test.x.numpy()])
    assert len(np.unique(both, axis=0)) == 3000, "no record is in both"
    assert set(pool.y.tolist()) == set(range(6))
    assert workload.model(0)(pool.x[:3]).shape == (3, 6)


def test_another_seed_is_another_distribution_and_the_same_seed_the_same_bits() -> None:
    one, same, other = (
        GaussianClasses(classes=3, features=4, distance=1.0, seed=seed).draw(10, 1).x for seed in (1, 1, 2)
    )
    assert one.equal(same)
    assert not one.equal(other)
