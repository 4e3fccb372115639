"""Files of data sets: truncated, of other publishers, or malicious."""

import gzip
import io
import pickle
import shutil
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.campaigns.fuzz.ground import Ground
from tests.campaigns.fuzz.inputs import files, names
from tests.campaigns.fuzz.target import Target
from workloads.data import cifar, idx, imdb, lfw
from workloads.data.bits import read_bits
from workloads.data.cifar import Label, Layout
from workloads.data.pickled import read_dict

LAYOUT = Layout((Label("y", "labels", 10),), {"data_batch_1": 2}, {"test_batch": 1})
HALVES = ("train/neg", "train/pos", "test/neg", "test/pos")
REVIEWS = {f"aclImdb/{half}/0_7.txt": b"good" for half in HALVES}


class Bomb:
    """An object whose pickle executes code when it is loaded."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.write_text, (Path("/tmp/privbench-fuzz-bomb"), "boom")


def idx_file(count: int, side: int | None = None) -> bytes:
    """Zeros in the IDX format: images, or labels if there is no side."""
    shape = (count,) if side is None else (count, side, side)
    sizes = b"".join(size.to_bytes(4, "big") for size in shape)
    return bytes([0, 0, 8, len(shape)]) + sizes + bytes(int(np.prod(shape)))


def tar(members: Mapping[str, bytes]) -> bytes:
    """A tar archive, gzip."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name.encode("utf-8", "replace").decode())
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return held.getvalue()


def batch(count: int, protocol: int) -> bytes:
    """A pickled batch of CIFAR."""
    pixels = np.zeros((count, cifar.PIXELS), np.uint8)
    return pickle.dumps({"data": pixels, "labels": [1] * count}, protocol)


def photograph() -> bytes:
    """A grey JPEG of LFW's size."""
    from PIL import Image

    held = io.BytesIO()
    Image.new("RGB", (lfw.SIDE, lfw.SIDE), (90, 90, 90)).save(held, "JPEG")
    return held.getvalue()


def idx_folder(ground: Ground, given: tuple[str, bytes]) -> str:
    """Four files, one of them not as published."""
    for array, name in idx.FILES.items():
        labels = array.endswith("_y")
        ground.lay(f"idx/{name}", idx_file(2 if "train" in array else 1, None if labels else 28))
    ground.lay(f"idx/{given[0]}", given[1])
    return ground.survives(lambda: idx.read_images(ground.files / "idx", train=2, test=1))


def read_with(ground: Ground, given: tuple[str, bytes], reader: Callable[[Path], object]) -> str:
    """A single file or archive under some name."""
    file = ground.lay(given[0], given[1])
    try:
        return ground.survives(lambda: reader(file))
    finally:
        file.unlink()


def cifar_folder(ground: Ground, given: tuple[str, bytes]) -> str:
    """A folder of batches, one of them not as published."""
    ground.lay("cifar/test_batch", batch(1, 2))
    ground.lay("cifar/data_batch_1", batch(2, 2))
    ground.lay(f"cifar/{given[0]}", given[1])
    try:
        return ground.survives(lambda: cifar.read_images(ground.files / "cifar", LAYOUT))
    finally:
        shutil.rmtree(ground.files / "cifar")


def members_of(ground: Ground, given: Mapping[str, bytes]) -> str:
    """Archives whose members have any name: nothing is ever unpacked."""
    file = ground.lay("aclImdb_v1.tar.gz", tar({**REVIEWS, **given}))
    return ground.survives(lambda: imdb.read_reviews(file, each=1))


def pickled(ground: Ground, content: bytes) -> str:
    """Pickles: plain data or refused, with ValueError from the reader."""

    def read() -> None:
        try:
            read_dict(content)
        except ValueError:
            return

    return ground.survives(read)


BITS = b"1,0,1,1\n2,0,0,0\n"
IDX = (idx_file(2, 28), idx_file(2), gzip.compress(idx_file(2, 28)), gzip.compress(idx_file(2)))
BATCHES = (bytes(2 * (1 + cifar.PIXELS)), batch(2, 2), batch(2, 4), pickle.dumps(Bomb()))
PICKLES = (batch(1, 0), batch(1, 2), batch(1, 5), pickle.dumps(Bomb()), pickle.dumps({"a": [1, b"2", None]}))
FACES = tar({f"lfw/{name}/{name}_0001.jpg": photograph() for name in ("A_B", "C_D")})
member_names = st.builds("aclImdb/{}/{}".format, st.sampled_from((*HALVES, "..")), names) | names

some_idx = st.sampled_from(sorted(idx.FILES.values()))
some_batch = st.sampled_from(("data_batch_1", "data_batch_1.bin", "test_batch"))
some_bits = st.sampled_from(("bangkok", "dataset_location.tgz"))
read_location = partial(read_bits, member="bangkok", rows=2, features=3, classes=2)
read_two = partial(lfw.read_faces, people=2, each=1)

TARGETS = (
    Target("idx files", st.tuples(some_idx, files(*IDX)), idx_folder, (idx.FILES["train_x"], IDX[0])),
    Target(
        "cifar batches",
        st.tuples(some_batch, files(*BATCHES)),
        cifar_folder,
        ("data_batch_1.bin", BATCHES[0]),
    ),
    Target(
        "bits",
        st.tuples(some_bits, files(BITS, tar({"bangkok": BITS}), tar({"../bangkok": BITS}))),
        partial(read_with, reader=read_location),
        ("bangkok", BITS),
    ),
    Target(
        "reviews",
        st.tuples(st.sampled_from(("aclImdb_v1.tar.gz", "aclImdb_v1.tar")), files(tar(REVIEWS))),
        partial(read_with, reader=partial(imdb.read_reviews, each=1)),
        ("aclImdb_v1.tar.gz", tar(REVIEWS)),
    ),
    Target(
        "names in archives",
        st.dictionaries(member_names, st.binary(max_size=20), max_size=3),
        members_of,
        {},
        weight=5,
    ),
    Target(
        "photographs",
        st.tuples(st.just("lfw.tgz"), files(FACES)),
        partial(read_with, reader=read_two),
        ("lfw.tgz", FACES),
        weight=5,
    ),
    Target("pickles", files(*PICKLES), pickled, PICKLES[1]),
)
