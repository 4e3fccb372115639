"""Measurements of a cell: every figure with its interval, as the program computes it."""

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import numpy as np

from harness.attacks import family
from harness.attacks.base import Attack, Evidence, dependence_of
from harness.jobs.judge import score, score_apart
from harness.leakage import comparison, intervals
from harness.leakage.candidates import FAMILY, Candidates
from harness.leakage.comparison import Measured, holm, paired_accuracy, paired_leakage, paired_strongest
from harness.leakage.figures import evaluate, evaluate_strongest
from harness.leakage.influence import Scored
from harness.leakage.matrices import Bools, Floats
from harness.store.outcomes import Leakage
from tests.campaigns.calibration.cells import Pool, masks, train

ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "loss": ("loss", {}),
    "lira bayes": ("lira", {}),
    "rmia": ("rmia", {}),
    "lira offline": ("lira", {"mode": "offline"}),
    "lira online": ("lira", {"mode": "online"}),
    "shadow (learned)": ("shadow", {}),
}
STRONGEST = "strongest"
DEFAULTS = ("loss", "lira bayes", "rmia", STRONGEST)
"""Figures whose coverage is bounded."""
CANDIDATES = {"loss": "loss", "lira": "lira bayes", "rmia": "rmia"}
"""The declared family, by our names."""
FIGURES = {"AUC": 0.5, "TPR@10 %": 0.1, "TPR@1 %": 0.01, "BA": 0.5}
"""Figures with their values without leakage."""

Interval = tuple[float | None, float | None, float | None]
"""A value, and the low and the high end."""
Found = dict[str, dict[str, Interval]]
"""By attack and figure."""


def measure(evidence: Evidence, names: Iterable[str] = (*ATTACKS, STRONGEST)) -> Found:
    """All figures of these attacks on a cell; of `strongest` the ones it defines."""
    wanted = list(names)
    scores: dict[str, Floats] = {}
    found: Found = {}
    for name in ATTACKS:
        if name not in wanted and not (STRONGEST in wanted and name in CANDIDATES.values()):
            continue
        attack, params = resolved(name)
        scores[name] = score(attack, evidence, params)
        if name in wanted:
            apart = score_apart(attack, evidence, params)
            metrics = evaluate(scores[name], evidence.members, dependence_of(attack), apart)
            found[name] = _of_metrics(metrics)
    if STRONGEST in wanted:
        candidates = Candidates.of(
            {name: scores[ours] for name, ours in CANDIDATES.items()}, evidence.members
        )
        found[STRONGEST] = _of_metrics(evaluate_strongest(candidates))
    return found


def resolved(name: str) -> tuple[Attack, Any]:
    """An attack with its parameters."""
    attack, params = ATTACKS[name]
    member = family.get(attack)
    assert isinstance(member, Attack)
    return member, member.Params(**params)


def _of_metrics(metrics: Leakage) -> dict[str, Interval]:
    def rate(label: str) -> Interval:
        found = metrics.tpr[label]
        return found.value, found.low, found.high

    area = metrics.auc, metrics.auc_low, metrics.auc_high
    found = {"AUC": area, "TPR@10 %": rate("0.1"), "TPR@1 %": rate("0.01")}
    if metrics.balanced_accuracy is None:
        return found
    halves = metrics.balanced_accuracy, metrics.balanced_accuracy_low, metrics.balanced_accuracy_high
    return {**found, "BA": halves}


METHODS = 4
"""Methods in a table of comparisons: three equal ones and a fourth; 6 pairs."""
PAIRS = list(combinations(range(METHODS), 2))
AXES = ("accuracy", "lira AUC", "lira TPR@1 %", "strongest AUC", "strongest TPR@1 %")
EQUAL, ONE_BETTER = "four equal methods", "three equal, the fourth leaks half as much"
TIMES = {EQUAL: 1.0, ONE_BETTER: 0.5}
"""The gaps of the fourth method relative to the others'."""
RATES = {"AUC": "auc", "TPR@1 %": "0.01"}
"""Figures by their names in comparisons."""


def compare(pool: Pool, models: int, times: float, random: np.random.Generator) -> dict[str, list[float]]:
    """One table of methods with shared members: for each axis the p-values of all pairs."""
    members = masks(models, random)
    common = random.normal(size=members.shape)
    pools = [pool] * (METHODS - 1) + [pool.leaking(times)]
    cells = [Attacked.of(train(each, members, random, common)) for each in pools]
    found: dict[str, list[float]] = {}
    for axis in AXES:
        compared = [_paired(axis)(cells[one], cells[other]) for one, other in PAIRS]
        found[axis] = [1.0 if each.p is None else each.p for each in compared]
    return found


def winners(p_values: list[float]) -> list[bool]:
    """Which pairs have a winner after Holm's correction."""
    return [adjusted is not None and adjusted < comparison.LEVEL for adjusted in holm(p_values)]


class Attacked:
    """A cell under the declared family, scored once for all comparisons."""

    def __init__(self, accuracy: Floats, members: Bools, scored: dict[str, Scored]) -> None:
        self.accuracy = accuracy
        self.scored = scored
        self.members = members
        self.apart: dict[str, tuple[Scored, Scored]] = {}
        self.strongest: dict[str, Measured] = {}

    @classmethod
    def of(cls, evidence: Evidence) -> "Attacked":
        """Score the cell, and its halves separately."""
        members, right = evidence.members, evidence.population_logits.argmax(axis=2)
        cell = cls((right == evidence.population_labels).mean(axis=1), members, {})
        for name in FAMILY:
            attack, params = resolved(CANDIDATES[name])
            scored = Scored(score(attack, evidence, params), members)
            cell.scored[name] = scored
            half_scores = score_apart(attack, evidence, params)
            apart = intervals.scored_apart(half_scores, scored, dependence_of(attack))
            cell.apart |= {} if apart is None else {name: apart}
        candidates = Candidates(cell.scored)
        for axis in RATES.values():
            cell.strongest[axis] = comparison.measure_strongest(axis, candidates, cell.apart)
        return cell


def _paired(axis: str) -> Callable[[Attacked, Attacked], comparison.Comparison]:
    """The paired test of an axis."""
    if axis == "accuracy":
        return lambda one, other: paired_accuracy(one.accuracy, other.accuracy)
    attack, figure = axis.split(" ", 1)
    rate = RATES[figure]
    if attack == STRONGEST:
        return lambda one, other: paired_strongest(one.strongest[rate], other.strongest[rate])
    return lambda one, other: paired_leakage(
        rate,
        one.scored[attack],
        other.scored[attack],
        FAMILY[attack],
        one.apart.get(attack),
        other.apart.get(attack),
    )
