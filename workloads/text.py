"""Film reviews as tokens, and a recurrent network trained on them."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from workloads.base import Records
from workloads.data.imdb import load_tokens
from workloads.data.places import data_root
from workloads.models.lstm import review_lstm
from workloads.published import OnPublishedData, Splits


@dataclass(frozen=True)
class Reviews(OnPublishedData):
    """A network on the first 80 words. The pool is the publisher's training split.

    The test set is the publisher's test split without exact duplicates of reviews in the pool.
    """

    def splits(self) -> Splits:
        """Pool and test, read once per process."""
        return records(data_root())


@lru_cache(maxsize=1)
def records(root: Path) -> Splits:
    """Pool and test below a data root."""
    arrays, new = load_tokens(), unseen_reviews()
    return (
        Records(torch.from_numpy(arrays["train_x"]), torch.from_numpy(arrays["train_y"])),
        Records(torch.from_numpy(arrays["test_x"][new]), torch.from_numpy(arrays["test_y"][new])),
    )


def unseen_reviews() -> NDArray[np.bool_]:
    """Which reviews of IMDb's test split are not in its training split with the same first words."""
    arrays = load_tokens()
    return unseen(arrays["train_x"], arrays["test_x"])


def unseen(pool: NDArray[np.int64], test: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows of the test are not in the pool."""
    known = {row.tobytes() for row in pool}
    return np.array([row.tobytes() not in known for row in test], bool)


workloads = [
    Reviews(
        "imdb-lstm",
        "bidirectional LSTM on the first 80 words (DPSUR)",
        "imdb",
        2,
        20_000,
        review_lstm,
    )
]
