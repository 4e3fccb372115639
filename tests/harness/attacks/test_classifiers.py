"""Attacks that train a classifier on shadow models: shokri and salem."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from harness.attacks.base import Bools, Evidence
from harness.attacks.parts.boosting import boosted_log_odds
from harness.attacks.parts.posteriors import log_odds, posteriors, shadows_of
from harness.attacks.salem import Salem, SalemParams, _features
from harness.attacks.shokri import Shokri, ShokriParams
from harness.leakage.figures import evaluate
from tests.harness.simulated import known
from workloads.base import Records

MODELS, RECORDS, CLASSES = 4, 600, 5


def dirichlet(members: Bools, peak_in: float, peak_out: float) -> Evidence:
    """Posteriors drawn around the label, sharper for members: only their shape reveals membership."""
    random = np.random.default_rng(0)
    labels = random.integers(0, CLASSES, RECORDS)
    weights = np.ones((MODELS, RECORDS, CLASSES))
    weights[:, np.arange(RECORDS), labels] = np.where(members, peak_in, peak_out)
    chances = random.standard_gamma(weights) + 1e-9
    logits = np.log(chances / chances.sum(axis=2, keepdims=True)).astype(np.float32)
    pool = Records(torch.zeros(RECORDS, 1), torch.from_numpy(labels))
    return Evidence(logits, labels, members, logits[:, :1], labels[:1], pool)


@pytest.fixture
def members() -> Bools:
    random = np.random.default_rng(1)
    return np.stack([random.permutation(RECORDS) < RECORDS // 2 for _ in range(MODELS)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "params"),
    [
        (Shokri(), ShokriParams(trees=20)),
        (Shokri(), ShokriParams(trees=20, extra_features=True)),
        (Shokri(), ShokriParams(trees=20, only_correct=True)),
        (Salem(), SalemParams()),
        (Salem(), SalemParams(top=99)),
    ],
)
def test_it_distinguishes_sharp_posteriors_from_flat_ones(
    attack: Shokri | Salem, params: Any, members: Bools
) -> None:
    evidence = dirichlet(members, 20.0, 2.0)
    scores = attack.scores(evidence, params)
    # The probability of the label is Beta(20, 4) for members and Beta(2, 4) for others: its AUC is 0.97.
    assert known(evaluate(scores, members, "learned").auc) > 0.88
    shuffled = replace(evidence, members=members[:, ::-1].copy())
    found = evaluate(attack.scores(shuffled, params), shuffled.members, "learned")
    assert abs(known(found.auc) - 0.5) < 0.06


def test_a_classifier_trained_on_one_class_scores_zero() -> None:
    x = np.random.default_rng(0).random((50, 3))
    np.testing.assert_array_equal(boosted_log_odds(x, np.ones(50, dtype=np.bool_), x, 5), np.zeros(50))


def test_salem_sees_ordered_posteriors_and_whether_they_are_right() -> None:
    logits = np.log(np.array([[0.2, 0.7, 0.1], [0.5, 0.3, 0.2]], dtype=np.float32))
    seen = _features(logits, np.array([1, 2]), 2)
    np.testing.assert_allclose(seen, [[0.7, 0.2, 1.0], [0.5, 0.3, 0.0]], atol=1e-6)
    assert _features(logits, np.array([1, 2]), 3).shape == (2, 4), "C posteriors and a bit"


def test_the_order_of_classes_does_not_matter_to_salem() -> None:
    random = np.random.default_rng(2)
    logits, order = random.standard_normal((30, 4)).astype(np.float32), np.array([2, 0, 3, 1])
    labels = random.integers(0, 4, 30)
    renamed = np.argsort(order)[labels]
    np.testing.assert_allclose(
        _features(logits, labels, 4), _features(logits[:, order], renamed, 4), rtol=1e-6
    )


def test_shadows_are_others_in_a_circle() -> None:
    assert shadows_of(2, 4, 10) == [3, 0, 1]
    assert shadows_of(2, 4, 2) == [3, 0]
    assert shadows_of(0, 1, 5) == []


def test_posteriors_and_their_odds() -> None:
    chances = posteriors(np.array([[0.0, -np.inf, 0.0], [1000.0, 0.0, 0.0]], dtype=np.float32))
    np.testing.assert_allclose(chances, [[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], atol=1e-12)
    odds = log_odds(np.array([0.0, 0.25, 0.5, 1.0]))
    assert np.isfinite(odds).all()
    assert all(one < other for one, other in pairwise(odds))
    assert odds[1] == pytest.approx(-np.log(3))
