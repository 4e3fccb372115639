"""Words become numbers as in Keras."""

from workloads.data.tokens import encode, ranks, words


def test_words_are_cut_as_keras_cuts() -> None:
    assert words("It's a <br />GOOD-ish  film,\tno?") == ["it's", "a", "br", "good", "ish", "film", "no"]
    assert words("one\xa0word é") == ["one\xa0word", "é"]
    assert words("...") == []


def test_ranks_by_frequency_then_first_seen() -> None:
    assert ranks(["b a c", "c d c", "a"]) == {"c": 1, "a": 2, "b": 3, "d": 4}


def test_encoding_pads_cuts_and_marks_the_unknown() -> None:
    ranked = {"good": 1, "film": 2, "bad": 3}
    encoded = encode(["good film", "", "film never bad good good"], ranked, vocabulary=6, length=4)
    # bad would be 6, which is outside a vocabulary of 6 numbers; never was not ranked at all.
    assert encoded.tolist() == [[1, 4, 5, 0], [1, 0, 0, 0], [1, 5, 2, 2]]
    assert encode(["bad"], ranked, vocabulary=7, length=4).tolist() == [[1, 6, 0, 0]]
