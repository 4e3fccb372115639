"""Turn the output of an attack into an outcome: the harness judges, an attack never does."""

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
    """Run an attack and judge its output.

    Args:
        name: Of the attack; `blind` also decides whether the cell is valid.
        attacker: A member of harness.attacks.
        evidence: Of the cell.
        params: An instance of the attack's Params.
        guarantees: Of the cell's models, in order.
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
    raise BenchError(f"attack {name} is of no known kind: see docs/add-an-attack.md")


def score(attacker: Attack, evidence: Evidence, params: Any) -> Floats:
    """(M, n) scores; with shadows of another method each target is attacked separately."""
    if evidence.shadow_logits is None:
        return np.asarray(attacker.scores(evidence, params), dtype=np.float64)
    targets = range(len(evidence.logits))
    return np.stack([attacker.scores(evidence.against(target), params)[target] for target in targets])


def score_apart(attacker: Attack, evidence: Evidence, params: Any) -> Floats | None:
    """(M, n): row m scored with only the models of its own half of the cell as shadows.

    For attacks with one statistic per record, whose intervals need two disjoint halves; None for others, and
    if a half has too few models.
    """
    models = len(evidence.members)
    if dependence_of(attacker) != "record" or models < max(HALVED, 2 * (attacker.shadows + 1)):
        return None
    scores = np.empty(evidence.members.shape)
    for half in halves(models):
        scores[half] = score(attacker, evidence.only(half), params)
    return scores


def membership(attacker: Attack, evidence: Evidence, params: Any, checks_split: bool) -> Made:
    """AUC, TPR and the other figures of pool records; canaries separately, as the worst case."""
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
    """Run the declared attacks on the same evidence and report the strongest."""
    stored: Arrays = {"members": evidence.members, "phi": evidence.phi, **left_out(evidence)}
    stored["correct"] = evidence.population_logits.argmax(axis=2) == evidence.population_labels
    if measurable(evidence) and len(evidence.members) > attacker.shadows:
        for name, each in attacker.candidates().items():
            stored[f"scores/{name}"] = score(each, evidence, each.Params())
            apart = score_apart(each, evidence, each.Params())
            stored |= {} if apart is None else {f"half/{name}": apart}
    return Made(recompute(stored, "record", evidence.canaries), {"scores.safetensors": save(stored)})


def measurable(evidence: Evidence) -> bool:
    """Whether every target has members and non-members among the pool records."""
    own = slice(evidence.members.shape[1] - evidence.canaries)
    return one_sided(evidence.included[:, own], evidence.excluded[:, own]) is None


def left_out(evidence: Evidence) -> Arrays:
    """The mask of records that count as neither member nor non-member, if a method set members aside."""
    return {} if evidence.evaluated.all() else {"set_aside": ~evidence.evaluated}


def lower_bound(audit: Audit, evidence: Evidence, params: Any, guarantees: list[PricedGuarantee]) -> Made:
    """Lower bound on epsilon from canaries; an alarm if it exceeds the computed epsilon."""
    if not evidence.canaries:
        raise BenchError(
            "the cell has no canaries to audit: give canary and canaries in the grid",
            field="canaries",
            value=0,
        )
    delta = max((each.delta for each in guarantees if each.delta is not None), default=DELTA)
    found = audit.bound(evidence, params, delta)
    prices = [each.epsilon for each in guarantees if each.epsilon is not None]
    priced = max(prices) if len(prices) == len(guarantees) else None
    claims = [each.epsilons["paper"] for each in guarantees if "paper" in each.epsilons]
    above = priced is not None and found.epsilon > priced
    message = None
    if above:
        message = (
            f"epsilon is at least {found.epsilon:.3g} (confidence {found.confidence:g}), above the computed "
            f"{priced:.3g}: the method deviates from its ledger, or the accounting is wrong"
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
    """Accuracy of guessing the sensitive attribute of members and non-members; canaries are left out."""
    guesses, members = attacker.guesses(evidence, params), evidence.members
    own = members.shape[1] - evidence.canaries
    found = attribute_metrics.evaluate(guesses, members, own, evidence.evaluated)
    kept = {name: getattr(guesses, name) for name in ("truth", "guessed", "imputed")}
    return Made(
        InferenceOutcome(attribute=dataclasses.asdict(found)),
        artefacts={
            "guesses.safetensors": save({**kept, "members": members, "set_aside": ~evidence.evaluated})
        },
    )
