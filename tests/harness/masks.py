"""Masks as the harness draws them: a fixture for the conftest.py of whoever judges attacks."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray


def draw_masks(random: np.random.Generator, models: int, records: int, n_train: int) -> NDArray[np.bool_]:
    """Independent masks of exactly `n_train` members each."""
    return np.stack([random.permutation(records) < n_train for _ in range(models)])


@pytest.fixture(scope="session")
def masks() -> Callable[..., NDArray[np.bool_]]:
    return draw_masks
