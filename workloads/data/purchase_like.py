"""Synthetic customers in the shape of Purchase-100: 600 bits, 100 classes."""

from dataclasses import dataclass

import numpy as np
import torch

from workloads.base import Records


@dataclass(frozen=True)
class PurchaseLike:
    """Every class buys product j with its own probability sigmoid(a_j + spread * z_cj), independently.

    a_j ~ N(popularity, 1) is the popularity of a product, z_cj ~ N(0, 1) the preference of a class for it.
    A larger spread is an easier problem.
    """

    classes: int
    features: int
    popularity: float
    spread: float
    seed: int

    def draw(self, count: int, stream: int) -> Records:
        """Records of one stream; streams of a generator are independent. Labels are uniform."""
        # Stream 0 of the seed is for the preferences of the classes.
        preferences, random = (np.random.default_rng([self.seed, each]) for each in (0, stream))
        popular = preferences.normal(self.popularity, 1.0, self.features)
        own = preferences.normal(0.0, self.spread, (self.classes, self.features))
        chances = (1 / (1 + np.exp(-(popular + own)))).astype(np.float32)
        labels = random.integers(self.classes, size=count)
        bits = random.random((count, self.features), dtype=np.float32) < chances[labels]
        return Records(torch.from_numpy(bits).float(), torch.from_numpy(labels))
