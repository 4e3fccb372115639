"""The published files themselves, where $PRIVBENCH_DATA has them: shapes, balance, facts everyone knows."""

import gzip
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from workloads import data
from workloads.data import imdb, location_30
from workloads.data.array_cache import Arrays, digest
from workloads.data.dataset import Published
from workloads.data.tokens import ranks
from workloads.errors import BenchError

REAL = os.environ.get("PRIVBENCH_DATA")
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not REAL, reason="$PRIVBENCH_DATA is not set: the published files are not here"),
]

Flip = Callable[[Path, int], None]
Record = Callable[[str, object], None]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of this module's own, so that every set is parsed once and then mapped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def member(name: str) -> Published:
    dataset = data.family.get(name)
    assert isinstance(dataset, Published)
    if dataset.location() is None:
        pytest.skip(f"{name} is not in $PRIVBENCH_DATA")
    return dataset


def load(name: str, record: Record) -> Arrays:
    """The set, twice: parsed, then from the cache; the seconds go into the test report."""
    dataset = member(name)
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        arrays = dataset.load()
        seconds.append(time.perf_counter() - began)
    record(f"{name}_parse_seconds", seconds[0])
    record(f"{name}_cached_seconds", seconds[1])
    assert seconds[1] < 10, "a fraction of a second on an idle machine; it was parsed a second time"
    assert digest(arrays) == dataset.sha256
    return arrays


def test_mnist(record_testsuite_property: Record) -> None:
    arrays = load("mnist", record_testsuite_property)
    assert arrays["train_x"].shape == (60_000, 1, 28, 28)
    assert arrays["test_x"].shape == (10_000, 1, 28, 28)
    assert arrays["train_y"][:5].tolist() == [5, 0, 4, 1, 9]
    assert arrays["test_y"][:3].tolist() == [7, 2, 1]
    assert arrays["train_x"].mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert arrays["train_x"].std() / 255 == pytest.approx(0.3081, abs=5e-5)
    counts = np.bincount(arrays["train_y"]).tolist()
    assert counts == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]


def test_fashion_mnist(record_testsuite_property: Record) -> None:
    arrays = load("fashion-mnist", record_testsuite_property)
    assert arrays["train_x"].shape == (60_000, 1, 28, 28)
    assert arrays["train_y"][0] == 9
    assert np.bincount(arrays["train_y"]).tolist() == [6_000] * 10
    assert np.bincount(arrays["test_y"]).tolist() == [1_000] * 10
    assert arrays["train_x"].mean() / 255 == pytest.approx(0.2860, abs=5e-5)


def test_cifar_10(record_testsuite_property: Record) -> None:
    arrays = load("cifar-10", record_testsuite_property)
    assert arrays["train_x"].shape == (50_000, 3, 32, 32)
    assert arrays["test_x"].shape == (10_000, 3, 32, 32)
    assert arrays["train_y"][:4].tolist() == [6, 9, 9, 4]
    assert np.bincount(arrays["train_y"]).tolist() == [5_000] * 10
    assert np.bincount(arrays["test_y"]).tolist() == [1_000] * 10
    means = arrays["train_x"].mean(axis=(0, 2, 3)) / 255
    assert means.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)


def test_imdb(record_testsuite_property: Record) -> None:
    arrays = load("imdb", record_testsuite_property)
    for split in ("train", "test"):
        assert np.bincount(arrays[f"{split}_y"]).tolist() == [12_500] * 2
    texts = imdb.reviews(arrays, "train")
    assert len(texts) == 25_000
    # The number of words that Keras's tokenizer finds in the training reviews (Chollet 2018, section 6.1.3).
    assert len(ranks(texts)) == 88_582
    tokens = imdb.load_tokens()
    assert tokens["train_x"].shape == tokens["test_x"].shape == (25_000, 80)
    assert int(tokens["train_x"].max()) == 19_999
    assert set(tokens["test_x"][:, 0].tolist()) == {1}


def test_location_30(record_testsuite_property: Record) -> None:
    arrays = load("location-30", record_testsuite_property)
    assert arrays["x"].shape == (5_010, 446)
    assert set(np.unique(arrays["x"])) == {0, 1}
    assert sorted(set(arrays["y"].tolist())) == list(range(30))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar-10", "imdb", "location-30"])
def test_what_is_here_is_good(name: str) -> None:
    assert member(name).verify().state == "good"


def test_a_flipped_byte_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flipped: Flip) -> None:
    """In a batch of CIFAR-10 and in the bits of Location-30, whose publisher states no sum."""
    for name in ("cifar-10", "location-30"):
        place = Path(str(member(name).location()))
        copied = tmp_path / place.relative_to(str(REAL))
        copied.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            shutil.copytree(place, copied)
            flipped(copied / "data_batch_4.bin", 12_345_678)
        else:
            shutil.copy(place, copied)
            flipped(copied, 101)
    monkeypatch.setenv("PRIVBENCH_DATA", str(tmp_path))
    verdict = member("cifar-10").verify()
    assert verdict.state == "damaged"
    assert "data_batch_4.bin" in verdict.detail
    assert member("location-30").verify().state == "damaged"
    with pytest.raises(BenchError, match="the published content of location-30"):
        location_30.dataset.load()


def test_a_foreign_set_in_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fashion-MNIST where MNIST should be: same names, same format, same sizes."""
    shutil.copytree(str(member("fashion-mnist").location()), tmp_path / "mnist")
    monkeypatch.setenv("PRIVBENCH_DATA", str(tmp_path))
    with pytest.raises(BenchError, match="the published content of mnist"):
        member("mnist").load()


def test_unpacked_mnist_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in Path(str(member("mnist").location())).glob("*.gz"):
        target = tmp_path / "MNIST/raw" / file.stem
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.decompress(file.read_bytes()))
    monkeypatch.setenv("PRIVBENCH_DATA", str(tmp_path))
    assert member("mnist").verify().state == "good"
