"""Film reviews as tokens or weighted counts of words, and models trained on them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from workloads.base import Records
from workloads.data.array_cache import Arrays
from workloads.data.imdb import load_tokens
from workloads.data.places import data_root
from workloads.features.tfidf import load_counts
from workloads.models.lstm import review_lstm
from workloads.models.mlp import mlp
from workloads.published import OnPublishedData, Splits


@dataclass(frozen=True)
class Reviews(OnPublishedData):
    """A model on reviews. The pool is the publisher's training split.

    The test set is the publisher's test split without reviews that begin as one in the pool does.
    """

    encoded: Callable[[], Arrays] = load_tokens

    def splits(self) -> Splits:
        """Pool and test, read once per process."""
        return records(self.encoded, data_root())


@lru_cache(maxsize=1)
def records(encoded: Callable[[], Arrays], root: Path) -> Splits:
    """Pool and test below a data root."""
    arrays, new = encoded(), unseen_reviews()
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
    ),
    Reviews(
        "imdb-tfidf-linear",
        "one linear layer 2000-2 on weighted counts of words (DP-KFC)",
        "imdb",
        2,
        20_000,
        partial(mlp, (2_000, 2)),
        encoded=load_counts,
    ),
]
