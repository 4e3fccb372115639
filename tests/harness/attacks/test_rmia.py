"""RMIA against all pairs, and the facts of its specification."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from harness.attacks.base import Bools, Evidence, Floats
from harness.attacks.rmia import Rmia, RmiaParams, share_beaten
from workloads.errors import BenchError


def chance(phi: Floats) -> Floats:
    return 1 / (1 + np.exp(-phi))


def by_pairs(evidence: Evidence, m: int, i: int, params: RmiaParams) -> float:
    """The paper's words: count the population records that the record beats, one by one."""
    others = [s for s in range(len(evidence.phi)) if s != m]
    inside = [chance(evidence.phi[s, i]) for s in others if evidence.members[s, i]]
    outside = [chance(evidence.phi[s, i]) for s in others if not evidence.members[s, i]]
    a = params.offline_a
    usual = ((1 + a) * np.mean(outside) + 1 - a) / 2
    if params.mode == "online" and inside:
        usual = (np.mean(inside) + np.mean(outside)) / 2
    beaten = 0
    for z in range(evidence.population_phi.shape[1]):
        usual_z = ((1 + a) * np.mean([chance(evidence.population_phi[s, z]) for s in others]) + 1 - a) / 2
        ratio_x = chance(evidence.phi[m, i]) / usual
        ratio_z = chance(evidence.population_phi[m, z]) / usual_z
        beaten += bool(ratio_x / ratio_z >= params.gamma)
    return float(beaten / evidence.population_phi.shape[1])


@pytest.mark.parametrize(
    "params", [RmiaParams(), RmiaParams(mode="offline", gamma=2.0), RmiaParams(mode="offline", offline_a=1)]
)
def test_sorting_equals_all_pairs(
    params: RmiaParams, from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    random = np.random.default_rng(0)
    members = masks(random, 9, 40, 20)
    evidence = from_phi(random.standard_normal((9, 40)) * 2, members, random.standard_normal((9, 31)))
    scores = Rmia().scores(evidence, params)
    checked = 0
    for m in range(9):
        for i in range(40):
            if sum(not members[s, i] for s in range(9) if s != m):
                assert scores[m, i] == pytest.approx(by_pairs(evidence, m, i, params), abs=1e-12)
                checked += 1
    assert checked > 330


def test_ties_count_as_beaten_at_gamma_one() -> None:
    np.testing.assert_array_equal(
        share_beaten(np.array([0.0, -1.0, 1.0]), np.array([0.0, 0.0, 0.5, 2.0]), 1.0), [0.5, 0.0, 0.75]
    )


def test_scaling_all_probabilities_alike_changes_nothing() -> None:
    random = np.random.default_rng(1)
    own, population = random.standard_normal(50), random.standard_normal(30)
    np.testing.assert_array_equal(
        share_beaten(own, population, 2.0), share_beaten(own + 4.0, population + 4.0, 2.0)
    )


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


def test_without_population_records_it_says_so(
    from_phi: Callable[..., Evidence], masks: Callable[..., Bools]
) -> None:
    random = np.random.default_rng(2)
    evidence = from_phi(random.standard_normal((3, 8)), masks(random, 3, 8, 4))
    empty = replace(
        evidence,
        population_logits=evidence.population_logits[:, :0],
        population_labels=evidence.population_labels[:0],
    )
    with pytest.raises(BenchError, match="population records"):
        Rmia().scores(empty, RmiaParams())
