"""Words are weighted as by scikit-learn."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from workloads.data.array_cache import Arrays
from workloads.features.tfidf import frequent_words, weigh, weighted_counts

TEXTS = ["It's a GOOD film, no?", "a good-ish film", "bad film; a bad, bad film", "no no no"]


def test_the_most_frequent_words_in_alphabetical_order() -> None:
    assert frequent_words(TEXTS, 3) == ["bad", "film", "no"]
    assert frequent_words(["b a", "bb aa cc"], 2) == ["aa", "bb"], "ties; single letters are no words"
    assert frequent_words(["x"], 2) == []


def test_weights_are_scikit_learns() -> None:
    # Six words: without ties at the end, its own choice is the same.
    theirs = TfidfVectorizer().fit(TEXTS)
    words = frequent_words(TEXTS, 100)
    assert words == sorted(theirs.vocabulary_)
    np.testing.assert_allclose(weigh(TEXTS, TEXTS, words), theirs.transform(TEXTS).toarray(), rtol=1e-6)


def test_rows_have_norm_one_and_weights_come_from_the_fitted_texts() -> None:
    words = frequent_words(TEXTS, 3)
    found = weigh(TEXTS, ["film bad", "nothing known"], words)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 0])
    bad, film, _ = found[0]
    # idf = ln((1 + n) / (1 + documents)) + 1: bad is in one of four texts, film in three.
    assert bad / film == pytest.approx((np.log(5 / 2) + 1) / (np.log(5 / 4) + 1))


def test_words_come_from_the_training_reviews() -> None:
    def joined(split: str, *texts: str) -> Arrays:
        ends = np.cumsum([len(text) for text in texts])
        content = np.frombuffer("".join(texts).encode(), np.uint8)
        return {f"{split}_text": content, f"{split}_ends": ends, f"{split}_y": np.arange(len(texts))}

    arrays = joined("train", "bad film", "bad", "good") | joined("test", "good good good", "bad")
    found = weighted_counts(arrays, 2)
    # bad 2, then film and good 1: the alphabet decides.
    assert (found["train_x"] > 0).tolist() == [[True, True], [True, False], [False, False]]
    assert (found["test_x"] > 0).tolist() == [[False, False], [True, False]]
    assert found["test_y"].tolist() == [0, 1]
