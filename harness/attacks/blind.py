"""The blind check: can members be distinguished from non-members without any model?"""

from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy import stats

import methods.base
from harness.attacks.base import Attack, Bools, Evidence, Floats
from harness.leakage.intervals import Dependence

BLOCKS = 8
WIDTH = 64
"""Wider features are reduced to this many directions."""
SAMPLE = 4096
"""Records from which scales and directions are learnt, without their membership."""
RIDGE = 0.1
"""Penalty per training record on standardised columns."""


class BlindParams(methods.base.Params):
    """The seed of the order of the records."""

    seed: int = Field(default=0, ge=0, description="seed of the order of the records and of the reduction")


class Blind:
    """A ridge classifier on the records alone; if it succeeds, the split is broken.

    It is the only attack that reads the records and, for target m, `members[m]`: it asks not what a
    model leaks but whether this split is predictable from the data. To be unbiased it predicts
    forward (progressive validation, Blum, Kalai and Langford 1999): the records are cut into random
    blocks, and those of a block are scored by a classifier trained on the earlier blocks only. No
    score uses the membership of its own record or of a later one. The first block is all ties.

    Ordinary cross-fitting, where folds score each other in turn, fails: under a random split the
    folds' results are positively correlated, which doubles the variance of the AUC and so makes the
    test of `blind_verdict` call sound splits broken. Here each block's result is unbiased given the
    earlier ones, so the variances add up as that test assumes. Scores are centred ranks within a
    block, which makes blocks comparable.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "no model at all: finds members by the records alone; should not succeed"
    source: ClassVar[str] = (
        "Das, Zhang, Tramer 2024, Blind Baselines Beat Membership Inference Attacks (arXiv:2406.16201)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "it checks the split, not the method: success makes every attack on the cell meaningless",
        "detects shifts of class shares, of means and of variances, not arbitrary differences",
    )
    Params: ClassVar[type[methods.base.Params]] = BlindParams
    shadows: ClassVar[int] = 0
    dependence: ClassVar[Dependence] = "alone"

    def scores(self, evidence: Evidence, params: BlindParams) -> Floats:
        """(M, n): centred ranks within blocks, in (-1/2, 1/2)."""
        random = np.random.default_rng(params.seed)
        columns = _describe(evidence.features, evidence.labels, random)
        order = random.permutation(len(columns))
        scores = np.zeros(evidence.members.shape)
        blocks = np.array_split(order, BLOCKS)
        gram = np.zeros((columns.shape[1], columns.shape[1]))
        known = np.empty(0, dtype=np.int64)
        for earlier, block in pairwise(blocks):
            gram += columns[earlier].T @ columns[earlier]
            known = np.concatenate([known, earlier])
            truth = _centred(evidence.members[:, known], evidence.evaluated[:, known])
            penalty = RIDGE * len(known) * np.eye(len(gram))
            weights = np.linalg.solve(gram + penalty, columns[known].T @ truth.T)
            ranks = stats.rankdata((columns[block] @ weights).T, axis=1)
            scores[:, block] = (ranks - (len(block) + 1) / 2) / max(len(block), 1)
        return scores


def _centred(members: Bools, evaluated: Bools) -> Floats:
    """(M, known): membership minus its mean over a target's evaluated records; 0 for others."""
    share = (members & evaluated).sum(axis=1) / np.maximum(evaluated.sum(axis=1), 1)
    return np.where(evaluated, members - share[:, None], 0.0)


def _describe(
    features: NDArray[np.float32], labels: NDArray[np.int64], random: np.random.Generator
) -> Floats:
    """(n, columns): standardised features or directions of them, their squares, and the classes."""
    sample = np.sort(random.permutation(len(features))[:SAMPLE])
    scale, centre = _standard(features[sample].astype(np.float64))
    if features.shape[1] > WIDTH:
        turn = _directions((features[sample] - centre) / scale, random)
        # float32, or numpy would make a float64 copy of all features
        flat = features @ (turn / scale[:, None]).astype(np.float32) - (centre / scale) @ turn
    else:
        flat = (features - centre) / scale
    classes = (labels[:, None] == np.unique(labels)).astype(np.float64)
    columns = np.hstack([flat, flat**2, classes])
    scale, centre = _standard(columns[sample])
    return np.asarray((columns - centre) / scale)


def _standard(columns: Floats) -> tuple[Floats, Floats]:
    """Scale and mean of each column; a constant one keeps its scale."""
    scale = columns.std(axis=0)
    return np.where(scale > 0, scale, 1.0), columns.mean(axis=0)


def _directions(columns: Floats, random: np.random.Generator) -> Floats:
    """(d, WIDTH): an orthonormal basis near the leading principal directions.

    Randomised subspace iteration (Halko, Martinsson and Tropp 2011).
    """
    basis = random.standard_normal((columns.shape[1], WIDTH))
    for _ in range(3):
        basis, _ = np.linalg.qr(columns.T @ (columns @ basis))
    return basis


attack: Attack = Blind()
