"""One attack task: gather what the models of a cell said, score every record, measure."""

import numpy as np
from safetensors.numpy import load, save

import workloads
from harness import attacks
from harness.attacks import metrics
from harness.attacks.base import Evidence
from harness.spec import Task
from harness.store import Store
from harness.training import Outcome, same_version
from workloads.errors import StoreError


def attack(task: Task, store: Store) -> Outcome:
    """Run one attack on one cell: every model in turn is the target, the others are its shadows."""
    if task.attack is None:
        raise ValueError("an attack task names its attack")
    attacker = attacks.family.get(task.attack.name)
    same_version("attack", task.attack, attacker.version)
    evidence = gather(task, store)
    if task.attack.name == "blind" and evidence.members.all():
        # Asked of every cell, also of one that trains on its whole pool for the sake of its accuracy.
        return Outcome({"metrics": metrics.unmeasured(evidence.members), "roc": {"fpr": [], "tpr": []}}, {})
    scores = attacker.scores(evidence, attacker.Params(**task.attack_params))
    found = metrics.evaluate(scores, evidence.members)
    measured = found.asdict()
    if task.attack.name == "blind":
        valid, message = metrics.blind_verdict(found)
        measured |= {"valid": valid, "message": message}
    return Outcome(
        payload={"metrics": measured, "roc": metrics.roc(scores, evidence.members)},
        artefacts={"scores.safetensors": save({"scores": scores, "members": evidence.members})},
    )


def gather(task: Task, store: Store) -> Evidence:
    """The evidence of a cell from the signals of its trainings; no model is loaded."""
    signals = []
    for training in task.trainings():
        result = store.result(training.key)
        if result is None or result["status"] != "done":
            raise StoreError(f"training {training.key} has no result to attack")
        signals.append(load(store.read_artefact(result, "signals")))
    pool = workloads.family.get(task.cell.workload.name).pool()
    return Evidence(
        logits=np.stack([each["logits"] for each in signals]),
        labels=signals[0]["labels"],
        members=np.stack([each["members"] for each in signals]),
        population_logits=np.stack([each["test_logits"] for each in signals]),
        population_labels=signals[0]["test_labels"],
        features=pool.x.reshape(len(pool), -1).float().numpy(),
    )
