"""Words are weighted as by scikit-learn."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from workloads.data.tfidf import frequent_words, weigh

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
