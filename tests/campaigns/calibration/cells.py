"""Cells to attack: synthetic ones of a fixed pool, or drawn from the stored signals of many models.

A synthetic model gives record i the rescaled logit b_i + level_m + gap_i x_mi + noise, where x_mi is 1 if it
trained on the record. The difficulty b_i and the gap belong to the pool and are the same in every cell;
masks, levels and noise are redrawn. Gaps are heavy-tailed (log-normal), or 0 in a cell without leakage.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from harness.attacks.base import Evidence
from harness.leakage.matrices import Bools, Floats, Ints
from workloads.base import Records

RECORDS, POPULATION, CLASSES = 800, 400, 3
LEVEL = 0.3
"""The spread of the models' levels, in standard deviations of the noise."""
SHARED = 0.2
"""The share of the noise that models of two methods with the same members have in common."""
TYPICAL_GAP = 0.3
"""The median gap of records that leak."""
NOTHING = Records(torch.zeros(1, 1), torch.zeros(1))


@dataclass(frozen=True)
class Pool:
    """What all cells share: difficulties, labels and how far membership moves a logit."""

    difficulty: Floats
    """(n,)"""
    gap: Floats
    """(n,)"""
    labels: Ints
    population: Floats
    """(p,): difficulties of the test records."""
    population_labels: Ints

    @classmethod
    def of(cls, seed: int) -> "Pool":
        """A pool whose members leak."""
        random = np.random.default_rng([seed, 0])
        return cls(
            random.normal(1, 2, RECORDS),
            TYPICAL_GAP * np.exp(random.normal(size=RECORDS)),
            random.integers(0, CLASSES, RECORDS),
            random.normal(1, 2, POPULATION),
            random.integers(0, CLASSES, POPULATION),
        )

    def leaking(self, times: float) -> "Pool":
        """The same records with their gaps scaled."""
        return replace(self, gap=times * self.gap)


def masks(models: int, random: np.random.Generator) -> Bools:
    """(M, n): half of the pool for each model."""
    chosen = [random.permutation(RECORDS) < RECORDS // 2 for _ in range(models)]
    return np.stack(chosen)


def train(pool: Pool, members: Bools, random: np.random.Generator, common: Floats | None = None) -> Evidence:
    """The signals of one model for each mask; `common`, (M, n), is noise of which methods share a part."""
    models = len(members)
    level = random.normal(0, LEVEL, (models, 1))
    noise = random.normal(size=members.shape)
    if common is not None:
        noise = np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * noise
    phi = pool.difficulty + level + pool.gap * members + noise
    population = pool.population + level + random.normal(size=(models, len(pool.population)))
    return Evidence(
        logits_of(phi, pool.labels),
        pool.labels,
        members,
        logits_of(population, pool.population_labels),
        pool.population_labels,
        NOTHING,
    )


def logits_of(phi: Floats, labels: Ints) -> NDArray[np.float32]:
    """(M, n, C) logits with these rescaled logits of the labels; the other classes are equally likely."""
    logits = np.full((*phi.shape, CLASSES), -np.log(CLASSES - 1), dtype=np.float32)
    logits[:, np.arange(len(labels)), labels] = phi
    return logits


@dataclass(frozen=True)
class Signals:
    """The stored signals of many models of one cell, by their names in `signals-*.safetensors`."""

    logits: NDArray[np.float32]
    labels: Ints
    members: Bools
    test_logits: NDArray[np.float32]
    test_labels: Ints

    @classmethod
    def load(cls, file: Path) -> "Signals":
        """From an `.npz` of these arrays."""
        with np.load(file) as stored:
            return cls(**{name: stored[name] for name in cls.__dataclass_fields__})

    def save(self, file: Path) -> None:
        """As an `.npz`."""
        np.savez(file, **{name: getattr(self, name) for name in self.__dataclass_fields__})

    def cell(self, chosen: Ints | slice) -> Evidence:
        """Some of the models, as a cell."""
        return Evidence(
            self.logits[chosen],
            self.labels,
            self.members[chosen],
            self.test_logits[chosen],
            self.test_labels,
            NOTHING,
        )
