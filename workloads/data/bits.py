"""The format of Purchase-100 and Location-30: a line of text per record, its class, then zeros and ones."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workloads.data.array_cache import Arrays
from workloads.data.foreign_files import read_members, wrong

CHUNK = 8_192
"""Lines parsed at a time: a few tens of megabytes."""


def read_bits(path: Path, member: str, rows: int, features: int, classes: int) -> Arrays:
    """x: uint8 (rows, features) of zeros and ones; y: int64 classes from 0 (the files count from 1).

    Args:
        path: the text file itself, or the archive that holds it.
        member: the text file's name.
        rows: the number of lines there must be.
        features: the number of bits on each line.
        classes: the number of classes; the file's labels are 1 to this.
    """
    limit = rows * (2 * features + 16)
    named = read_members(path, lambda name: name.rpartition("/")[2] == member, limit)
    content = next((content for _, content in named), None)
    if content is None:
        raise wrong(path, f"a file called {member} inside", "none")
    return _parse(path, content, rows, features, classes)


def _parse(path: Path, content: bytes, rows: int, features: int, classes: int) -> Arrays:
    text = np.frombuffer(content.replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n", np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    if len(ends) != rows:
        raise wrong(path, f"{rows:,} lines", f"{len(ends):,}")
    starts = np.concatenate([[0], ends[:-1] + 1])
    tail = 2 * features  # every bit with the comma before it
    if len(short := np.flatnonzero(ends - starts <= tail)):
        raise wrong(path, f"a class and {features} bits on line {short[0] + 1}", "a shorter line")
    x = np.empty((rows, features), np.uint8)
    for begin in range(0, rows, CHUNK):
        chosen = ends[begin : begin + CHUNK]
        pairs = text[chosen[:, None] + np.arange(-tail, 0)].reshape(len(chosen), features, 2)
        bits = pairs[:, :, 1] - np.uint8(ord("0"))  # other characters wrap around to large values
        good = ((pairs[:, :, 0] == ord(",")) & (bits <= 1)).all(axis=1)
        if not good.all():
            line = begin + int(np.argmin(good)) + 1
            raise wrong(
                path, f"a class and {features} bits, separated by commas, on line {line}", "other text"
            )
        x[begin : begin + CHUNK] = bits
    return {"x": x, "y": _labels(path, text, starts, ends - tail, classes)}


def _labels(
    path: Path, text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], classes: int
) -> NDArray[np.int64]:
    y = np.empty(len(starts), np.int64)
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        label = text[start : min(end, start + 16)].tobytes().strip(b'" ')  # Location-30 quotes its classes
        if not label.isdigit() or not 1 <= int(label) <= classes:
            found = label.decode("utf-8", "replace")
            raise wrong(path, f"a class from 1 to {classes} at the start of line {row + 1}", f"'{found}'")
        y[row] = int(label) - 1
    return y
