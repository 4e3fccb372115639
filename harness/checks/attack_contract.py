"""The contract of attacks, on simulated models that leak nothing, or memorise their members."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from safetensors.numpy import load
from torch import nn

from harness import attacks
from harness.attacks.base import (
    Attack,
    Attacker,
    Audit,
    Evidence,
    Floats,
    Informed,
    Selection,
    dependence_of,
)
from harness.attacks.parts.attribute_metrics import Inference
from harness.attacks.parts.inversion import Inversion
from harness.checks.contract import Broken, Check, Contract, Skipped, demand, part_of
from harness.checks.simulated_models import (
    CLASSES,
    FEWER,
    MODELS,
    RECORDS,
    draw,
    draw_masks,
    evidence_of,
    first_models,
    null_evidence,
    recalled_evidence,
)
from harness.jobs.judge import judge
from harness.leakage.figures import evaluate
from harness.plan.plan import ALWAYS
from harness.store.outcomes import Membership
from methods.base import Params
from workloads.base import Records
from workloads.errors import BenchError

SIGMAS = 4
NULL_ADVANTAGE = 0.06
FOUND_AUC = 0.55


@dataclass(frozen=True)
class CheckedAttack:
    """An attack, and its scores on models that leak nothing."""

    name: str

    @cached_property
    def attacker(self) -> Attacker:
        """The attack, of any kind."""
        return attacks.family.get(self.name)

    @property
    def member(self) -> Attack:
        """The membership attack; the check is skipped for another kind."""
        if not isinstance(self.attacker, Attack):
            raise Skipped("it is no membership attack: it gives no scores")
        return self.attacker

    @property
    def on_models(self) -> Attack:
        """The membership attack; the check is skipped for the blind check."""
        if self.name == ALWAYS.name:
            raise Skipped("the blind check is about the split, not about models")
        return self.member

    @cached_property
    def params(self) -> Params:
        """The default parameters."""
        return self.attacker.Params()

    @cached_property
    def scored(self) -> Floats:
        """Scores on models that leak nothing, computed once: some attacks train classifiers."""
        return self.member.scores(null_evidence(), self.params)

    def score(self, evidence: Evidence) -> Floats:
        """Scores on other evidence."""
        return self.member.scores(evidence, self.params)


ATTACK: Contract[CheckedAttack] = []


def deviation(records: int, models: int) -> float:
    """Of the AUC of scores that say nothing. The other targets' masks enter a score, so results of targets
    are correlated: twice the variance of independent ones."""
    return float(np.sqrt(2 * (records + 1) / (12 * (records / 2) ** 2) / models))


def measured(figure: float | None, name: str) -> float:
    """A figure that was measured."""
    if figure is None:
        raise Broken(f"{name} could not be measured")
    return figure


@part_of(
    ATTACK,
    "describes itself",
    "version, about, source, caveats and shadows are given; every parameter has a description and a default",
    "give the class attributes as in the guide, and Field(default=..., description=...) for each parameter",
)
def describes_itself(subject: CheckedAttack) -> None:
    """Its declarations are complete, and it is of a known kind."""
    attacker = subject.attacker
    for field in ("version", "about", "source"):
        found = getattr(attacker, field, None)
        demand(isinstance(found, str) and bool(found), f"{field} = {found!r}: give a text")
    demand(
        isinstance(getattr(attacker, "caveats", None), tuple), "caveats are missing: give a tuple of texts"
    )
    demand(all(attacker.caveats), "a caveat is empty")
    shadows = getattr(attacker, "shadows", None)
    demand(isinstance(shadows, int) and shadows >= 0, f"shadows = {shadows!r}: give a number from 0")
    demand(issubclass(attacker.Params, Params), "Params is no subclass of privbench.Params")
    bare = [name for name, info in attacker.Params.model_fields.items() if not info.description]
    demand(not bare, f"no description: {', '.join(bare)}")
    needed = [name for name, info in attacker.Params.model_fields.items() if info.is_required()]
    demand(not needed, f"no default: {', '.join(needed)}")
    known = isinstance(attacker, Attack | Selection | Audit | Inversion | Inference)
    demand(known, "it has none of scores, candidates, bound, guesses and rebuild")
    dependence_of(attacker)


@part_of(
    ATTACK,
    "one finite score each",
    "scores are float64, finite, one per target and record",
    "return an (M, n) array; give a record without evidence the score that means so, never NaN",
)
def scores_are_finite(subject: CheckedAttack) -> None:
    """(M, n) float64."""
    scores = subject.scored
    demand(isinstance(scores, np.ndarray), f"scores() returned a {type(scores).__name__}, not an array")
    demand(scores.shape == (MODELS, RECORDS), f"shape {scores.shape} instead of {(MODELS, RECORDS)}")
    demand(scores.dtype == np.float64, f"scores are {scores.dtype}, not float64")
    demand(bool(np.isfinite(scores).all()), f"{int((~np.isfinite(scores)).sum()):,} scores are not finite")


@part_of(
    ATTACK,
    "same input, same output",
    "the same evidence gives the same scores and is left as it was: all attacks of a cell share it",
    "take randomness from numpy.random.default_rng(params.seed), and copy arrays before changing them",
)
def is_a_function(subject: CheckedAttack) -> None:
    """Repeatable, without side effects."""
    null, scored = null_evidence(), subject.scored
    fresh = replace(null)  # nothing remembered in the evidence
    copies = {key: np.copy(value) for key, value in vars(fresh).items() if isinstance(value, np.ndarray)}
    before = [null.pool.x.clone(), *(each.clone() for each in null.released(0).state_dict().values())]
    again = subject.score(fresh)
    for key, value in copies.items():
        demand(np.array_equal(vars(fresh)[key], value), f"it changed evidence.{key}")
    after = [null.pool.x, *null.released(0).state_dict().values()]
    demand(all(map(torch.equal, before, after)), "it changed the records or a model")
    demand(np.array_equal(again, scored), "the same evidence gave other scores")


@part_of(
    ATTACK,
    "nothing where nothing leaks",
    "predictions that do not depend on membership give an AUC of 0.5 within its error",
    "look for a use of members[m] in row m, or of a threshold chosen on the scores it is judged by",
)
def finds_nothing_in_nothing(subject: CheckedAttack) -> None:
    """No leakage of models that never saw their members."""
    metrics = evaluate(subject.scored, null_evidence().members, dependence_of(subject.member))
    most = SIGMAS * deviation(RECORDS, MODELS)
    for name in ("auc", "auc_pooled"):
        found = measured(getattr(metrics, name), name)
        demand(abs(found - 0.5) < most, f"{name} = {found:.3f} on models that leak nothing")
    found = measured(metrics.advantage, "advantage")
    demand(abs(found) < NULL_ADVANTAGE, f"advantage = {found:.3f} on models that leak nothing")


@part_of(
    ATTACK,
    "row m does not know its members",
    "the scores of a target do not change with its membership mask: that is the question",
    "use members, included, excluded and evaluated of the other rows only, as leave_one_out does",
)
def is_ignorant(subject: CheckedAttack) -> None:
    """Other members of target m, the same row m."""
    null = null_evidence()
    if isinstance(subject.on_models, Informed) and subject.on_models.knows_others:
        raise Skipped("it declares knows_others; see the next check")
    for m in (0, MODELS - 1):
        members = null.members.copy()
        members[m] = np.random.default_rng(m).permutation(members[m])
        after = subject.score(replace(null, members=members))
        demand(np.array_equal(after[m], subject.scored[m]), f"row {m} changed with members[{m}]")


@part_of(
    ATTACK,
    "no score knows its own record",
    "an attack with partial training knowledge does not use the membership of the record that it scores",
    "score each record by what was learnt on the others",
)
def is_ignorant_of_the_record(subject: CheckedAttack) -> None:
    """Another membership of one record, the same score of it."""
    null = null_evidence()
    if not (isinstance(subject.member, Informed) and subject.member.knows_others):
        raise Skipped("it does not declare knows_others (privbench.Informed)")
    for m, record in ((0, 0), (MODELS - 1, RECORDS // 2), (MODELS - 1, RECORDS - 1)):
        members = null.members.copy()
        members[m, record] = not members[m, record]
        after = subject.score(replace(null, members=members))
        unchanged = after[m, record] == subject.scored[m, record]
        demand(unchanged, f"the score of record {record} in row {m} changed with its membership")


@part_of(
    ATTACK,
    "members that were set aside",
    "records that a method set aside count neither as members nor as non-members",
    "learn on included and excluded instead of members",
)
def leaves_out_what_was_set_aside(subject: CheckedAttack) -> None:
    """Scores do not depend on whether they count as members, and they are not judged."""
    few = first_models(null_evidence(), FEWER)
    aside = few.members & (np.random.default_rng(0).random(few.members.shape) < 0.3)
    one, other = (
        judge(subject.name, subject.member, replace(few, members=each, set_aside=aside), subject.params, [])
        for each in (few.members, few.members & ~aside)
    )
    own, others = (load(each.artefacts["scores.safetensors"])["scores"] for each in (one, other))
    demand(np.array_equal(own, others), "scores depend on records that were set aside")
    demand(one.outcome == other.outcome, "figures depend on records that were set aside")
    if not isinstance(one.outcome, Membership):
        raise Broken(f"it was judged as {type(one.outcome).__name__}")
    metrics = one.outcome.metrics
    demand(metrics.n_members == int((few.members & ~aside).sum()), f"{metrics.n_members} members were judged")
    demand(metrics.n_nonmembers == int((~few.members).sum()), f"{metrics.n_nonmembers} non-members")


@part_of(
    ATTACK,
    "one, two or three models",
    "few models still give finite scores: the plan checks whether there are enough shadows",
    "give every record a number, also without any shadow",
)
def takes_few_models(subject: CheckedAttack) -> None:
    """Finite scores of the right shape."""
    for models in (1, 2, 3):
        scores = subject.score(first_models(null_evidence(), models))
        demand(scores.shape == (models, RECORDS), f"shape {scores.shape} with {models} models")
        demand(bool(np.isfinite(scores).all()), f"scores are not finite with {models} models")


@part_of(
    ATTACK,
    "finds members that were memorised",
    f"on models that plainly memorise their members the AUC is above {FOUND_AUC}",
    "look at the sign: higher scores mean members",
)
def finds_memorised_members(subject: CheckedAttack) -> None:
    """It works where that is easy."""
    member, recalled = subject.on_models, recalled_evidence()
    found = evaluate(subject.score(recalled), recalled.members, dependence_of(member))
    low = measured(found.auc_low, "auc")
    demand(low > FOUND_AUC, f"AUC {measured(found.auc, 'auc'):.3f}, at least {low:.3f}")


@part_of(
    ATTACK,
    "NaN is refused",
    "predictions with NaN end in a clear error, of the attack or the harness: no figure is made of them",
    "let NaN pass into the scores; do not replace it by a number",
)
def refuses_nan(subject: CheckedAttack) -> None:
    """Stored predictions and queried ones."""
    member, null = subject.on_models, null_evidence()
    logits = null.logits.copy()
    logits[1, 3] = np.nan
    broken = nn.Linear(CLASSES, CLASSES)
    nn.init.constant_(broken.weight, np.nan)
    evidence = replace(null, logits=logits, released=lambda m: broken if m == 1 else null.released(m))
    try:
        judge(subject.name, member, evidence, subject.params, [])
    except BenchError as error:
        demand("NaN" in str(error), f"the error does not say so: {error}")
    else:
        raise Broken("it gave figures for predictions with NaN")


@part_of(
    ATTACK,
    "no non-members, no figures",
    "models trained on all records cannot be judged, and that is said",
    "return scores, or raise a BenchError",
)
def needs_nonmembers(subject: CheckedAttack) -> None:
    """A clear error."""
    null = null_evidence()
    everybody = replace(null, members=np.ones_like(null.members))
    try:
        evaluate(subject.score(everybody), everybody.members, dependence_of(subject.member))
    except BenchError as error:
        demand("0 non-members" in str(error), f"the error does not say so: {error}")
    else:
        raise Broken("it gave figures without non-members")


@part_of(
    ATTACK,
    "constant predictions",
    "constant predictions on records of a single class give finite scores and an AUC of 0.5",
    "guard divisions by a spread of 0, and classes without records",
)
def takes_constant_predictions(subject: CheckedAttack) -> None:
    """Constant predictions, and records of a single class: the others are empty."""
    member = subject.on_models
    random, models, count = np.random.default_rng(1), 4, 200
    constant = nn.Linear(CLASSES, CLASSES)
    nn.init.zeros_(constant.weight)
    one_class = [Records(draw(random, count).x, torch.zeros(count, dtype=torch.int64)) for _ in range(2)]
    members = draw_masks(random, models, count, count // 2)
    evidence = evidence_of([constant.eval()] * models, one_class[0], one_class[1], members)
    scores = member.scores(evidence, subject.params)
    demand(bool(np.isfinite(scores).all()), "scores are not finite")
    found = measured(evaluate(scores, members, "alone").auc, "auc")
    demand(abs(found - 0.5) < SIGMAS * deviation(count, models), f"AUC = {found:.3f}")


def attack_checks(name: str) -> tuple[list[Check[CheckedAttack]], CheckedAttack]:
    """The contract, and the attack as its subject; UnknownName if there is none."""
    attacks.family.get(name)
    return ATTACK, CheckedAttack(name)
