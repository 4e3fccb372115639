"""The rescaled logit is exact where a probability would have rounded to 1 or 0."""

import re
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch

from harness.attacks.base import Evidence, cross_entropy, rescaled_logit
from workloads.base import Records
from workloads.errors import BenchError


def exact_phi(row: list[float], label: int) -> float:
    """With 400 digits, through the probabilities as the definition says."""
    with localcontext(prec=400):
        weights = [Decimal(value).exp() for value in row]
        own = weights[label] / sum(weights)
        return float(own.ln() - (1 - own).ln())


def test_matches_the_definition_at_every_confidence() -> None:
    random = np.random.default_rng(0)
    scales = np.array([0.1, 1, 10, 100])[:, None, None]
    logits = (random.standard_normal((4, 12, 5)) * scales).astype(np.float32)
    labels = random.integers(0, 5, 12)
    phi = rescaled_logit(logits, labels)
    for m in range(4):
        for i in range(12):
            expected = exact_phi([float(v) for v in logits[m, i]], int(labels[i]))
            assert phi[m, i] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_saturated_models_keep_their_differences() -> None:
    logits = np.array([[[200, 0, 0], [201, 0, 0]]], dtype=np.float32)
    phi = rescaled_logit(logits, np.array([0, 0]))
    np.testing.assert_allclose(phi, [[200 - np.log(2), 201 - np.log(2)]], rtol=1e-15)
    loss = cross_entropy(phi)
    assert 0 < loss[0, 1] < loss[0, 0] < 1e-80


def test_shift_of_all_logits_changes_nothing() -> None:
    logits = np.array([[[1, 2, 3]]], dtype=np.float32)
    labels = np.array([1])
    np.testing.assert_allclose(
        rescaled_logit(logits, labels), rescaled_logit(logits + 1000, labels), rtol=1e-12
    )


def test_cross_entropy_is_minus_log_p() -> None:
    p = np.array([1e-9, 0.1, 0.5, 0.999])
    np.testing.assert_allclose(cross_entropy(np.log(p) - np.log1p(-p)), -np.log(p), rtol=1e-12)


def test_zero_probability_is_finite_and_below_all_others() -> None:
    rows = np.array([[[0, -np.inf, -1], [0, -90, -1], [0, -300, -np.inf]]], dtype=np.float32)
    phi = rescaled_logit(rows, np.array([1, 1, 2]))
    assert np.isfinite(phi).all()
    assert phi[0, 0] < phi[0, 1]
    assert phi[0, 2] == pytest.approx(-300)


@pytest.mark.parametrize("bad", [[np.nan, 0.0], [np.inf, 0.0], [-np.inf, -np.inf]])
def test_refuses_logits_that_are_no_answer(bad: list[float]) -> None:
    logits = np.zeros((2, 3, 2), dtype=np.float32)
    logits[1, 2] = bad
    with pytest.raises(BenchError, match=re.escape("model 1") + ".* 1 of 3 records"):
        rescaled_logit(logits, np.zeros(3, dtype=np.int64))


def test_refuses_a_single_class() -> None:
    with pytest.raises(BenchError, match="at least 2 classes"):
        rescaled_logit(np.zeros((1, 3, 1), dtype=np.float32), np.zeros(3, dtype=np.int64))


def test_evidence_gives_phi_of_pool_and_population() -> None:
    pool = np.array([[[1, 0]]], dtype=np.float32)
    population = np.array([[[0, 3], [0, 5]]], dtype=np.float32)
    evidence = Evidence(
        logits=pool,
        labels=np.array([0]),
        members=np.array([[True]]),
        population_logits=population,
        population_labels=np.array([1, 0]),
        pool=Records(torch.zeros(1, 1), torch.zeros(1)),
    )
    np.testing.assert_allclose(evidence.phi, [[1]])
    np.testing.assert_allclose(evidence.population_phi, [[3, -5]])
