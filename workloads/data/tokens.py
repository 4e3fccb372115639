"""Text as tokens, encoded and padded as in Keras.

Numbers as in `keras.datasets.imdb`: 0 pads, 1 begins a text, 2 is a word outside the vocabulary, and the word
of rank r (the most frequent has rank 1) is r + 3.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

BLANKED = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))
PAD, START, UNKNOWN, FIRST = 0, 1, 2, 3


def words(text: str) -> list[str]:
    """Lower-case words between blanks; punctuation counts as a blank, the apostrophe does not."""
    return [word for word in text.lower().translate(BLANKED).split(" ") if word]


def ranks(texts: Iterable[str]) -> dict[str, int]:
    """Every word's rank by frequency, from 1; ties in order of first occurrence."""
    counts = Counter(word for text in texts for word in words(text))
    return {word: rank for rank, (word, _) in enumerate(counts.most_common(), start=1)}


def encode(texts: Sequence[str], ranked: dict[str, int], vocabulary: int, length: int) -> NDArray[np.int64]:
    """(texts, length): the first `length` tokens of every text, all below `vocabulary`; zeros at the end.

    Args:
        texts: what to encode.
        ranked: the rank of every word; other words are unknown.
        vocabulary: the number of tokens, including the three special ones.
        length: the tokens per text, including the start token.
    """
    encoded = np.full((len(texts), length), PAD, np.int64)
    for row, text in zip(encoded, texts, strict=True):
        numbers = [ranked.get(word, vocabulary) + FIRST for word in words(text)[: length - 1]]
        kept = [START, *(number if number < vocabulary else UNKNOWN for number in numbers)]
        row[: len(kept)] = kept
    return encoded
