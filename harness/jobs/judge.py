"""From what an attack found to what a result says: the harness judges, an attack never does."""

import dataclasses
from typing import Any

import numpy as np
from safetensors.numpy import save

from harness.attacks import metrics
from harness.attacks.base import Attack, Attacker, Audit, Evidence, Floats
from harness.attacks.parts import attribute_metrics
from harness.attacks.parts.attribute_metrics import Inference
from harness.attacks.parts.inversion import Inversion
from harness.jobs.reconstruction import invert
from harness.jobs.train import DELTA, Outcome
from harness.spec import Json
from workloads.errors import BenchError


def judge(name: str, attacker: Attacker, evidence: Evidence, params: Any, guarantees: list[Json]) -> Outcome:
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
        return attacker.scores(evidence, params)
    targets = range(len(evidence.logits))
    return np.stack([attacker.scores(evidence.against(target), params)[target] for target in targets])


def membership(attacker: Attack, evidence: Evidence, params: Any, checks_split: bool) -> Outcome:
    """Scores of pool records to AUC, TPR and the rest; those of canaries apart, as the worst case."""
    if checks_split and evidence.members.all():
        # Asked of every cell, also of one that trains on its whole pool for the sake of its accuracy.
        return Outcome({"metrics": metrics.unmeasured(evidence.included), "roc": {"fpr": [], "tpr": []}}, {})
    scores, members, evaluated = score(attacker, evidence, params), evidence.members, evidence.evaluated
    people = members.shape[1] - evidence.canaries
    of_people = scores[:, :people], members[:, :people], evaluated[:, :people]
    found = metrics.evaluate(*of_people)
    measured = found.asdict() | metrics.per_record(*of_people)
    if evidence.canaries:
        of_canaries = scores[:, people:], members[:, people:], evaluated[:, people:]
        measured["canaries"] = metrics.of_canaries(*of_canaries)
    if checks_split:
        valid, message = metrics.blind_verdict(found)
        measured |= {"valid": valid, "message": message}
    return Outcome(
        payload={"metrics": measured, "roc": metrics.roc(*of_people)},
        artefacts={
            "scores.safetensors": save({"scores": scores, "members": members, "set_aside": ~evaluated})
        },
    )


def lower_bound(audit: Audit, evidence: Evidence, params: Any, guarantees: list[Json]) -> Outcome:
    """What canaries prove about epsilon, beside the price; a proof above the price is an alarm."""
    if not evidence.canaries:
        raise BenchError("the cell has no canaries to audit: give canary and canaries in the grid")
    delta = max((each["delta"] for each in guarantees if each["delta"] is not None), default=DELTA)
    found = audit.bound(evidence, params, delta)
    prices = [each["epsilon"] for each in guarantees]
    priced = None if None in prices else max(prices)
    claims = [each["epsilons"]["paper"] for each in guarantees if "paper" in (each.get("epsilons") or {})]
    above = priced is not None and found.epsilon > priced
    message = None
    if above:
        message = (
            f"epsilon is at least {found.epsilon:.3g} (confidence {found.confidence:g}), above the priced "
            f"{priced:.3g}: the method does not do what its ledger says, or the ledger is priced wrongly"
        )
    audited = {
        **dataclasses.asdict(found),
        "delta": delta,
        "canaries": evidence.canaries,
        "copies": evidence.copies,
        "threat": evidence.threat,
        "epsilon_priced": priced,
        "epsilon_paper": max(claims, default=None),
        "alarm": above,
        "message": message,
    }
    return Outcome({"audit": audited}, {})


def inferred(attacker: Inference, evidence: Evidence, params: Any) -> Outcome:
    """How often a sensitive attribute is guessed, on members and on others; canaries have nothing to hide."""
    guesses, members = attacker.guesses(evidence, params), evidence.members
    people = members.shape[1] - evidence.canaries
    found = attribute_metrics.evaluate(guesses, members, people, evidence.evaluated)
    kept = {name: getattr(guesses, name) for name in ("truth", "guessed", "imputed")}
    return Outcome(
        payload={"attribute": dataclasses.asdict(found)},
        artefacts={
            "guesses.safetensors": save({**kept, "members": members, "set_aside": ~evidence.evaluated})
        },
    )
