"""Faces: which people and photographs are used, and how they are resized."""

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from workloads.data.lfw import read_faces
from workloads.errors import BenchError

if TYPE_CHECKING:
    from tests.workloads.data.conftest import Shelf


def photograph(colour: tuple[int, int, int], side: int = 250) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (side, side), colour).save(held, "JPEG", quality=95)
    return held.getvalue()


def album(people: dict[str, int]) -> dict[str, bytes]:
    """A number of photographs of each person, the first darkest; every person has another colour."""
    colours = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    made = {}
    for (person, count), colour in zip(people.items(), colours, strict=True):
        for number in range(1, count + 1):
            red, green, blue = (50 * number * each for each in colour)
            made[f"{person}/{person}_{number:04d}.jpg"] = photograph((red, green, blue))
    return made


PEOPLE = {"Zoe_Z": 3, "Ann_A": 4, "Bob_B": 2}


def test_folder_and_archive_reduced(shelf: "Shelf") -> None:
    for name, content in album(PEOPLE).items():
        shelf.write(f"lfw/{name}", content)
    shelf.write("lfw/Ann_A/Thumbs.db", b"not a photograph")
    archive = shelf.tar("lfw.tgz", {f"lfw/{name}": content for name, content in album(PEOPLE).items()})
    for path in (shelf.root / "lfw", archive):
        arrays = read_faces(path, people=2, each=3, side=32)
        assert arrays["x"].shape == (6, 3, 32, 32)
        assert arrays["x"].dtype == np.uint8
        assert arrays["y"].tolist() == [0, 0, 0, 1, 1, 1]
        means = arrays["x"].mean(axis=(2, 3))
        # Ann comes first by name and is green, Zoe is red; the first three of each, in their order.
        expected = [[0, 50, 0], [0, 100, 0], [0, 150, 0], [50, 0, 0], [100, 0, 0], [150, 0, 0]]
        assert np.abs(means - np.array(expected)).max() < 3


def test_too_few_people(shelf: "Shelf") -> None:
    path = shelf.tar("lfw.tgz", album(PEOPLE))
    with pytest.raises(BenchError) as caught:
        read_faces(path, people=3, each=3)
    assert (caught.value.field, caught.value.value) == (str(path), "2")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (photograph((9, 9, 9), side=64), "64 x 64"),
        (b"<html>", "a truncated or other file"),
        (photograph((9, 9, 9))[:700], "a truncated or other file"),
    ],
)
def test_a_wrong_photograph_is_named(shelf: "Shelf", content: bytes, found: str) -> None:
    path = shelf.tar("lfw.tgz", album(PEOPLE) | {"Ann_A/Ann_A_0002.jpg": content})
    with pytest.raises(BenchError) as caught:
        read_faces(path, people=2, each=3)
    assert caught.value.field == f"{path}: Ann_A, photograph 2"
    assert found in str(caught.value.value)
