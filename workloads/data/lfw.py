"""Labelled Faces in the Wild, reduced as in DirDP-SGD: 106 people, 14 photographs each, 32 x 32 colour.

Arrays: x (uint8, (1484, 3, 32, 32), red, green, blue), y (int64: people in the order of their names, from 0).
There is no split; the paper trains on 1,113 and tests on 371. It does not state which 14 photographs of each
person it uses, nor how it resizes them; ours are the first 14 by number, resized by Pillow's bilinear filter.
"""

import io
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.data.array_cache import Arrays
from workloads.data.dataset import File, Place, Published
from workloads.data.foreign_files import read_members, wrong

NAME = re.compile(r"(?:^|/)([^/]+)/\1_(\d+)\.jpg$")
"""Person and number: the folder and the file are both named after the person."""
SIDE = 250
"""Pixels of the published photographs, both ways."""
LARGEST = 1_000_000
"""Bytes; the published photographs have less than 50,000."""


def read_faces(path: Path, people: int = 106, each: int = 14, side: int = 32) -> Arrays:
    """The arrays above.

    Args:
        path: the folder lfw with a folder per person, or the archive as published.
        people: the number of people with enough photographs there must be.
        each: photographs used per person.
        side: pixels to resize to, both ways.
    """
    found: dict[str, dict[int, bytes]] = {}
    for name, content in read_members(path, lambda name: NAME.search(name) is not None, LARGEST):
        if match := NAME.search(name):
            found.setdefault(match[1], {})[int(match[2])] = content
    enough = sorted(person for person, photographs in found.items() if len(photographs) >= each)
    if len(enough) != people:
        raise wrong(path, f"{people} people with {each} photographs or more", f"{len(enough)}")
    faces = [
        _shrunk(f"{path}: {person}, photograph {number}", found[person][number], side)
        for person in enough
        for number in sorted(found[person])[:each]
    ]
    return {"x": np.stack(faces), "y": np.repeat(np.arange(people, dtype=np.int64), each)}


def _shrunk(name: str, content: bytes, side: int) -> NDArray[Any]:
    from PIL import Image, UnidentifiedImageError

    expected = f"a JPEG of {SIDE} x {SIDE} pixels"
    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
            if image.size != (SIDE, SIDE):
                raise wrong(name, expected, f"{image.size[0]} x {image.size[1]}")
            small = image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise wrong(name, expected, "a truncated or other file") from error
    return np.asarray(small, np.uint8).transpose(2, 0, 1)


FACE = ("George_W_Bush/George_W_Bush_0001.jpg",)

dataset = Published(
    name="lfw",
    about="faces of 106 people, 14 each, 32 x 32 colour, out of 13,233 photographs",
    licence="none stated by the publisher; photographs from the news",
    citation="Huang, Ramesh, Berg and Learned-Miller: Labeled Faces in the Wild, UMass TR 07-49, 2007",
    places=(Place("lfw/lfw.tgz"), Place("lfw/lfw", FACE), Place("lfw.tgz"), Place("lfw", FACE)),
    read=partial(read_faces, people=106, each=14, side=32),
    files=(
        File(
            "lfw.tgz",
            ("http://vis-www.cs.umass.edu/lfw/lfw.tgz", "https://ndownloader.figshare.com/files/5976018"),
            "a17d05bd522c52d84eca14327a23d494",
        ),
    ),
)
