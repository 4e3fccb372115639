"""Salem's attack: one shadow model, and a small network on the highest posteriors."""

import warnings
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Evidence, Floats
from harness.attacks.parts.posteriors import log_odds, posteriors, shadows_of
from harness.leakage.intervals import Dependence
from methods.base import Count

HIDDEN = 64
"""Units of the hidden layer, as in ML-Leaks."""
PENALTY, STEPS = 0.01, 200
"""L2 penalty and maximum of L-BFGS steps: ours, so that the fit stops before it overfits one shadow."""


class SalemParams(methods.base.Params):
    """The part of the posterior that the network sees."""

    top: Count = Field(default=3, description="Posteriors it sees, from the highest down.")


class Salem:
    """Salem et al. 2019 (ML-Leaks, adversary 1): the target's neighbour in the cell is its only shadow.

    The network sees the highest posteriors in order and whether the prediction is right, and is trained on
    the shadow's members and non-members. The score is its log odds.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "a small network on the top posteriors, trained on a single shadow model"
    source: ClassVar[str] = "Salem et al. 2019, ML-Leaks (NDSS)"
    caveats: ClassVar[tuple[str, ...]] = (
        "one shadow: weaker than `lira` and `rmia` on the same models; a score near 0.5 certifies nothing",
        "the shadow is trained by the cell's own method; the papers train it without the defence",
        "fitted by L-BFGS with a penalty; the papers' optimizer settings are for another network",
    )
    Params: ClassVar[type[methods.base.Params]] = SalemParams
    shadows: ClassVar[int] = 1
    dependence: ClassVar[Dependence] = "learned"

    def scores(self, evidence: Evidence, params: SalemParams) -> Floats:
        """(M, n): log odds of membership; 0 without a shadow."""
        features = [_features(logits, evidence.labels, params.top) for logits in evidence.logits]
        scores = np.zeros(evidence.members.shape)
        for m in range(len(scores)):
            for shadow in shadows_of(m, len(scores), 1):
                own = evidence.evaluated[shadow]
                taught = features[shadow][own], evidence.members[shadow, own]
                scores[m] = _network_log_odds(*taught, features[m])
        return scores


def _features(logits: NDArray[np.float32], labels: NDArray[np.int64], top: int) -> Floats:
    """(n, top + 1): posteriors from the highest down, then whether the highest is the label's."""
    ordered = -np.sort(-posteriors(logits), axis=1)[:, :top]
    return np.column_stack([ordered, logits.argmax(axis=1) == labels])


def _network_log_odds(x: Floats, y: NDArray[np.bool_], asked: Floats) -> Floats:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    if y.all() or not y.any():
        return np.zeros(len(asked))
    network = MLPClassifier((HIDDEN,), solver="lbfgs", alpha=PENALTY, max_iter=STEPS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # early stopping is intended
        network.fit(x, y)
    return log_odds(network.predict_proba(asked)[:, 1])


attack: Attack = Salem()
