"""What an attack is: from the evidence of one cell to one score per record and target."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from methods.base import Params
from workloads.errors import BenchError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Evidence:
    """What the models of one cell let out, over the whole pool.

    Model m is a target once; the others are its shadows.
    Shapes: M models, n pool records, p population records, C classes.
    """

    logits: NDArray[np.float32]
    """(M, n, C): every model's answer on every pool record."""
    labels: NDArray[np.int64]
    """(n,)"""
    members: Bools
    """(M, n): who trained which model. An attack on target m may read every row but m."""
    population_logits: NDArray[np.float32]
    """(M, p, C): answers on records that are nobody's members."""
    population_labels: NDArray[np.int64]
    features: NDArray[np.float32]
    """(n, d): the records themselves, flattened. Only the blind check reads them."""

    @cached_property
    def phi(self) -> Floats:
        """(M, n): the rescaled logit log p_y - log(sum of the other p)."""
        return rescaled_logit(self.logits, self.labels)

    @cached_property
    def population_phi(self) -> Floats:
        """(M, p)"""
        return rescaled_logit(self.population_logits, self.population_labels)


def rescaled_logit(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> Floats:
    """log p_y - log sum_{j != y} p_j in float64 (Carlini et al. 2022): no rounding near p = 1.

    It is taken from the logits and never through p, so a saturated model keeps all its differences.
    A logit of -inf (a released probability of zero) counts as the smaller of the record's lowest
    finite logit and log 1e-45 below its highest, after the 1e-45 in the authors' logarithms.

    Args:
        logits: (M, n, C), or log-probabilities, which are logits too.
        labels: (n,) of values in 0..C-1.

    Returns:
        (M, n), always finite.
    """
    models, records, classes = logits.shape
    if classes < 2:
        raise BenchError(
            f"a rescaled logit needs at least 2 classes, the logits have {classes}: "
            "membership cannot be scored on a model with one answer"
        )
    rows = np.arange(records)
    phi = np.empty((models, records))
    for model in range(models):  # one model at a time bounds the float64 copy
        answers = _finite(logits[model].astype(np.float64), model)
        own = answers[rows, labels]
        answers[rows, labels] = -np.inf
        top = answers.max(axis=1)
        phi[model] = own - top - np.log(np.exp(answers - top[:, None]).sum(axis=1))
    return phi


def _finite(answers: Floats, model: int) -> Floats:
    """Give zero probabilities a finite logit; refuse what is no probability at all."""
    zero = np.isneginf(answers)
    broken = ~np.isfinite(answers) & ~zero
    bad = int((broken.any(axis=1) | zero.all(axis=1)).sum())
    if bad:
        raise BenchError(
            f"model {model} gives NaN, +inf or only -inf logits on {bad} of {len(answers)} "
            "records; attacks need finite logits: look for a diverged training or a broken "
            "predictor"
        )
    if zero.any():
        lowest = np.where(zero, np.inf, answers).min(axis=1)
        floor = np.minimum(lowest, answers.max(axis=1) + np.log(1e-45))
        answers = np.where(zero, floor[:, None], answers)
    return answers


def cross_entropy(phi: Floats) -> Floats:
    """-log p_y = log(1 + exp(-phi)), accurate where p_y itself rounds to 1."""
    return np.logaddexp(0.0, -phi)


class Attack(Protocol):
    """Scores records by how much they look like members. It never learns the method's name."""

    version: ClassVar[str]
    about: ClassVar[str]
    source: ClassVar[str]
    caveats: ClassVar[tuple[str, ...]]
    Params: ClassVar[type[Params]]
    shadows: ClassVar[int]
    """The fewest other models it needs beside the target; 0 where it needs none."""

    def scores(self, evidence: Evidence, params: Any) -> Floats:
        """(M, n) scores, higher = member. Row m may use row m's logits but not `members[m]`."""
        ...
