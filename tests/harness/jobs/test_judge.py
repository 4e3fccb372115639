"""Evaluation of membership attacks: halves scored separately, stored scores, the strongest of a family."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors.numpy import load

import methods.base
from harness import attacks
from harness.attacks.base import Attack, Bools, Evidence, Floats
from harness.jobs.judge import judge, score, score_apart
from harness.leakage.candidates import FAMILY
from harness.leakage.declared import Signals, score_strongest
from harness.leakage.figures import recompute
from harness.leakage.intervals import Dependence
from harness.store.result import figures_of
from tests.harness.attacks.conftest import masks as masks
from workloads.base import Records

RECORDS = 300


def evidence_of(masks: Callable[..., Bools], models: int, canaries: int = 0) -> Evidence:
    random = np.random.default_rng(models)
    members = masks(random, models, RECORDS, RECORDS // 2)
    labels = random.integers(0, 3, RECORDS)
    logits = random.standard_normal((models, RECORDS, 3)).astype(np.float32)
    logits[:, np.arange(RECORDS), labels] += (1.5 * members).astype(np.float32)
    pool = Records(torch.zeros(RECORDS, 1), torch.from_numpy(labels))
    population = random.standard_normal((models, 80, 3)).astype(np.float32)
    return Evidence(logits, labels, members, population, labels[:80], pool, canaries=canaries)


def judged(name: str, evidence: Evidence, **params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    attack = attacks.family.get(name)
    made = judge(name, attack, evidence, attack.Params(**params), [])
    return figures_of(made.outcome), load(made.artefacts["scores.safetensors"])


def membership(name: str) -> Attack:
    attack = attacks.family.get(name)
    assert isinstance(attack, Attack)
    return attack


@pytest.mark.parametrize("name", ["lira", "rmia", "reference"])
@pytest.mark.parametrize("models", [8, 9])
def test_each_half_is_scored_with_its_own_models_as_shadows(
    name: str, models: int, masks: Callable[..., Bools]
) -> None:
    evidence, attack = evidence_of(masks, models), membership(name)
    payload, stored = judged(name, evidence)
    for half in (slice(0, None, 2), slice(1, None, 2)):
        alone = replace(
            evidence,
            logits=evidence.logits[half],
            members=evidence.members[half],
            population_logits=evidence.population_logits[half],
        )
        np.testing.assert_array_equal(stored["half_scores"][half], attack.scores(alone, attack.Params()))
    assert {each.dtype for each in (stored["scores"], stored["half_scores"])} == {np.dtype(np.float64)}
    assert payload["metrics"]["interval"] == "two-way" and payload["dependence"] == "record"


@pytest.mark.parametrize(("name", "models"), [("lira", 7), ("loss", 8), ("shadow", 8)])
def test_other_attacks_and_small_cells_have_no_halves(
    name: str, models: int, masks: Callable[..., Bools]
) -> None:
    payload, stored = judged(name, evidence_of(masks, models))
    assert set(stored) == {"scores", "members"}
    assert payload["metrics"]["agreement"] is None


def test_halves_of_shadows_of_another_method(masks: Callable[..., Bools]) -> None:
    evidence = evidence_of(masks, 8)
    shadows = replace(
        evidence,
        shadow_logits=evidence.logits[:, ::-1].copy(),
        shadow_population_logits=evidence.population_logits,
    )
    lira = membership("lira")
    apart = score_apart(lira, shadows, lira.Params())
    assert apart is not None
    np.testing.assert_array_equal(apart[1::2], score(lira, shadows.only(slice(1, None, 2)), lira.Params()))


class Greedy:
    """A statistic of each record that needs more shadows than a half of 8 models has."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "the logit itself"
    source: ClassVar[str] = "nowhere"
    caveats: ClassVar[tuple[str, ...]] = ()
    Params: ClassVar[type[methods.base.Params]] = methods.base.Params
    shadows: ClassVar[int] = 4
    dependence: ClassVar[Dependence] = "record"

    def scores(self, evidence: Evidence, params: Any) -> Floats:
        assert len(evidence.members) > self.shadows
        return evidence.phi


