"""Lines of bits, as text or in an archive; a wrong line is named by its number."""

import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from workloads.data import bits
from workloads.data.bits import read_bits
from workloads.errors import BenchError

if TYPE_CHECKING:
    from tests.workloads.data.conftest import Shelf

LINES = ['"2",0,1,1', "1,1,0,0", '"3",0,0,0', "12,1,1,1"]
TEXT = "\n".join(LINES).encode() + b"\n"


def read(path: Path) -> dict[str, np.ndarray]:
    return read_bits(path, "people", rows=4, features=3, classes=12)


@pytest.mark.parametrize("text", [TEXT, TEXT[:-1], TEXT.replace(b"\n", b"\r\n")])
def test_text_and_archive(shelf: "Shelf", text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "CHUNK", 3)
    for path in (shelf.write("people", text), shelf.tar("a.tgz", {"x/README": b"", "x/people": text})):
        arrays = read(path)
        assert arrays["x"].tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]]
        assert arrays["y"].tolist() == [1, 0, 2, 11]
        assert [arrays[name].dtype.name for name in "xy"] == ["uint8", "int64"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("13,0,1,1", "line 3, found '13'"),
        ("0,0,1,1", "line 3, found '0'"),
        ("x,0,1,1", "line 3, found 'x'"),
        ("-1,0,1,1", "line 3, found '-1'"),
        ("3,0,2,1", "commas, on line 3"),
        ("3,0,1;1", "commas, on line 3"),
        ("3,0,1", "on line 3, found a shorter line"),
        ("", "on line 3, found a shorter line"),
        ("3,0,1,1,1", "line 3, found '3,0'"),
        ("3,0,1,1\n3,0,1,1", "expected 4 lines, found 5"),
    ],
)
def test_a_wrong_line_is_named(shelf: "Shelf", line: str, found: str) -> None:
    path = shelf.write("people", "\n".join([*LINES[:2], line, LINES[3]]).encode())
    with pytest.raises(BenchError) as caught:
        read(path)
    assert found in str(caught.value)


def test_an_archive_without_the_file(shelf: "Shelf") -> None:
    path = shelf.tar("other.tgz", {"texas": TEXT})
    with pytest.raises(BenchError) as caught:
        read(path)
    assert (caught.value.field, caught.value.value) == (str(path), "none")


def test_a_cut_archive(shelf: "Shelf") -> None:
    path = shelf.tar("cut.tgz", {"people": TEXT})
    path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(BenchError) as caught:
        read(path)
    assert (caught.value.field, caught.value.allowed) == (str(path), "a whole tar archive")


def test_an_archive_cannot_lead_outside(shelf: "Shelf") -> None:
    """Members with paths upwards are only read, links are not followed, nothing appears on the disk."""
    secret = shelf.write("secret", TEXT)
    upwards = shelf.tar("upwards.tgz", {"../../people": TEXT})
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        link = tarfile.TarInfo("people")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
    linked = shelf.write("linked.tgz", held.getvalue())
    before = sorted(shelf.root.parent.rglob("*"))
    assert read(upwards)["y"].tolist() == [1, 0, 2, 11]
    with pytest.raises(BenchError) as caught:
        read(linked)
    assert caught.value.value == "none"
    assert sorted(shelf.root.parent.rglob("*")) == before
