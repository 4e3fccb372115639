"""Published data: found in every usual place, parsed once, refused if the content differs."""

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from workloads import data
from workloads.data import idx, mnist
from workloads.data.array_cache import Arrays, digest
from workloads.data.dataset import Embedded, File, Published
from workloads.data.foreign_files import md5
from workloads.errors import BenchError

if TYPE_CHECKING:
    from tests.workloads.data.conftest import Shelf

Flip = Callable[[Path, int], None]
SMALL = replace(mnist.dataset, read=partial(idx.read_images, train=6, test=4), files=(), sums={}, sha256=None)
"""MNIST of ten images and without sums."""


def summed(shelf: "Shelf") -> Published:
    """The same with the checksums of the present files, as a publisher states them."""
    folder = shelf.root / "mnist"
    files = tuple(
        File(name, (f"http://x.invalid/{name}",), md5(folder / name)) for name in idx.FILES.values()
    )
    inside = {
        name.removesuffix(".gz"): md5(shelf.write("inside", gzip.decompress((folder / name).read_bytes())))
        for name in idx.FILES.values()
    }
    return replace(SMALL, files=files, sums=inside)


def test_read_once_then_from_the_cache(shelf: "Shelf") -> None:
    shelf.mnist()
    first = SMALL.load()

    def never(_: Path) -> Arrays:
        raise AssertionError("it was parsed a second time")

    again = replace(SMALL, read=never).load()
    assert digest(first) == digest(again)
    assert first["train_x"].shape == (6, 1, 28, 28)


def test_a_changed_source_is_reread(shelf: "Shelf") -> None:
    shelf.mnist(seed=0)
    before = digest(SMALL.load())
    made = shelf.mnist(seed=1)
    after = SMALL.load()
    assert np.array_equal(after["train_x"][:, 0], made["train_x"])
    assert digest(after) != before


def test_a_raised_version_is_reread(shelf: "Shelf") -> None:
    shelf.mnist()
    SMALL.load()
    other = replace(SMALL, version=2, read=lambda _: {"x": np.zeros(1)})
    assert list(other.load()) == ["x"]


@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", "MNIST"])
def test_found_in_the_usual_folders(shelf: "Shelf", folder: str) -> None:
    assert SMALL.location() is None
    shelf.mnist(folder)
    assert SMALL.location() == str(shelf.root / folder)
    assert len(SMALL.load()["test_y"]) == 4
    assert SMALL.size() == sum(file.stat().st_size for file in (shelf.root / folder).iterdir())


def test_a_missing_data_set_states_where_and_how(shelf: "Shelf") -> None:
    with pytest.raises(BenchError) as caught:
        mnist.dataset.load()
    message = str(caught.value)
    assert "data set 'mnist' is missing" in message
    assert str(shelf.root / "MNIST/raw") in message
    assert "privbench data fetch mnist" in message
    assert (
        f"at {shelf.root / 'mnist/t10k-labels-idx1-ubyte.gz'} (MD5 ec29112dd5afa0611ce80d1b7f02629c"
        in message
    )
    assert mnist.dataset.verify().state == "absent"


def test_half_a_set_is_not_a_set(shelf: "Shelf") -> None:
    shelf.mnist()
    (shelf.root / "mnist/t10k-labels-idx1-ubyte.gz").unlink()
    assert SMALL.location() is None
    with pytest.raises(BenchError, match=r"mnist lacks t10k-labels-idx1-ubyte\.gz"):
        SMALL.load()


def test_a_foreign_file_is_never_kept(shelf: "Shelf") -> None:
    shelf.mnist()
    shelf.write("mnist/train-labels-idx1-ubyte.gz", b"<html>Sign in to the network</html>")
    with pytest.raises(BenchError) as caught:
        SMALL.load()
    assert caught.value.field == str(shelf.root / "mnist/train-labels-idx1-ubyte.gz")
    assert shelf.kept() == []
    assert SMALL.verify().state == "damaged"


def test_a_flipped_byte_is_found_and_never_kept(shelf: "Shelf", flipped: Flip) -> None:
    """In the pixels of an unpacked file, where no format could show it."""
    shelf.mnist()
    dataset = summed(shelf)
    dataset = replace(dataset, sha256=digest(dataset.load()))
    assert dataset.verify().state == "good"
    shutil.rmtree(shelf.cache)
    file = shelf.root / "mnist/train-images-idx3-ubyte.gz"
    file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
    file.unlink()
    assert dataset.verify().state == "good"
    flipped(file.with_suffix(""), 1234)
    for each in (dataset, replace(dataset, sha256=None)):
        verdict = each.verify()
        assert verdict.state == "damaged"
        assert "train-images-idx3-ubyte" in verdict.detail
        with pytest.raises(BenchError, match="train-images-idx3-ubyte"):
            each.load()
    assert shelf.kept() == []


def test_content_is_checked_where_no_sum_is_published(shelf: "Shelf", flipped: Flip) -> None:
    shelf.mnist()
    dataset = replace(SMALL, sha256=digest(SMALL.load()))
    assert dataset.verify().state == "good"
    shelf.mnist(seed=1)
    assert dataset.verify().state == "damaged"
    with pytest.raises(BenchError, match="the published content of mnist"):
        dataset.load()


def test_a_gzip_file_repacked_is_good(shelf: "Shelf") -> None:
    shelf.mnist()
    dataset = summed(shelf)
    file = shelf.root / "mnist/train-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()), compresslevel=1, mtime=99))
    assert md5(file) not in dataset.known().values()
    assert dataset.verify().state == "good"
    assert dataset.load()["train_y"].shape == (6,)


def test_without_any_sum_it_is_unchecked(shelf: "Shelf") -> None:
    shelf.mnist()
    verdict = SMALL.verify()
    assert verdict.state == "unchecked"
    assert "no checksum is published" in verdict.detail


def test_an_unreadable_place_is_an_error_of_ours(shelf: "Shelf") -> None:
    def closed(path: Path) -> Arrays:
        raise PermissionError(13, "Permission denied", str(path))

    shelf.mnist()
    with pytest.raises(BenchError, match=r"cannot be read: .*Permission denied"):
        replace(SMALL, read=closed).load()


def test_embedded_data_are_verified() -> None:
    good = data.family.get("digits")
    assert isinstance(good, Embedded)
    assert good.verify().state == "good"
    assert replace(good, content=lambda: b"other").verify().state == "damaged"


def test_every_member_knows_whose_it_is() -> None:
    assert {
        "mnist",
        "fashion-mnist",
        "cifar-10",
        "cifar-100",
        "imdb",
        "lfw",
        "purchase-100",
        "location-30",
    } <= set(data.family.names())
    for name, dataset in data.family.members.items():
        assert dataset.about, name
        assert dataset.licence, name
        assert dataset.citation, name
        assert dataset.looked_for(), name
        if isinstance(dataset, Published):
            assert dataset.name == name
            assert all(url.startswith("http") for file in dataset.files for url in file.urls)
            assert all(len(each) == 32 for each in dataset.known().values())
            fetched = {f"{name}/{file.name}" for file in dataset.files} | {name}
            assert dataset.places[0].path in fetched, "what is fetched must be what is found first"


@pytest.mark.slow
def test_listing_loads_no_web_client_and_no_image_library() -> None:
    asked = "import sys; from workloads import data; data.family.names(); print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    loaded = set(answer.stdout.split())
    assert "workloads.data.lfw" in loaded
    assert loaded.isdisjoint({"pooch", "requests", "PIL"})
