"""The shadow attack: its fit against scikit-learn's, and its known limits."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from harness.attacks.base import Bools, Evidence, cross_entropy
from harness.attacks.loss import Loss, LossParams
from harness.attacks.shadow import Shadow, ShadowParams, fit
from harness.leakage.figures import evaluate
from tests.harness.simulated import known

GLOBAL, PER_CLASS = ShadowParams(per_class=False), ShadowParams(per_class=True)


@pytest.fixture
def remembering(from_phi: Callable[..., Evidence], masks: Callable[..., Bools]) -> Evidence:
    random = np.random.default_rng(0)
    members = masks(random, 6, 400, 200)
    return from_phi(random.standard_normal((6, 400)) + members, members)


def test_the_fit_is_scikit_learns() -> None:
    random = np.random.default_rng(1)
    values = np.sort(random.exponential(size=30))
    inside, outside = random.integers(0, 40, (2, 3, 30))
    slope, intercept = fit(values, inside, outside)
    for row in range(3):
        x = np.concatenate([values, values])[:, None]
        y = np.repeat([True, False], 30)
        weight = np.concatenate([inside[row], outside[row]])
        known = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(x, y, weight)
        assert slope[row] == pytest.approx(known.coef_[0, 0], rel=1e-4)
        assert intercept[row] == pytest.approx(known.intercept_[0], rel=1e-3, abs=1e-4)


def test_losses_that_part_members_perfectly_have_a_finite_fit() -> None:
    values = np.array([0.0, 0.1, 5.0, 9.0])
    slope, intercept = fit(values, np.array([[500, 500, 0, 0]]), np.array([[0, 0, 500, 500]]))
    assert np.isfinite(slope).all() and np.isfinite(intercept).all()
    assert slope[0] < 0


def test_one_kind_of_record_trains_nothing() -> None:
    slope, intercept = fit(np.array([0.0, 1.0]), np.array([[3, 3], [0, 0]]), np.array([[0, 0], [4, 4]]))
    np.testing.assert_array_equal([slope, intercept], np.zeros((2, 2)))


def test_one_threshold_for_all_has_the_loss_attacks_auc(remembering: Evidence) -> None:
    scores = Shadow().scores(remembering, GLOBAL)
    plain = Loss().scores(remembering, LossParams())
    for m in range(6):
        np.testing.assert_array_equal(
            np.argsort(scores[m], kind="stable"), np.argsort(plain[m], kind="stable")
        )
    ours, theirs = (evaluate(each, remembering.members, "learned").auc for each in (scores, plain))
    assert ours == theirs


def test_scores_are_close_to_a_fit_on_every_single_loss(remembering: Evidence) -> None:
    losses, labels = cross_entropy(remembering.phi), remembering.labels
    scores = Shadow().scores(remembering, PER_CLASS)
    for label in (0, 1):
        rows = labels == label
        x, y = losses[1:, rows].reshape(-1, 1), remembering.members[1:, rows].ravel()
        exact = LogisticRegression(C=1.0, tol=1e-10).fit(x, y).decision_function(losses[0, rows][:, None])
        np.testing.assert_allclose(scores[0, rows], exact, atol=0.02)


def test_classes_of_different_hardness_want_a_threshold_each(
    from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    random = np.random.default_rng(3)
    members = masks(random, 8, 600, 300)
    hard = np.where(np.arange(600) % 2, -3.0, 3.0)
    evidence = from_phi(random.standard_normal((8, 600)) + hard + 1.5 * members, members)
    together = evaluate(Shadow().scores(evidence, GLOBAL), members, "learned").auc
    apart = evaluate(Shadow().scores(evidence, PER_CLASS), members, "learned").auc
    assert known(apart) > known(together) + 0.1
