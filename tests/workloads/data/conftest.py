"""Small files in the publishers' formats, in a test's own folders."""

import gzip
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray


class Shelf:
    """A data root and a cache of one test, and the formats to fill the root with."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root, self.cache = root, cache

    def write(self, name: str, content: bytes) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def tar(self, name: str, members: Mapping[str, bytes]) -> Path:
        held = io.BytesIO()
        with tarfile.open(fileobj=held, mode="w:gz") as archive:
            for member, content in members.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return self.write(name, held.getvalue())

    def idx(self, name: str, array: NDArray[np.uint8]) -> Path:
        return self.write(name, gzip.compress(idx(array), mtime=0))

    def mnist(self, folder: str = "mnist", seed: int = 0) -> dict[str, NDArray[Any]]:
        """Six training and four test images; what was written."""
        random = np.random.default_rng(seed)
        made: dict[str, NDArray[Any]] = {}
        for split, prefix, count in (("train", "train", 6), ("test", "t10k", 4)):
            made[f"{split}_x"] = random.integers(256, size=(count, 28, 28), dtype=np.uint8)
            made[f"{split}_y"] = random.integers(10, size=count, dtype=np.uint8)
            self.idx(f"{folder}/{prefix}-images-idx3-ubyte.gz", made[f"{split}_x"])
            self.idx(f"{folder}/{prefix}-labels-idx1-ubyte.gz", made[f"{split}_y"])
        return made

    def kept(self) -> list[Path]:
        """Every file in the cache, hidden ones too."""
        return sorted(self.cache.iterdir()) if self.cache.exists() else []


def idx(array: NDArray[np.uint8]) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setenv("PRIVBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PRIVBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return Shelf(tmp_path / "data", tmp_path / "cache")


def flip(file: Path, at: int) -> None:
    """Change one bit of a file, and its time as an edit would."""
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


@pytest.fixture
def flipped() -> Any:
    return flip
