"""The leakage of a cell: that of the strongest declared attack, chosen for each target on other models.

The largest of several estimates is biased upwards, and one attack for all cells is too weak on some. So half
of the models choose the attack for the other half and vice versa, and the figure is the mean over fixed
splits into halves. It can be lower than a single attack's figure in the cell.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from harness.leakage import influence
from harness.leakage.influence import Figure, Scored
from harness.leakage.intervals import DEPENDENCE, Dependence, variance
from harness.leakage.matrices import Bools, Floats, Ints
from harness.leakage.roc import BETWEEN, Roc, calibrated

FAMILY: dict[str, Dependence] = {name: DEPENDENCE[name] for name in ("loss", "lira", "rmia")}
"""The declared attacks, with default parameters, in the order that decides ties: small, because every further
candidate adds to the bias of the choice."""
NEEDED = 3
"""Models that the family needs: a target and the two shadows of `lira`."""
SPLITS = 12


@dataclass(frozen=True)
class Strongest:
    """A figure of the strongest attack."""

    value: float
    error: float
    """The largest standard error of the candidates, without H."""
    chosen: dict[str, int]
    """How often each attack was chosen, over all splits and targets."""
    tied: float = 0.0


@dataclass(frozen=True)
class Candidates:
    """The scores of the declared attacks on one cell."""

    scored: Mapping[str, Scored]

    @classmethod
    def of(cls, scores: Mapping[str, Floats], members: Bools, evaluated: Bools | None = None) -> "Candidates":
        """From one matrix of scores for each attack of the family."""
        return cls({name: Scored(scores[name], members, evaluated) for name in FAMILY})

    @property
    def any(self) -> Scored:
        """Any of the attacks, for what they have in common."""
        return next(iter(self.scored.values()))

    def auc(self) -> Strongest:
        """The mean over splits of the mean over targets of the chosen attack's AUC."""
        per_target, error = self._by_auc
        picks = choose(per_target)
        # Calibration keeps the AUC of a target, so no scores have to be combined.
        value = per_target[picks, np.arange(self.any.models)].mean()
        return Strongest(float(value), error, self._count(picks))

    def tpr(self, rate: Fraction) -> Strongest:
        """The mean over splits of the TPR at a rate, pooled over targets, each under its chosen attack."""
        per_target, error = self._evaluated(partial(influence.tpr, rate=rate))
        picks = choose(per_target)
        distinct, times = np.unique(picks, axis=0, return_counts=True)
        found = [(curve.at(rate), curve.tied(rate)) for curve in map(self._combined, distinct)]
        value, tied = np.average(found, axis=0, weights=times)
        return Strongest(float(value), error, self._count(picks), float(tied))

    def drawn(self) -> dict[str, list[float]]:
        """The mean over splits of the ROCs with the attacks chosen for the AUC, as `fpr` and `tpr`."""
        distinct, times = np.unique(choose(self._by_auc[0]), axis=0, return_counts=True)
        grid = np.unique(np.concatenate([[0.0], BETWEEN, np.linspace(0, 1, 201)]))
        drawn = [np.interp(grid, curve.fpr, curve.tpr) for curve in map(self._combined, distinct)]
        return {"fpr": grid.tolist(), "tpr": np.average(drawn, axis=0, weights=times).tolist()}

    def _combined(self, pick: Ints) -> Roc:
        """The pooled ROC in which target m is attacked by candidate pick[m]."""
        ranks = np.stack([self._ranks[candidate][m] for m, candidate in enumerate(pick)])
        return Roc.of_calibrated(ranks[self.any.pairs], self.any.members[self.any.pairs])

    @cached_property
    def _ranks(self) -> list[Ints]:
        """Calibrated ranks, so that targets under different attacks share a threshold."""
        found = []
        for each in self.scored.values():
            ranks = np.zeros(each.scores.shape, dtype=np.int64)
            ranks[each.pairs] = calibrated(each.scores[each.pairs], each.members[each.pairs])
            found.append(ranks)
        return found

    @cached_property
    def _by_auc(self) -> tuple[Floats, float]:
        return self._evaluated(influence.auc)

    def _evaluated(self, figure: Figure) -> tuple[Floats, float]:
        """(candidates, M) values of every target, and the largest standard error."""
        found = {name: figure(scored) for name, scored in self.scored.items()}
        errors = [variance(each.values, FAMILY[name]) ** 0.5 for name, each in found.items()]
        return np.stack([each.per_target for each in found.values()]), max(errors)

    def _count(self, picks: Ints) -> dict[str, int]:
        counts = np.bincount(picks.ravel(), minlength=len(self.scored))
        return dict(zip(self.scored, counts.tolist(), strict=True))


def choose(per_target: Floats) -> Ints:
    """(splits, M): for each target the candidate with the highest sum over the half without it."""
    models = per_target.shape[1]
    picks = np.empty((SPLITS, models), dtype=np.int64)
    for split in range(SPLITS):
        half = np.zeros(models, dtype=np.bool_)
        half[np.random.default_rng(split).permutation(models)[: models // 2]] = True
        for side in (half, ~half):
            picks[split, side] = per_target[:, ~side].sum(axis=1).argmax()
    return picks
