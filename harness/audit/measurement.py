"""The attacks that given outputs allow, by the same scores, figures and intervals as those of a sweep; no "
"torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.audit.leakage_audit import AttackFigures, SkippedAttack, SplitCheck, WorstRecord
from harness.audit.pairing import CHANCE, LEANING, Pairing, leaning_chance
from harness.leakage.declared import TEMPERATURE
from harness.leakage.figures import BLIND_LEVEL, blind_chance, evaluate
from harness.leakage.influence import Scored
from harness.leakage.intervals import DEPENDENCE
from harness.leakage.matrices import Bools, Floats
from harness.leakage.ranks import population_ranks
from harness.leakage.scoring import lira_bayes, lira_offline, loss, rmia
from harness.leakage.split_prediction import predict_membership
from harness.members.manifest import shipped
from harness.store.outcomes import Curve

RANKED = ("strongest", "lira", "rmia", "loss", "label-only")
"""The headline is the first of these that was run: fixed in advance, since the highest of several is too "
"high."""
QUERYING = ("label-only", "white-box")
"""Attacks that need the model itself (harness/audit/target_model.py)."""
WORST = 10
"""Members that a result lists, at most."""
RATE = 0.01
"""False alarms at which a record counts as found."""


@dataclass(frozen=True)
class Attack:
    """An attack on given outputs."""

    shadows: int
    """The fewest that it needs."""
    needs: str
    scores: Callable[[Pairing], Floats]
    """(1 + K, n), of which the audited model's row counts."""


def _lira(pairing: Pairing) -> Floats:
    return lira_bayes(pairing.phi, pairing.truth, ~pairing.truth)


def _rmia(pairing: Pairing) -> Floats:
    others = pairing.calibrating(TEMPERATURE)
    return rmia(pairing.tempered, pairing.truth, ~pairing.truth, others)


ATTACKS: dict[str, Attack] = {
    "loss": Attack(0, "the model's output on the record", lambda pairing: loss(pairing.phi)),
    "population": Attack(
        0,
        "the same, and records that the model was not trained on",
        lambda pairing: -population_ranks(pairing.phi, pairing.calibrating()),
    ),
    "reference": Attack(
        2,
        "the same, and models that were not trained on the record",
        lambda pairing: lira_offline(pairing.phi, ~pairing.truth, fixed=False),
    ),
    "lira": Attack(2, "the same, and shadow models with and without the record", _lira),
    "rmia": Attack(1, "the same, shadow models and records that no model was trained on", _rmia),
}
"""In the order of the page."""


@dataclass(frozen=True)
class Measured:
    """The figures of the attacks that were run, their scores, and those that were not."""

    figures: list[AttackFigures]
    skipped: list[SkippedAttack]
    scores: dict[str, Floats]
    """(n,) of each attack."""
    warnings: list[str]


def measure(pairing: Pairing, asked: Sequence[str] | None = None) -> Measured:
    """Run the attacks on outputs; `asked` names some of them."""
    figures, skipped, scores = [], [], {}
    reason, warnings = _of_shadows(pairing)
    for name, attack in ATTACKS.items():
        if asked is not None and name not in asked:
            continue
        why = reason if attack.shadows else None
        if pairing.shadows < attack.shadows:
            why = f"needs the outputs of {attack.shadows} shadow models or more, was given {pairing.shadows}"
        if why is not None:
            skipped.append(SkippedAttack(attack=name, reason=why))
            continue
        scores[name] = attack.scores(pairing)[0]
        figures.append(judge(name, scores[name], pairing.truth[0], attack.needs, _note(name, pairing)))
    return Measured(figures, skipped, scores, warnings)


def judge(name: str, scores: Floats, members: Bools, needs: str, note: str | None = None) -> AttackFigures:
    """The figures of one attack on one model, from its scores of all records."""
    facts = shipped()["members"]["attack"][name]
    matrix, truth = scores[None], members[None]
    return AttackFigures(
        attack=name,
        version=facts["version"],
        about=facts["about"],
        source=facts["source"],
        needs=needs,
        metrics=evaluate(matrix, truth, DEPENDENCE[name]),
        roc=Curve(**Scored(matrix, truth).roc.drawn()),
        note=note,
    )


