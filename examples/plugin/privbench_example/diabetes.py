"""Diabetes patients, ten measurements each: did the disease progress fast?"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from torch import nn

from privbench import Records, mlp

SPLIT_SEED = 3
TEST_RECORDS = 88
FAST = 150
"""Progression in a year that counts as fast: a round number, since a median would be learnt from the pool."""


@cache
def load_split() -> tuple[Records, Records]:
    """Pool (354 records) and test set (88), fixed by a seed; scaled by the test records alone."""
    x, progression = load_diabetes(return_X_y=True, scaled=False)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(x))
    test, pool = order[:TEST_RECORDS], order[TEST_RECORDS:]
    scaled = (x - x[test].mean(axis=0)) / x[test].std(axis=0)
    records = Records(torch.tensor(scaled, dtype=torch.float32), torch.tensor(progression > FAST).long())
    return records.take(torch.from_numpy(pool)), records.take(torch.from_numpy(test))


@dataclass(frozen=True)
class Diabetes:
    """An MLP on ten measurements; half of the pool trains each model."""

    name: str = "diabetes"
    version: str = "1"
    about: str = "442 diabetes patients, 10 measurements, fast progression or not; MLP 10-64-2"
    source: str = "Efron et al. 2004, Least Angle Regression; ships with scikit-learn"
    classes: int = 2
    n_train: int = 177

    def pool(self) -> Records:
        """354 records."""
        return load_split()[0]

    def test(self) -> Records:
        """88 records that are never members."""
        return load_split()[1]

    def model(self, seed: int) -> nn.Module:
        """A fresh MLP 10-64-2."""
        return mlp((10, 64, 2), seed)


diabetes = Diabetes()
