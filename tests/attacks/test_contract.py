"""What every attack must keep; a new file in harness/attacks is tested by existing."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from harness.attacks import family
from harness.attacks.base import Bools, Evidence, Floats
from harness.attacks.metrics import evaluate
from methods.base import Params

MODELS, RECORDS = 8, 900

Scored = Callable[[str], Floats]

every_attack = pytest.mark.parametrize("name", family.names())


@pytest.fixture(scope="module")
def null(masks: Callable[..., Bools]) -> Evidence:
    """Models whose answers do not depend on who their members are."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, RECORDS)
    hardness = random.standard_normal((RECORDS, 4))
    logits = 3 * hardness + random.standard_normal((MODELS, RECORDS, 4))
    return Evidence(
        logits=logits.astype(np.float32),
        labels=labels,
        members=masks(random, MODELS, RECORDS, RECORDS // 2),
        population_logits=random.standard_normal((MODELS, 200, 4)).astype(np.float32),
        population_labels=random.integers(0, 4, 200),
        features=hardness.astype(np.float32),
    )


@pytest.fixture(scope="module")
def scored(null: Evidence) -> Scored:
    """Scores of an attack on it, computed once: some attacks teach classifiers."""
    return lru_cache(lambda name: family.get(name).scores(null, family.get(name).Params()))


def test_the_family_holds_the_attacks_of_the_papers() -> None:
    assert {"blind", "lira", "loss", "population", "reference", "rmia", "salem", "shadow", "shokri"} <= set(
        family.names()
    )


@every_attack
def test_says_what_it_is(name: str) -> None:
    attack = family.get(name)
    assert attack.version and attack.about and attack.source
    assert attack.shadows >= 0
    assert all(attack.caveats)
    assert issubclass(attack.Params, Params)
    for field, info in attack.Params.model_fields.items():
        assert info.description, f"{name}.{field} has no description"
    attack.Params()  # every parameter has a default


@every_attack
def test_scores_are_finite_and_one_per_target_and_record(name: str, scored: Scored) -> None:
    scores = scored(name)
    assert scores.shape == (MODELS, RECORDS)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()


@every_attack
def test_same_input_same_output_and_the_evidence_is_left_as_it_was(
    name: str, null: Evidence, scored: Scored
) -> None:
    attack = family.get(name)
    fresh = replace(null)  # nothing remembered in the evidence
    copies = {key: np.copy(value) for key, value in vars(fresh).items()}
    np.testing.assert_array_equal(attack.scores(fresh, attack.Params()), scored(name))
    for key, value in copies.items():
        np.testing.assert_array_equal(vars(fresh)[key], value)


@every_attack
def test_answers_independent_of_membership_leak_nothing(name: str, null: Evidence, scored: Scored) -> None:
    metrics = evaluate(scored(name), null.members)
    # The other targets' masks enter a score, so results of targets are correlated: twice the
    # variance of independent ones.
    deviation = np.sqrt(2 * (RECORDS + 1) / (12 * (RECORDS / 2) ** 2) / MODELS)
    assert abs(metrics.auc - 0.5) < 4 * deviation
    assert abs(metrics.auc_pooled - 0.5) < 4 * deviation
    assert abs(metrics.advantage) < 0.06


@pytest.mark.parametrize("name", [name for name in family.names() if name != "blind"])
def test_row_m_does_not_know_its_own_members(name: str, null: Evidence, scored: Scored) -> None:
    """All but the blind check, whose question is the split itself."""
    attack = family.get(name)
    before = scored(name)
    for m in (0, MODELS - 1):
        members = null.members.copy()
        members[m] = np.random.default_rng(m).permutation(members[m])
        after = attack.scores(replace(null, members=members), attack.Params())
        np.testing.assert_array_equal(after[m], before[m])


@every_attack
@pytest.mark.parametrize("models", [1, 2, 3])
def test_few_models_still_give_numbers(name: str, models: int, null: Evidence) -> None:
    """Whether a cell has shadows enough is the plan's to check, not the attack's."""
    attack = family.get(name)
    few = replace(
        null,
        logits=null.logits[:models],
        members=null.members[:models],
        population_logits=null.population_logits[:models],
    )
    scores = attack.scores(few, attack.Params())
    assert scores.shape == (models, RECORDS)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", [name for name in family.names() if name != "blind"])
def test_finds_members_of_models_that_remember(name: str, null: Evidence) -> None:
    logits = null.logits.copy()
    rows = np.arange(RECORDS)
    logits[:, rows, null.labels] += 2 * null.members
    attack = family.get(name)
    metrics = evaluate(attack.scores(replace(null, logits=logits), attack.Params()), null.members)
    assert metrics.auc_low > 0.55
