"""The reference attack against a loop over records and references."""

from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ValidationError

from harness.attacks.base import Bools, Evidence
from harness.attacks.reference import Reference, ReferenceParams
from harness.leakage.figures import evaluate

GAUSSIAN = ReferenceParams(fit="gaussian")
RANK = ReferenceParams(fit="rank")


def test_gaussian_equals_the_loop(from_phi: Callable[..., Evidence], masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 12, 60, 30)
    evidence = from_phi(random.standard_normal((12, 60)) * 3, members)
    scores = Reference().scores(evidence, GAUSSIAN)
    checked = 0
    for m in range(12):
        for i in range(60):
            outs = [evidence.phi[r, i] for r in range(12) if r != m and not members[r, i]]
            if len(outs) >= 2:
                expected = (evidence.phi[m, i] - np.mean(outs)) / np.std(outs, ddof=1)
                assert scores[m, i] == pytest.approx(expected, rel=1e-9)
                checked += 1
    assert checked > 600


def test_rank_equals_the_loop(from_phi: Callable[..., Evidence], masks: Callable[..., Bools]) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 6, 50, 25)
    evidence = from_phi(np.round(random.standard_normal((6, 50))), members)  # with ties
    scores = Reference().scores(evidence, RANK)
    for m in range(6):
        for i in range(50):
            outs = [evidence.phi[r, i] for r in range(6) if r != m and not members[r, i]]
            own = evidence.phi[m, i]
            points = sum(1.0 if out < own else 0.5 if out == own else 0.0 for out in outs)
            assert scores[m, i] == pytest.approx((points + 0.5) / (len(outs) + 1))


def test_few_references_fall_back_as_documented(from_phi: Callable[..., Evidence]) -> None:
    """Target 0; the records have 3, 1 and no models without them among the others."""
    phi = np.array([[2.0, 4.0, 9.0], [0.0, 1.0, 7.0], [1.0, 0.0, 8.0], [2.0, 0.0, 6.0]])
    members = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [0, 1, 1]], dtype=np.bool_)
    evidence = from_phi(phi, members)
    np.testing.assert_allclose(Reference().scores(evidence, GAUSSIAN)[0], [1, 3, 0], rtol=1e-6)
    np.testing.assert_allclose(Reference().scores(evidence, RANK)[0], [3 / 4, 3 / 4, 1 / 2])


@pytest.mark.parametrize("params", [GAUSSIAN, RANK])
def test_references_identical_to_the_target_tie_everything(
    params: ReferenceParams, from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    random = np.random.default_rng(2)
    members = masks(random, 7, 200, 100)
    same = np.repeat(random.standard_normal((1, 200)) * 10, 7, axis=0)
    scores = Reference().scores(from_phi(same, members), params)
    assert np.ptp(scores) == 0
    assert evaluate(scores, members, "record").auc == 0.5


def test_rank_is_invariant_to_increasing_transforms(
    from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    random = np.random.default_rng(3)
    members = masks(random, 5, 100, 50)
    phi = random.standard_normal((5, 100)).astype(np.float32).astype(np.float64)
    before = Reference().scores(from_phi(phi, members), RANK)
    after = Reference().scores(from_phi(phi**3 * 8, members), RANK)
    np.testing.assert_array_equal(before, after)


def test_unknown_fit_is_refused() -> None:
    with pytest.raises(ValidationError, match="gaussian"):
        ReferenceParams.model_validate({"fit": "laplace"})
