"""The contract of membership attacks; a new file in harness/attacks is tested by existing."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import torch
from safetensors.numpy import load
from torch import Tensor, nn

from harness.attacks import family
from harness.attacks.base import Attack, Bools, Evidence, Floats, dependence_of
from harness.jobs.judge import judge
from harness.leakage.figures import evaluate
from harness.store.outcomes import Membership
from methods.base import Params
from tests.harness.simulated import known
from workloads.base import Records
from workloads.errors import BenchError

MODELS, RECORDS, POPULATION, CLASSES = 8, 900, 200, 4
FEWER = 4
"""Number of models that memorise: querying them is slower."""
NEAR = 0.3
"""Distance up to which a record is recognised; most records are farther apart."""

Scored = Callable[[str], Floats]


def member(name: str) -> Attack:
    attack = family.get(name)
    assert isinstance(attack, Attack)
    return attack


MEMBERSHIP = [name for name in family.names() if isinstance(family.get(name), Attack)]
"""Other kinds of attacks give no scores."""
KNOWS_OTHERS = {"white-box"}
"""Attacks that know whether other records are members of the target (partial training knowledge)."""

every_attack = pytest.mark.parametrize("name", family.names())
every_membership = pytest.mark.parametrize("name", MEMBERSHIP)
# The blind check's question is the split itself.
every_model_attack = pytest.mark.parametrize("name", [name for name in MEMBERSHIP if name != "blind"])


class Recall(nn.Module):
    """A linear model that has memorised some records: confident in their labels, and in those nearby."""

    def __init__(self, linear: nn.Linear, known: Records) -> None:
        super().__init__()
        self.known = known
        self.last = nn.Linear(linear.in_features + len(known), linear.out_features)
        sure = 2 * nn.functional.one_hot(known.y, linear.out_features).float().T
        with torch.no_grad():
            self.last.weight.copy_(torch.cat([linear.weight, sure], dim=1))
            self.last.bias.copy_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        similar = torch.relu(1 - torch.cdist(x, self.known.x) / NEAR)
        logits: Tensor = self.last(torch.cat([x, similar], dim=1))
        return logits


def linear_models(random: np.random.Generator) -> list[nn.Module]:
    """Models trained on no record: each predicts by the largest feature, with its own noise."""
    models: list[nn.Module] = []
    for _ in range(MODELS):
        model = nn.Linear(CLASSES, CLASSES)
        noise = 0.3 * random.standard_normal((CLASSES, CLASSES))
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(2 * np.eye(CLASSES) + noise))
            model.bias.zero_()
        models.append(model.eval())
    return models


def evidence_of(models: list[nn.Module], pool: Records, population: Records, members: Bools) -> Evidence:
    with torch.no_grad():
        logits, others = (torch.stack([m(each.x) for m in models]).numpy() for each in (pool, population))
    return Evidence(
        logits=logits,
        labels=pool.y.numpy(),
        members=members,
        population_logits=others,
        population_labels=population.y.numpy(),
        pool=pool,
        population=population,
        released=models.__getitem__,
    )


def draw(random: np.random.Generator, count: int) -> Records:
    """Points whose label is their largest coordinate for about half of them."""
    x = torch.from_numpy(random.standard_normal((count, CLASSES), dtype=np.float32))
    noisy = x + torch.from_numpy(random.standard_normal((count, CLASSES), dtype=np.float32))
    return Records(x, noisy.argmax(1))


@pytest.fixture(scope="module")
def null(masks: Callable[..., Bools]) -> Evidence:
    """Models whose predictions do not depend on their members."""
    random = np.random.default_rng(0)
    pool, population = draw(random, RECORDS), draw(random, POPULATION)
    members = masks(random, MODELS, RECORDS, RECORDS // 2)
    return evidence_of(linear_models(random), pool, population, members)


@pytest.fixture(scope="module")
def recalled(null: Evidence) -> Evidence:
    """The first of these models, with their members memorised."""
    assert null.population is not None
    models: list[nn.Module] = []
    for m in range(FEWER):
        linear = null.released(m)
        assert isinstance(linear, nn.Linear)
        known = null.pool.take(torch.from_numpy(null.members[m]).nonzero().squeeze(1))
        models.append(Recall(linear, known).eval())
    return evidence_of(models, null.pool, null.population, null.members[:FEWER])


@pytest.fixture(scope="module")
def scored(null: Evidence) -> Scored:
    """Scores of an attack on `null`, computed once: some attacks train classifiers."""
    return lru_cache(lambda name: member(name).scores(null, member(name).Params()))


def test_the_family_holds_the_attacks_of_the_papers() -> None:
    assert set(MEMBERSHIP) >= {
        *("blind", "label-only", "lira", "loss", "population", "reference"),
        *("rmia", "salem", "shadow", "shokri", "white-box"),
    }
    assert "attribute-inference" in family.names()


@every_attack
def test_it_describes_itself(name: str) -> None:
    attack = family.get(name)
    assert attack.version and attack.about and attack.source
    assert attack.shadows >= 0
    assert all(attack.caveats)
    assert issubclass(attack.Params, Params)
    for field, info in attack.Params.model_fields.items():
        assert info.description, f"{name}.{field} has no description"
    attack.Params()  # every parameter has a default


@every_membership
def test_scores_are_finite_and_one_per_target_and_record(name: str, scored: Scored) -> None:
    scores = scored(name)
    assert scores.shape == (MODELS, RECORDS)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()


@every_membership
def test_same_input_same_output_and_the_evidence_is_left_as_it_was(
    name: str, null: Evidence, scored: Scored
) -> None:
    fresh = replace(null)  # nothing remembered in the evidence
    copies = {key: np.copy(value) for key, value in vars(fresh).items()}
    before = [null.pool.x.clone(), *(each.clone() for each in null.released(0).state_dict().values())]
    np.testing.assert_array_equal(member(name).scores(fresh, member(name).Params()), scored(name))
    for key, value in copies.items():
        np.testing.assert_array_equal(vars(fresh)[key], value)
    assert all(map(torch.equal, before, [null.pool.x, *null.released(0).state_dict().values()]))


@every_membership
def test_predictions_independent_of_membership_leak_nothing(
    name: str, null: Evidence, scored: Scored
) -> None:
    metrics = evaluate(scored(name), null.members, dependence_of(member(name)))
    # The other targets' masks enter a score, so results of targets are correlated: twice the
    # variance of independent ones.
    deviation = np.sqrt(2 * (RECORDS + 1) / (12 * (RECORDS / 2) ** 2) / MODELS)
    assert abs(known(metrics.auc) - 0.5) < 4 * deviation
    assert abs(known(metrics.auc_pooled) - 0.5) < 4 * deviation
    assert abs(known(metrics.advantage)) < 0.06


@pytest.mark.parametrize("name", [name for name in MEMBERSHIP if name not in {"blind", *KNOWS_OTHERS}])
def test_row_m_does_not_know_its_own_members(name: str, null: Evidence, scored: Scored) -> None:
    before = scored(name)
    for m in (0, MODELS - 1):
        members = null.members.copy()
        members[m] = np.random.default_rng(m).permutation(members[m])
        after = member(name).scores(replace(null, members=members), member(name).Params())
        np.testing.assert_array_equal(after[m], before[m])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(KNOWS_OTHERS))
def test_a_score_does_not_know_the_membership_of_its_own_record(
    name: str, null: Evidence, scored: Scored
) -> None:
    """This must hold even if the membership of other records of the target is known."""
    for m, record in ((0, 0), (MODELS - 1, RECORDS // 2), (MODELS - 1, RECORDS - 1)):
        members = null.members.copy()
        members[m, record] = not members[m, record]
        after = member(name).scores(replace(null, members=members), member(name).Params())
        assert after[m, record] == scored(name)[m, record]


@every_membership
def test_members_that_were_set_aside_are_neither_in_nor_out(name: str, null: Evidence) -> None:
    """Whether they count as members or non-members, scores do not depend on them and they are not judged."""
    few = replace(
        null,
        logits=null.logits[:FEWER],
        members=null.members[:FEWER],
        population_logits=null.population_logits[:FEWER],
    )
    aside = few.members & (np.random.default_rng(0).random(few.members.shape) < 0.3)
    taken_for = [few.members, few.members & ~aside]
    one, other = (
        judge(name, member(name), replace(few, members=each, set_aside=aside), member(name).Params(), [])
        for each in taken_for
    )
    assert one.outcome == other.outcome
    assert isinstance(one.outcome, Membership)
    assert one.outcome.metrics.n_members == int((few.members & ~aside).sum())
    assert one.outcome.metrics.n_nonmembers == int((~few.members).sum())
    own, others = (load(each.artefacts["scores.safetensors"])["scores"] for each in (one, other))
    np.testing.assert_array_equal(own, others)


@every_membership
@pytest.mark.parametrize("models", [1, 2, 3])
def test_few_models_still_give_numbers(name: str, models: int, null: Evidence) -> None:
    """The plan checks whether a cell has enough shadows, not the attack."""
    few = replace(
        null,
        logits=null.logits[:models],
        members=null.members[:models],
        population_logits=null.population_logits[:models],
    )
    scores = member(name).scores(few, member(name).Params())
    assert scores.shape == (models, RECORDS)
    assert np.isfinite(scores).all()


@every_model_attack
def test_it_finds_members_of_models_that_memorise(name: str, recalled: Evidence) -> None:
    scores = member(name).scores(recalled, member(name).Params())
    found = evaluate(scores, recalled.members, dependence_of(member(name)))
    assert known(found.auc_low) > 0.55


@every_model_attack
def test_non_finite_predictions_are_refused(name: str, null: Evidence) -> None:
    """A clear error, from the attack or from the judge, for stored predictions and for queried ones."""
    logits = null.logits.copy()
    logits[1, 3] = np.nan
    broken = nn.Linear(CLASSES, CLASSES)
    nn.init.constant_(broken.weight, np.nan)
    evidence = replace(null, logits=logits, released=lambda m: broken if m == 1 else null.released(m))
    with pytest.raises(BenchError, match="NaN"):
        judge(name, member(name), evidence, member(name).Params(), [])


@every_membership
def test_models_trained_on_all_records_cannot_be_judged(name: str, null: Evidence) -> None:
    everybody = replace(null, members=np.ones_like(null.members))
    with pytest.raises(BenchError, match="0 non-members"):
        scores = member(name).scores(everybody, member(name).Params())
        evaluate(scores, everybody.members, dependence_of(member(name)))


@every_model_attack
def test_models_with_constant_predictions_leak_nothing(name: str, masks: Callable[..., Bools]) -> None:
    """Constant predictions, and records of a single class: the others are empty."""
    random, models, count = np.random.default_rng(1), 4, 200
    constant = nn.Linear(CLASSES, CLASSES)
    nn.init.zeros_(constant.weight)
    one_class = [Records(draw(random, count).x, torch.zeros(count, dtype=torch.int64)) for _ in range(2)]
    members = masks(random, models, count, count // 2)
    evidence = evidence_of([constant.eval()] * models, one_class[0], one_class[1], members)
    scores = member(name).scores(evidence, member(name).Params())
    assert np.isfinite(scores).all()
    deviation = np.sqrt(2 * (count + 1) / (12 * (count / 2) ** 2) / models)
    assert abs(known(evaluate(scores, members, "alone").auc) - 0.5) < 4 * deviation
