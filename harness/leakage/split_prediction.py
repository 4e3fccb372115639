"""Predicting membership from the records alone, without any model: possible only where a split is broken."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from harness.leakage.matrices import Bools, Floats, Ints

BLOCKS = 8
WIDTH = 64
"""Wider features are reduced to this many directions."""
SAMPLE = 4096
"""Records from which scales and directions are learnt, without their membership."""
RIDGE = 0.1
"""Penalty per training record on standardised columns."""


def predict_membership(
    features: NDArray[np.float32], labels: Ints, members: Bools, evaluated: Bools, seed: int = 0
) -> Floats:
    """(M, n): centred ranks within blocks, in (-1/2, 1/2), by a classifier trained on earlier blocks.

    Args:
        features: (n, d), of any width, also none.
        labels: (n,)
        members: (M, n): the true membership; no score uses that of its own record or of a later one.
        evaluated: (M, n): False for records that count as neither member nor non-member.
        seed: of the order of the records and of the reduction of wide features.
    """
    random = np.random.default_rng(seed)
    columns = _describe(features, labels, random)
    order = random.permutation(len(columns))
    scores = np.zeros(members.shape)
    blocks = np.array_split(order, BLOCKS)
    gram = np.zeros((columns.shape[1], columns.shape[1]))
    known = np.empty(0, dtype=np.int64)
    for earlier, block in pairwise(blocks):
        gram += columns[earlier].T @ columns[earlier]
        known = np.concatenate([known, earlier])
        truth = _centred(members[:, known], evaluated[:, known])
        penalty = RIDGE * len(known) * np.eye(len(gram))
        weights = np.linalg.solve(gram + penalty, columns[known].T @ truth.T)
        ranks = stats.rankdata((columns[block] @ weights).T, axis=1)
        scores[:, block] = (ranks - (len(block) + 1) / 2) / max(len(block), 1)
    return scores


def _centred(members: Bools, evaluated: Bools) -> Floats:
    """(M, known): membership minus its mean over a target's evaluated records; 0 for others."""
    share = (members & evaluated).sum(axis=1) / np.maximum(evaluated.sum(axis=1), 1)
    return np.where(evaluated, members - share[:, None], 0.0)


def _describe(features: NDArray[np.float32], labels: Ints, random: np.random.Generator) -> Floats:
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
