"""IMDb: film reviews, good or bad.

Arrays, with <split> train or test: <split>_text (uint8: all reviews in UTF-8, one after the other),
<split>_ends (int64: where each ends), <split>_y (int64: 0 negative, 1 positive). Negative reviews come first,
each half in the order of the publisher's numbers. `reviews` gives them as text, `load_tokens` as numbers.
"""

import re
from functools import partial
from pathlib import Path

import numpy as np

from workloads.data.array_cache import Arrays, cached, digest
from workloads.data.dataset import File, Place, Published
from workloads.data.foreign_files import read_members, wrong
from workloads.data.tokens import encode, ranks

NAME = re.compile(r"(?:^|/)(train|test)/(neg|pos)/(\d+)_(\d+)\.txt$")
"""Split, label, number and rating; the unlabelled reviews of the archive have another name."""
LONGEST = 1_000_000
"""Bytes; the longest published review has less than 20,000."""


def read_reviews(path: Path, each: int = 12_500) -> Arrays:
    """The arrays above.

    Args:
        path: the folder aclImdb, or the archive as published.
        each: the number of reviews there must be for each split and label.
    """
    found: dict[tuple[str, str], dict[int, bytes]] = {
        (split, label): {} for split in ("train", "test") for label in ("neg", "pos")
    }
    for name, content in read_members(path, lambda name: NAME.search(name) is not None, LONGEST):
        if match := NAME.search(name):
            found[match[1], match[2]][int(match[3])] = _text(f"{path}: {name}", content)
    for (split, label), reviews in found.items():
        if len(reviews) != each:
            raise wrong(path, f"{each:,} reviews in {split}/{label}", f"{len(reviews):,}")
    arrays: Arrays = {}
    for split in ("train", "test"):
        labelled = [found[split, label] for label in ("neg", "pos")]
        texts = [half[number] for half in labelled for number in sorted(half)]
        arrays[f"{split}_text"] = np.frombuffer(b"".join(texts), np.uint8)
        arrays[f"{split}_ends"] = np.cumsum([len(text) for text in texts], dtype=np.int64)
        arrays[f"{split}_y"] = np.repeat(np.arange(2, dtype=np.int64), each)
    return arrays


def _text(name: str, content: bytes) -> bytes:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise wrong(name, "text in UTF-8", str(error)) from error
    return content


def reviews(arrays: Arrays, split: str) -> list[str]:
    """The reviews of a split as text, in the order of the labels."""
    text, ends = arrays[f"{split}_text"].tobytes(), arrays[f"{split}_ends"].tolist()
    return [text[start:end].decode() for start, end in zip([0, *ends[:-1]], ends, strict=True)]


FOLDERS = ("train/neg", "train/pos", "test/neg", "test/pos")

dataset = Published(
    name="imdb",
    about="50,000 film reviews, half of them good: 25,000 train, 25,000 test",
    licence="none stated by the publisher, who asks to be cited",
    citation="Maas, Daly, Pham, Huang, Ng and Potts: Learning word vectors for sentiment analysis, ACL 2011",
    places=(
        Place("imdb/aclImdb_v1.tar.gz"),
        Place("imdb/aclImdb", FOLDERS),
        Place("aclImdb", FOLDERS),
        Place("aclImdb_v1.tar.gz"),
    ),
    read=partial(read_reviews, each=12_500),
    files=(
        File(
            "aclImdb_v1.tar.gz",
            ("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
            "7c2ac02c03563afcf9b574c7e56c153a",
            84_125_825,
        ),
    ),
    sha256="540fc4c5bad670b86d9af44a235d1d2242dc6dd1a51f7bf8d7b8e866ba2cbad2",
)


def load_tokens(vocabulary: int = 20_000, length: int = 80) -> Arrays:
    """train_x, test_x: int64 (n, length), encoded by tokens.py; train_y, test_y. Computed once and cached.

    Words are ranked by their frequency in the 25,000 training reviews, as in Keras. A model's guarantee does
    not cover that choice: the vocabulary counts as public. 20,000 words and the first 80 of every review are
    DPSUR's setting.
    """
    arrays = dataset.load()
    key = f"{(dataset.sha256 or digest(arrays))[:12]}-{vocabulary}-{length}"
    return cached("imdb-tokens", key, lambda: tokens(arrays, vocabulary, length))


def tokens(arrays: Arrays, vocabulary: int, length: int) -> Arrays:
    """The result of `load_tokens`, from the arrays of this data set."""
    texts = {split: reviews(arrays, split) for split in ("train", "test")}
    ranked = ranks(texts["train"])
    made: Arrays = {f"{split}_x": encode(each, ranked, vocabulary, length) for split, each in texts.items()}
    return made | {f"{split}_y": arrays[f"{split}_y"] for split in texts}
