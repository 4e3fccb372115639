"""Shokri's attack: for every class a classifier of membership on the whole posterior."""

from typing import ClassVar

import numpy as np
from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Evidence, Floats, cross_entropy
from harness.attacks.parts.boosting import boosted_log_odds
from harness.attacks.parts.posteriors import posteriors, shadows_of
from harness.leakage.intervals import Dependence
from methods.base import Count


class ShokriParams(methods.base.Params):
    """The shadows, the features and the records that train the classifiers."""

    shadow_models: Count = Field(default=10, description="Shadows that train the classifiers, at most.")
    extra_features: bool = Field(
        default=False, description="Add the sorted posterior and the loss to what the classifiers see."
    )
    only_correct: bool = Field(
        default=False,
        description="Train only on records that the shadow got right, as one published evaluation did.",
    )
    trees: Count = Field(default=100, description="Boosting rounds of each classifier.")


class Shokri:
    """Shokri et al. 2017, with the cell's other models as shadows and LightGBM as classifier.

    A shadow's records are the pool, split into its members and non-members, so no data are held out. The
    score is the classifier's log odds; 0 for a class without training records.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "a boosted-tree classifier per class on whole posteriors of shadow models"
    source: ClassVar[str] = "Shokri et al. 2017, Membership Inference Attacks Against ML Models (S&P)"
    caveats: ClassVar[tuple[str, ...]] = (
        "boosted trees have few distinct scores: TPR at low FPR is coarse",
        "with few records of a class its classifier learns noise",
        "only_correct leaves out the strongest sign of a non-member, a wrong prediction",
    )
    Params: ClassVar[type[methods.base.Params]] = ShokriParams
    shadows: ClassVar[int] = 1
    dependence: ClassVar[Dependence] = "learned"

    def scores(self, evidence: Evidence, params: ShokriParams) -> Floats:
        """(M, n): log odds of membership."""
        features = [_features(evidence, m, params.extra_features) for m in range(len(evidence.logits))]
        right = evidence.logits.argmax(axis=2) == evidence.labels
        teaches = evidence.evaluated & right if params.only_correct else evidence.evaluated
        scores = np.zeros(evidence.members.shape)
        for m in range(len(scores)):
            teachers = shadows_of(m, len(scores), params.shadow_models)
            for label in np.unique(evidence.labels) if teachers else ():
                rows = np.flatnonzero(evidence.labels == label)
                taught = [(s, rows[teaches[s, rows]]) for s in teachers]
                x = np.concatenate([features[s][own] for s, own in taught])
                y = np.concatenate([evidence.members[s, own] for s, own in taught])
                scores[m, rows] = boosted_log_odds(x, y, features[m][rows], params.trees)
        return scores


def _features(evidence: Evidence, model: int, extra: bool) -> Floats:
    chances = posteriors(evidence.logits[model])
    if not extra:
        return chances
    losses = cross_entropy(evidence.phi[model])
    return np.column_stack([chances, np.sort(chances, axis=1), losses])


attack: Attack = Shokri()
