"""RMIA as an attack: its parameters, its temperature, and what it needs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from harness.attacks.base import Bools, Evidence
from harness.attacks.rmia import Rmia, RmiaParams
from harness.leakage.scoring import rescaled_logit, rmia, rmia_offline
from workloads.errors import BenchError


@pytest.fixture
def evidence(from_phi: Callable[..., Evidence], masks: Callable[..., Bools]) -> Evidence:
    random = np.random.default_rng(0)
    members = masks(random, 9, 40, 20)
    return from_phi(random.standard_normal((9, 40)) * 2, members, random.standard_normal((9, 31)))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("gamma", [None, 2.0])
def test_parameters_reach_the_formula(temperature: float, gamma: float | None, evidence: Evidence) -> None:
    phi = rescaled_logit(evidence.logits, evidence.labels, temperature)
    others = rescaled_logit(evidence.population_logits, evidence.population_labels, temperature)
    given = {"temperature": temperature, "gamma": gamma}
    np.testing.assert_array_equal(
        Rmia().scores(evidence, RmiaParams.model_validate(given)),
        rmia(phi, evidence.members, ~evidence.members, others, gamma),
    )
    np.testing.assert_array_equal(
        Rmia().scores(evidence, RmiaParams.model_validate(given | {"mode": "offline", "offline_a": 0.4})),
        rmia_offline(phi, ~evidence.members, others, 0.4, gamma),
    )


def test_the_defaults_are_a_fine_rank_at_temperature_two(evidence: Evidence) -> None:
    default = RmiaParams()
    assert (default.mode, default.temperature, default.gamma, Rmia.version) == ("online", 2.0, None, "2")
    scores = Rmia().scores(evidence, default)
    assert all(len(set(row)) == 40 for row in scores), "31 population records do not make 32 steps"
    coarse = Rmia().scores(evidence, RmiaParams(gamma=1.0))
    assert len(set(coarse[0])) <= 32


def test_more_likely_than_usual_scores_higher(from_phi: Callable[..., Evidence]) -> None:
    """Five models agree on three records; the target is surer of one and less sure of another."""
    phi = np.zeros((5, 3))
    phi[0] = [2.0, 0.0, -2.0]
    members = np.zeros((5, 3), dtype=np.bool_)
    members[1:3] = True
    population = np.zeros((5, 21))
    population[0] = np.linspace(-3, 3, 21)
    scores = Rmia().scores(from_phi(phi, members, population), RmiaParams())
    assert scores[0, 0] > scores[0, 1] > scores[0, 2]


def test_missing_population_records_are_reported(evidence: Evidence) -> None:
    empty = replace(
        evidence,
        population_logits=evidence.population_logits[:, :0],
        population_labels=evidence.population_labels[:0],
    )
    with pytest.raises(BenchError) as caught:
        Rmia().scores(empty, RmiaParams())
    assert (caught.value.field, caught.value.value) == ("population", 0)
