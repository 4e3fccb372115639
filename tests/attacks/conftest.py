"""Evidence made from chosen rescaled logits."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.attacks.base import Bools, Evidence, Floats


def evidence_from_phi(
    phi: Floats,
    members: Bools,
    population: Floats | None = None,
    features: NDArray[np.float32] | None = None,
) -> Evidence:
    """Two-class logits whose rescaled logits are `phi` (to float32), labels alternating."""
    population = np.zeros((len(phi), 1)) if population is None else population
    if features is None:
        features = np.random.default_rng(0).standard_normal((phi.shape[1], 5), dtype=np.float32)

    def answers(values: Floats) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        labels = np.arange(values.shape[1]) % 2
        logits = np.zeros((*values.shape, 2), dtype=np.float32)
        logits[:, np.arange(values.shape[1]), labels] = values
        return logits, labels

    logits, labels = answers(phi)
    population_logits, population_labels = answers(population)
    return Evidence(logits, labels, members, population_logits, population_labels, features)


def draw_masks(random: np.random.Generator, models: int, records: int, n_train: int) -> Bools:
    """Independent masks of exactly `n_train` members each."""
    return np.stack([random.permutation(records) < n_train for _ in range(models)])


@pytest.fixture(scope="session")
def from_phi() -> Callable[..., Evidence]:
    return evidence_from_phi


@pytest.fixture(scope="session")
def masks() -> Callable[..., Bools]:
    return draw_masks
