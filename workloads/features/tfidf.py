"""Reviews as weighted counts of words: scikit-learn's TfidfVectorizer with its defaults."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from workloads.data import imdb
from workloads.data.array_cache import Arrays, cached, digest

WORD = re.compile(r"(?u)\b\w\w+\b")
"""Two or more letters, digits or underscores, scikit-learn's default."""


def load_counts(features: int = 2_000) -> Arrays:
    """train_x, test_x: float32 (n, features) of IMDb's reviews; train_y, test_y. Computed once and cached.

    Words and weights come from the 25,000 training reviews, as in DP-KFC, whose setting 2,000 is. A model's
    guarantee covers neither: both count as public.
    """
    arrays = imdb.dataset.load()
    key = f"{(imdb.dataset.sha256 or digest(arrays))[:12]}-{features}"
    return cached("imdb-tfidf", key, lambda: weighted_counts(arrays, features))


def weighted_counts(arrays: Arrays, features: int) -> Arrays:
    """The result of `load_counts`, from the arrays of IMDb."""
    texts = {split: imdb.reviews(arrays, split) for split in ("train", "test")}
    words = frequent_words(texts["train"], features)
    made: Arrays = {f"{split}_x": weigh(texts["train"], each, words) for split, each in texts.items()}
    return made | {f"{split}_y": arrays[f"{split}_y"] for split in texts}


def frequent_words(texts: Iterable[str], count: int) -> list[str]:
    """The most frequent words, sorted; ties go to the first in the alphabet.

    scikit-learn's `max_features` breaks ties by an unstable sort, which may differ between processors.
    """
    counts = Counter(word for text in texts for word in WORD.findall(text.lower()))
    return sorted(sorted(counts, key=lambda word: (-counts[word], word))[:count])


def weigh(fitted: Sequence[str], texts: Sequence[str], words: Sequence[str]) -> NDArray[np.float32]:
    """(texts, words): counts times the inverse document frequency in the texts `fitted`, rows of norm one.

    A text without any of the words is a row of zeros.
    """
    # One workload of many needs it.
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(vocabulary=words, dtype=np.float64).fit(fitted)
    return np.asarray(vectorizer.transform(texts).toarray(), np.float32)
