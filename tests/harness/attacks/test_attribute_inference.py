"""Attribute inference: models that ignore or memorise the column, and the evaluation of guesses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from harness.attacks.attribute_inference import AttributeInference, AttributeInferenceParams, impute
from harness.attacks.base import Bools, Evidence
from harness.attacks.parts.attribute_metrics import Guesses, evaluate
from workloads.base import Attribute, Records
from workloads.errors import BenchError
from workloads.models.mlp import mlp

BIT = Attribute("a bit", column=1, values=(0.0, 1.0))
MODELS, RECORDS, CLASSES = 3, 400, 3
VARIANTS = [{"variant": "confidence"}, {"variant": "yeom"}]


def customers(count: int, seed: int) -> Records:
    """Six random bits, the sensitive one for three in ten, and a label that has nothing to do with them."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randint(2, (count, 6), generator=random).float()
    x[:, 1] = (torch.rand(count, generator=random) < 0.3).float()
    # A unique number for every record, by which a model can distinguish them.
    named = torch.cat([x, torch.rand(count, 1, generator=random)], dim=1)
    return Records(named, torch.randint(CLASSES, (count,), generator=random))


class Memory(nn.Module):
    """Confident only of the labels of memorised records with all columns unchanged."""

    def __init__(self, known: Records) -> None:
        super().__init__()
        self.known = known

    def forward(self, x: Tensor) -> Tensor:
        same = (x[:, None] == self.known.x).all(2).float()
        return 5 * same @ nn.functional.one_hot(self.known.y, CLASSES).float()


def evidence_of(models: list[nn.Module], pool: Records, members: Bools) -> Evidence:
    with torch.no_grad():
        logits = torch.stack([model(pool.x) for model in models]).numpy()
    labels, population = pool.y.numpy(), customers(300, 9)
    return Evidence(
        logits,
        labels,
        members,
        logits[:, :1],
        labels[:1],
        pool,
        population,
        released=models.__getitem__,
        sensitive=BIT,
    )


