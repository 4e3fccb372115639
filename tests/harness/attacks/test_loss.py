"""The loss attack scores by minus the cross-entropy and nothing else."""

from collections.abc import Callable

import numpy as np

from harness.attacks.base import Evidence
from harness.attacks.loss import Loss, LossParams


def test_score_is_minus_the_cross_entropy(from_phi: Callable[..., Evidence]) -> None:
    phi = np.array([[-3.0, 0.0, 2.5]])
    evidence = from_phi(phi, np.array([[True, False, True]]))
    p = 1 / (1 + np.exp(-phi))
    np.testing.assert_allclose(Loss().scores(evidence, LossParams()), np.log(p), rtol=1e-6)


def test_near_certain_predictions_are_still_ordered(from_phi: Callable[..., Evidence]) -> None:
    """p = 1 in float64 for all three; the losses are 4e-18, 8e-27 and 3e-44."""
    evidence = from_phi(np.array([[40.0, 60.0, 100.0]]), np.array([[True, False, True]]))
    assert (np.diff(Loss().scores(evidence, LossParams())[0]) > 0).all()