@pytest.mark.parametrize(("models", "interval"), [(9, "two-way, no halves"), (10, "two-way")])
def test_a_half_must_hold_the_shadows_that_an_attack_needs(
    models: int, interval: str, masks: Callable[..., Bools]
) -> None:
    made = judge("greedy", Greedy(), evidence_of(masks, models), methods.base.Params(), [])
    assert figures_of(made.outcome)["metrics"]["interval"] == interval


@pytest.mark.parametrize("name", ["loss", "lira", "strongest"])
def test_stored_scores_reproduce_the_payload(name: str, masks: Callable[..., Bools]) -> None:
    evidence = evidence_of(masks, 16, canaries=40)
    payload, stored = judged(name, evidence)
    again = recompute(stored, payload.get("dependence", "record"), canaries=40, phi=evidence.phi)
    assert figures_of(again) == {part: payload[part] for part in ("metrics", "roc")}
    assert payload["metrics"]["n_members"] == evidence.members[:, :-40].sum()
    assert payload["metrics"]["records_tested"] == RECORDS - 40 - _untested(evidence)


def _untested(evidence: Evidence) -> int:
    trained = evidence.members[:, :-40].sum(axis=0)
    return int(((trained < 4) | (trained > 12)).sum())


def test_the_strongest_keeps_what_comparisons_need(masks: Callable[..., Bools]) -> None:
    evidence = evidence_of(masks, 8)
    payload, stored = judged("strongest", evidence)
    assert set(stored) == {
        *("scores/loss", "scores/lira", "scores/rmia", "half/lira", "half/rmia"),
        *("members", "phi", "correct"),
    }
    right = evidence.population_logits.argmax(axis=2) == evidence.population_labels
    np.testing.assert_array_equal(stored["correct"], right)
    for name in FAMILY:
        alone, own = judged(name, evidence)
        np.testing.assert_array_equal(stored[f"scores/{name}"], own["scores"])
        if "half_scores" in own:
            np.testing.assert_array_equal(stored[f"half/{name}"], own["half_scores"])
        assert set(payload["metrics"]) == set(alone["metrics"])
    assert payload["metrics"]["auc"] > 0.6
    assert payload["metrics"]["canaries"] is None


@pytest.mark.parametrize("models", [5, 8, 9])
def test_rescoring_the_declared_attacks_reproduces_the_task(models: int, masks: Callable[..., Bools]) -> None:
    whole = evidence_of(masks, 12)
    aside = whole.members & (np.arange(RECORDS) % 5 == 0)
    evidence = replace(whole, set_aside=aside)
    first = slice(models)
    _, stored = judged("strongest", evidence.only(first))
    signals = {"logits": whole.logits, "members": whole.members, "set_aside": aside}
    signals |= {"labels": whole.labels[None], "test_labels": whole.population_labels[None]}
    every = Signals.of({**signals, "test_logits": whole.population_logits})
    again = score_strongest(every.only(first))
    assert set(again) == set(stored) - {"phi", "correct"}
    for name, scores in again.items():
        np.testing.assert_array_equal(scores, stored[name])
    np.testing.assert_array_equal(every.only(first).correct, stored["correct"])


def test_the_strongest_of_too_few_models_is_null(masks: Callable[..., Bools]) -> None:
    payload, _ = judged("strongest", evidence_of(masks, 2))
    assert payload["metrics"]["auc"] is None
    assert "needs loss, lira, rmia, and so 3 models or more; the cell has 2" in payload["metrics"]["note"]


@pytest.mark.parametrize("name", ["loss", "lira", "strongest", "blind"])
def test_models_of_the_whole_pool_have_no_leakage_to_measure(name: str, masks: Callable[..., Bools]) -> None:
    evidence = evidence_of(masks, 4)
    payload, stored = judged(name, replace(evidence, members=np.ones_like(evidence.members)))
    assert payload["metrics"]["auc"] is None and "0 non-members" in payload["metrics"]["note"]
    assert not [key for key in stored if key.startswith("scores")]
    assert ("valid" in payload["metrics"]) == (name == "blind")