def choose_headline(figures: Sequence[AttackFigures]) -> str:
    """The attack that is stated first."""
    names = [each.attack for each in figures]
    return next((name for name in RANKED if name in names), names[0])


def check_split(pairing: Pairing) -> SplitCheck:
    """The blind check: a classifier that sees the records and no model."""
    features, labels = pairing.features, pairing.labels
    if features is None and pairing.members.labels is None:
        message = (
            "not checked, for want of features and labels: that members and others are alike is your word"
        )
        return SplitCheck(reads="labels", valid=None, message=message)
    reads = "labels" if features is None else "features and labels"
    columns = np.zeros((len(labels), 0), dtype=np.float32) if features is None else complete(features)
    truth = pairing.truth[:1]
    scores = predict_membership(columns, labels, truth, np.ones_like(truth))
    found = evaluate(scores, truth, "alone")
    chance = blind_chance(found)
    seen = f"a classifier that sees {reads} and no model has an AUC of {found.auc:.3f} (p = {chance:.2g})"
    if chance < BLIND_LEVEL:
        text = (
            f"{seen}: members and others differ by themselves, as sets do that were split by date or by "
            "source. What "
            "is measured here is that difference, not leakage: draw members and others at random from one "
            "source"
        )
    else:
        more = "" if features is not None else "; give features for a check that sees more"
        text = f"{seen}: no sign that members differ from others{more}"
    return SplitCheck(
        reads="features and labels" if features is not None else "labels",
        valid=chance >= BLIND_LEVEL,
        auc=found.auc,
        auc_low=found.auc_low,
        auc_high=found.auc_high,
        message=text,
    )


def complete(
    features: np.ndarray[tuple[int, ...], np.dtype[np.float32]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Features without gaps: means for missing values, and columns that say where they were missing."""
    missing = ~np.isfinite(features)
    gaps = missing.any(axis=0)
    if not gaps.any():
        return features
    known = np.where(missing, 0, features)
    counts = np.maximum((~missing).sum(axis=0), 1)
    filled = np.where(missing, known.sum(axis=0, dtype=np.float64) / counts, features)
    return np.hstack([filled, missing[:, gaps]]).astype(np.float32)


def find_worst(scores: Floats, pairing: Pairing) -> list[WorstRecord]:
    """The members with the highest scores, and the share of others that score as high."""
    split = len(pairing.members)
    own, others = scores[:split], np.sort(scores[split:])
    above = len(others) - np.searchsorted(others, own, side="left")
    rates = (above + 1) / (len(others) + 1)
    order = np.lexsort((np.arange(split), -own))[:WORST]
    ids, labels = pairing.members.ids, pairing.members.labels
    return [
        WorstRecord(
            record=int(row),
            id=None if ids is None else str(ids[row]),
            label=None if labels is None else int(labels[row]),
            fpr=float(rates[row]),
            flagged=int(rates[row] <= RATE),
        )
        for row in order
    ]


def _of_shadows(pairing: Pairing) -> tuple[str | None, list[str]]:
    """Why shadows cannot be used, and what is remarkable about them."""
    if not pairing.shadows:
        return None, []
    chance = leaning_chance(pairing)
    if chance >= CHANCE:
        return None, []
    text = (
        f"the shadows were trained on {pairing.members.shadow_members.mean():.0%} of the members and "
        f"{pairing.others.shadow_members.mean():.0%} of the others (p = {chance:.2g})"
    )
    if abs(pairing.leaning) > LEANING:
        advice = "draw the shadows' records without looking at the audited model's"
        return f"{text}: an attack would read membership off the shadows; {advice}", []
    return None, [f"{text}: attacks with shadows may read membership off that difference"]


def _note(name: str, pairing: Pairing) -> str | None:
    if name == "population":
        return "for one model the order of the loss, so it has the figures of `loss`"
    if name == "rmia" and pairing.members.signal == "losses":
        return (
            f"at temperature 1, since losses do not hold the other classes; with logits it is {TEMPERATURE:g}"
        )
    if name == "lira" and not pairing.truth[1:].any():
        return "no shadow was trained on any of these records: the gap between members and others is assumed"
    return None
