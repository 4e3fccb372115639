"""Film reviews from the folder and from the archive: the same, in one order."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from workloads.data import imdb
from workloads.data.imdb import read_reviews, reviews
from workloads.errors import BenchError

if TYPE_CHECKING:
    from tests.workloads.data.conftest import Shelf

REVIEWS = {
    "train/neg/10_2.txt": "Bad.",
    "train/neg/9_1.txt": "Worse than bad",
    "train/pos/2_10.txt": "Très bon, très bon!",
    "train/pos/0_7.txt": "",
    "test/neg/0_1.txt": "bad",
    "test/neg/1_3.txt": "not good",
    "test/pos/0_9.txt": "good",
    "test/pos/11_8.txt": "très<br />good",
}
BESIDE = {"train/unsup/0_0.txt": "unlabelled", "README": "read me", "train/urls_pos.txt": "urls"}


def members() -> Iterator[tuple[str, bytes]]:
    for name, text in (REVIEWS | BESIDE).items():
        yield name, text.encode()


def test_folder_and_archive_in_one_order(shelf: "Shelf") -> None:
    for name, content in members():
        shelf.write(f"aclImdb/{name}", content)
    archive = shelf.tar("a.tar.gz", {f"aclImdb/{name}": content for name, content in members()})
    for path in (shelf.root / "aclImdb", archive):
        arrays = read_reviews(path, each=2)
        assert reviews(arrays, "train") == ["Worse than bad", "Bad.", "", "Très bon, très bon!"]
        assert reviews(arrays, "test") == ["bad", "not good", "good", "très<br />good"]
        assert arrays["train_y"].tolist() == [0, 0, 1, 1]


def test_tokens_are_made_once_and_kept(shelf: "Shelf", monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.tar("imdb/aclImdb_v1.tar.gz", {f"aclImdb/{name}": content for name, content in members()})
    small = replace(imdb.dataset, read=partial(read_reviews, each=2), sha256=None, files=())
    monkeypatch.setattr(imdb, "dataset", small)
    arrays = imdb.load_tokens(vocabulary=6, length=4)
    # Training words by frequency: bad 2, très 2, bon 2, then worse, than. Numbers begin at 4.
    assert arrays["train_x"].tolist() == [[1, 2, 2, 4], [1, 4, 0, 0], [1, 0, 0, 0], [1, 5, 2, 5]]
    assert arrays["test_x"].tolist() == [[1, 4, 0, 0], [1, 2, 2, 0], [1, 2, 0, 0], [1, 5, 2, 2]]
    assert arrays["test_y"].tolist() == [0, 0, 1, 1]
    monkeypatch.setattr(imdb, "tokens", None)
    again = imdb.load_tokens(vocabulary=6, length=4)
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)


def test_a_missing_review_is_counted(shelf: "Shelf") -> None:
    for name, content in members():
        if name != "test/pos/0_9.txt":
            shelf.write(f"aclImdb/{name}", content)
    with pytest.raises(BenchError) as caught:
        read_reviews(shelf.root / "aclImdb", each=2)
    assert (caught.value.value, caught.value.allowed) == ("1", "2 reviews in test/pos")


def test_other_encodings_are_refused(shelf: "Shelf") -> None:
    for name, content in members():
        shelf.write(f"aclImdb/{name}", content)
    shelf.write("aclImdb/train/pos/2_10.txt", "très".encode("latin1"))
    with pytest.raises(BenchError) as caught:
        read_reviews(shelf.root / "aclImdb", each=2)
    assert str(caught.value.field).endswith("train/pos/2_10.txt")
