"""From what an attack found to what a result says: the harness judges, an attack never does."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from harness.attacks.base import Attack, Attacker, Audit, Evidence, Floats, Selection, dependence_of
from harness.attacks.parts import attribute_metrics
from harness.attacks.parts.attribute_metrics import Inference
from harness.attacks.parts.inversion import Inversion
from harness.jobs.reconstruction import invert
from harness.jobs.train import DELTA, Made
from harness.leakage.figures import recompute
from harness.leakage.influence import one_sided
from harness.leakage.intervals import HALVED, halves
from harness.store.outcomes import Audited, AuditOutcome, InferenceOutcome, PricedGuarantee
from workloads.errors import BenchError

Arrays = dict[str, NDArray[Any]]


def judge(
    name: str, attacker: Attacker, evidence: Evidence, params: Any, guarantees: list[PricedGuarantee]
) -> Made:
    """Run an attack and judge it by what it gives.

    Args:
        name: of the attack; the blind check's also decides whether the cell is valid.
        attacker: a member of harness.attacks.
        evidence: of the cell.
        params: of the attack's own kind.
        guarantees: of the cell's models, in their order, as priced.
    """
    if isinstance(attacker, Attack):
        return membership(attacker, evidence, params, checks_split=name == "blind")
    if isinstance(attacker, Selection):
        return strongest(attacker, evidence)
    if isinstance(attacker, Audit):
        return lower_bound(attacker, evidence, params, guarantees)
    if isinstance(attacker, Inversion):
        return invert(attacker, evidence, params)
    if isinstance(attacker, Inference):
        return inferred(attacker, evidence, params)
    raise BenchError(f"attack {name} gives nothing that can be judged: docs/add-an-attack.md says what can")


def score(attacker: Attack, evidence: Evidence, params: Any) -> Floats:
    """(M, n) scores; with shadows of another method every target is attacked on its own."""
    if evidence.shadow_logits is None:
        return np.asarray(attacker.scores(evidence, params), dtype=np.float64)
    targets = range(len(evidence.logits))
    return np.stack([attacker.scores(evidence.against(target), params)[target] for target in targets])


def score_apart(attacker: Attack, evidence: Evidence, params: Any) -> Floats | None:
    """(M, n): row m scored with only the models of its own half of the cell as shadows.

    For attacks with one statistic per record, whose intervals need two halves that share nothing; None for
    others and where a half has too few models.
    """
    models = len(evidence.members)
    if dependence_of(attacker) != "record" or models < max(HALVED, 2 * (attacker.shadows + 1)):
        return None
    scores = np.empty(evidence.members.shape)
    for half in halves(models):
        scores[half] = score(attacker, evidence.only(half), params)
    return scores


def membership(attacker: Attack, evidence: Evidence, params: Any, checks_split: bool) -> Made:
    """Scores of pool records to AUC, TPR and the rest; those of canaries apart, as the worst case."""
    dependence = dependence_of(attacker)
    stored: Arrays = {"members": evidence.members, **left_out(evidence)}
    if measurable(evidence):
        stored["scores"] = score(attacker, evidence, params)
        apart = score_apart(attacker, evidence, params)
        stored |= {} if apart is None else {"half_scores": apart}
    phi = None if checks_split else evidence.phi
    found = recompute(stored, dependence, evidence.canaries, phi, checks_split)
    outcome = found.model_copy(update={"dependence": dependence})
    return Made(outcome, {"scores.safetensors": save(stored)})


def strongest(attacker: Selection, evidence: Evidence) -> Made:
    """The declared attacks on the same evidence, and the figures of the strongest of them."""
    stored: Arrays = {"members": evidence.members, "phi": evidence.phi, **left_out(evidence)}
    stored["correct"] = evidence.population_logits.argmax(axis=2) == evidence.population_labels
    if measurable(evidence) and len(evidence.members) > attacker.shadows:
        for name, each in attacker.candidates().items():
            stored[f"scores/{name}"] = score(each, evidence, each.Params())
            apart = score_apart(each, evidence, each.Params())
            stored |= {} if apart is None else {f"half/{name}": apart}
    return Made(recompute(stored, "record", evidence.canaries), {"scores.safetensors": save(stored)})


def measurable(evidence: Evidence) -> bool:
    """Whether every target has members and non-members among the pool's own records."""
    own = slice(evidence.members.shape[1] - evidence.canaries)
    return one_sided(evidence.included[:, own], evidence.excluded[:, own]) is None


def left_out(evidence: Evidence) -> Arrays:
    """Who counts as neither member nor non-member, where a method set members aside."""
    return {} if evidence.evaluated.all() else {"set_aside": ~evidence.evaluated}


def lower_bound(audit: Audit, evidence: Evidence, params: Any, guarantees: list[PricedGuarantee]) -> Made:
    """What canaries prove about epsilon, beside the price; a proof above the price is an alarm."""
    if not evidence.canaries:
        raise BenchError("the cell has no canaries to audit: give canary and canaries in the grid")
    delta = max((each.delta for each in guarantees if each.delta is not None), default=DELTA)
    found = audit.bound(evidence, params, delta)
    prices = [each.epsilon for each in guarantees if each.epsilon is not None]
    priced = max(prices) if len(prices) == len(guarantees) else None
    claims = [each.epsilons["paper"] for each in guarantees if "paper" in each.epsilons]
    above = priced is not None and found.epsilon > priced
    message = None
    if above:
        message = (
            f"epsilon is at least {found.epsilon:.3g} (confidence {found.confidence:g}), above the priced "
            f"{priced:.3g}: the method does not do what its ledger says, or the ledger is priced wrongly"
        )
    audited = Audited(
        **dataclasses.asdict(found),
        delta=delta,
        canaries=evidence.canaries,
        copies=evidence.copies,
        threat=evidence.threat,
        epsilon_priced=priced,
        epsilon_paper=max(claims, default=None),
        alarm=above,
        message=message,
    )
    return Made(AuditOutcome(audit=audited), {})


def inferred(attacker: Inference, evidence: Evidence, params: Any) -> Made:
    """How often a sensitive attribute is guessed, on members and on others; canaries have nothing to hide."""
    guesses, members = attacker.guesses(evidence, params), evidence.members
    people = members.shape[1] - evidence.canaries
    found = attribute_metrics.evaluate(guesses, members, people, evidence.evaluated)
    kept = {name: getattr(guesses, name) for name in ("truth", "guessed", "imputed")}
    return Made(
        InferenceOutcome(attribute=dataclasses.asdict(found)),
        artefacts={
            "guesses.safetensors": save({**kept, "members": members, "set_aside": ~evidence.evaluated})
        },
    )
