"""modified-entropy: members have a lower entropy of the prediction, once the right label is known."""

from typing import ClassVar

import numpy as np
from scipy.special import expit, log_softmax

from privbench import Attack, Dependence, Evidence, Floats, Params, cross_entropy

LARGEST = 1 - 1e-12
"""Of a probability of a wrong label, so that log(1 - p) is finite."""


class ModifiedEntropyParams(Params):
    """Nothing to set."""


class ModifiedEntropy:
    """Song and Mittal 2021: the score is minus the modified entropy of the target's prediction."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "entropy of the prediction that is low only where the prediction is right"
    source: ClassVar[str] = "Song and Mittal 2021, Systematic Evaluation of Privacy Risks (arXiv:2003.10595)"
    caveats: ClassVar[tuple[str, ...]] = ("one threshold for all records; the paper takes one per class",)
    Params: ClassVar[type[Params]] = ModifiedEntropyParams
    shadows: ClassVar[int] = 0
    dependence: ClassVar[Dependence] = "alone"

    def scores(self, evidence: Evidence, params: ModifiedEntropyParams) -> Floats:
        """(M, n): (1 - p_y) log p_y + sum over other labels of p log(1 - p)."""
        others = np.exp(log_softmax(evidence.logits.astype(np.float64), axis=2))
        others[:, np.arange(len(evidence.labels)), evidence.labels] = 0.0
        others = np.minimum(others, LARGEST)
        wrong = (others * np.log1p(-others)).sum(axis=2)
        return np.asarray(wrong - expit(-evidence.phi) * cross_entropy(evidence.phi))


attack: Attack = ModifiedEntropy()