@pytest.fixture
def members(masks: Callable[..., Bools]) -> Bools:
    return masks(np.random.default_rng(0), MODELS, RECORDS, RECORDS // 2)


def infer(evidence: Evidence, params: dict[str, Any]) -> Guesses:
    return AttributeInference().guesses(evidence, AttributeInferenceParams(**params))


@pytest.mark.parametrize("params", VARIANTS)
def test_a_model_that_ignores_the_column_leaves_the_prior(params: dict[str, Any], members: Bools) -> None:
    pool, models = customers(RECORDS, 1), [mlp((7, 8, CLASSES), seed) for seed in range(MODELS)]
    for model in models:
        with torch.no_grad():
            next(model.parameters())[:, BIT.column] = 0
    guesses = infer(evidence_of([*models], pool, members), params)
    found = evaluate(guesses, members, RECORDS)
    assert (guesses.guessed == 0).all(), "the more common value"
    assert found.prior == pytest.approx(0.7, abs=0.08)
    assert found.accuracy_members == pytest.approx(0.7, abs=0.05)
    assert found.gap_low <= 0 <= found.gap_high


@pytest.mark.parametrize("params", VARIANTS)
def test_a_model_that_memorised_its_members_reveals_their_column(
    params: dict[str, Any], members: Bools
) -> None:
    pool = customers(RECORDS, 1)
    rows = [torch.from_numpy(own).nonzero().squeeze(1) for own in members]
    models: list[nn.Module] = [Memory(pool.take(own)) for own in rows]
    found = evaluate(infer(evidence_of(models, pool, members), params), members, RECORDS)
    assert found.accuracy_members == 1.0
    assert found.accuracy_nonmembers == pytest.approx(0.7, abs=0.05), "the prior"
    assert found.gap > 0.2
    assert found.gap_low > 0


def test_imputable_values_are_no_advantage(members: Bools) -> None:
    """The column is the record's first one: the imputation knows it, and the model adds nothing."""
    pool, public = customers(RECORDS, 1), customers(300, 2)
    for each in (pool, public):
        each.x[:, BIT.column] = each.x[:, 0]
    models: list[nn.Module] = [mlp((7, 8, CLASSES), seed) for seed in range(MODELS)]
    evidence = replace(evidence_of(models, pool, members), population=public)
    found = evaluate(infer(evidence, {"prior": "imputed"}), members, RECORDS)
    assert found.imputation_members == 1.0
    assert found.advantage_members == pytest.approx(found.accuracy_members - 1)
    chances = impute(public, pool, BIT, CLASSES)
    np.testing.assert_array_equal(chances.argmax(axis=1), pool.x[:, 0])
    np.testing.assert_allclose(chances.sum(axis=1), 1)


def test_the_imputation_does_not_read_the_column() -> None:
    pool, public = customers(50, 1), customers(300, 2)
    changed = Records(pool.x.clone(), pool.y)
    changed.x[:, BIT.column] = 1 - changed.x[:, BIT.column]
    np.testing.assert_array_equal(impute(public, pool, BIT, CLASSES), impute(public, changed, BIT, CLASSES))


def test_a_column_that_is_one_for_all_of_the_public_is_imputed_so() -> None:
    public = customers(20, 2)
    public.x[:, BIT.column] = 1
    assert (impute(public, customers(5, 1), BIT, CLASSES).argmax(axis=1) == 1).all()


def test_a_measurement_is_the_nearest_of_its_values() -> None:
    level = Attribute("low, middle or high", column=0, values=(-1.0, 0.0, 2.0))
    x = torch.tensor([[-3.0, 5.0], [-0.4, 5.0], [0.9, 5.0], [1.1, 5.0]])
    assert level.of(x).tolist() == [0, 1, 1, 2]
    completed = level.completions(x)
    assert completed.shape == (4, 3, 2)
    assert completed[1].tolist() == [[-1.0, 5.0], [0.0, 5.0], [2.0, 5.0]]
    assert x[0, 0] == -3


def hand_made(models: int) -> tuple[Guesses, Bools]:
    random = np.random.default_rng(0)
    truth, imputed = random.integers(0, 2, (2, 60))
    members = np.stack([random.permutation(60) < 30 for _ in range(models)])
    guessed = np.where(random.random((models, 60)) < 0.3 + 0.4 * members, truth, 1 - truth)
    return Guesses("a bit", truth, guessed, imputed, 0.5), members


def test_the_figures_are_shares_of_right_guesses() -> None:
    guesses, members = hand_made(4)
    found = evaluate(guesses, members, 60)
    right = guesses.guessed == guesses.truth
    assert found.accuracy_members == pytest.approx(right[members].mean())
    assert found.accuracy_nonmembers == pytest.approx(right[~members].mean())
    without = np.broadcast_to(guesses.imputed == guesses.truth, right.shape)
    assert found.advantage_members == pytest.approx(right[members].mean() - without[members].mean())
    gained = right.astype(float) - without
    gaps = [row[own].mean() - row[~own].mean() for row, own in zip(gained, members, strict=True)]
    assert found.gap == pytest.approx(np.mean(gaps))
    wanted = stats.t.interval(0.95, 3, np.mean(gaps), stats.sem(gaps))
    assert (found.gap_low, found.gap_high) == pytest.approx(wanted)
    assert (found.n_members, found.n_nonmembers) == (120, 120)


def test_a_lone_model_has_an_interval_from_its_records() -> None:
    found = evaluate(*hand_made(1), 60)
    assert found.gap_interval == "records"
    assert found.gap_low < found.gap < found.gap_high


def test_canaries_are_not_evaluated() -> None:
    guesses, members = hand_made(3)
    cut = Guesses("a bit", guesses.truth[:40], guesses.guessed[:, :40], guesses.imputed[:40], 0.5)
    assert evaluate(guesses, members, 40) == evaluate(cut, members[:, :40], 40)


def test_models_trained_on_the_whole_pool_cannot_be_evaluated() -> None:
    guesses, members = hand_made(2)
    with pytest.raises(BenchError, match="0 non-members"):
        evaluate(guesses, np.ones_like(members), 60)


def test_a_workload_without_a_sensitive_attribute_is_refused(members: Bools) -> None:
    evidence = evidence_of(
        [mlp((7, CLASSES), seed) for seed in range(MODELS)], customers(RECORDS, 1), members
    )
    with pytest.raises(BenchError) as caught:
        infer(replace(evidence, sensitive=None), {})
    assert caught.value.field == "sensitive"
