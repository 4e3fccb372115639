"""Text as weighted counts of words: scikit-learn's TfidfVectorizer with its defaults."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

WORD = re.compile(r"(?u)\b\w\w+\b")
"""Two or more letters, digits or underscores, scikit-learn's default."""


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
    # One data set of many needs it.
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(vocabulary=words, dtype=np.float64).fit(fitted)
    return vectorizer.transform(texts).astype(np.float32).toarray()
