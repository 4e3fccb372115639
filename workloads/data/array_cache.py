"""A cache of expensive arrays, each a memory-mapped file."""

import contextlib
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.data.places import cache_root

Arrays = dict[str, NDArray[Any]]

log = logging.getLogger(__name__)

TYPES = {
    "U8": np.uint8,
    "I32": np.int32,
    "I64": np.int64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
}
"""safetensors' names of the supported types."""


def cached(name: str, key: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays cached under this name and key; computed and cached if missing.

    Args:
        name: a readable name, the first part of the file's.
        key: a hash of everything they depend on, as a part of a file name; another key is another file.
        make: computes them. Its exceptions propagate, and nothing is cached.

    The arrays are mapped copy-on-write: they can be written to, the file never changes. A file whose
    checksum does not match is rebuilt. Processes may compute the same arrays concurrently: each writes
    aside and renames.
    """
    file = file_of(name, key)
    kept = _read(file)
    if kept is not None:
        return kept
    arrays = make()
    return arrays if not _write(file, arrays) else _read(file) or arrays


def file_of(name: str, key: str) -> Path:
    """The cache file of this name and key."""
    return cache_root() / f"{name}-{key}.safetensors"


def forget(name: str, key: str) -> None:
    """Remove the cache file of this name and key, if any; arrays already mapped stay valid."""
    with contextlib.suppress(OSError):
        file_of(name, key).unlink(missing_ok=True)


def digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 of the arrays with their names, types and shapes, independent of their order."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.data)
    return total.hexdigest()


def _write(file: Path, arrays: Arrays) -> bool:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    aside = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file(whole, aside, metadata={"sha256": digest(whole)})
        aside.replace(file)
    except (OSError, SafetensorError) as error:  # a full or read-only disk; the arrays themselves are fine
        log.warning("%s cannot be cached and will be recomputed next time: %s", file, error)
        return False
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
    return True


def _read(file: Path) -> Arrays | None:
    try:
        with file.open("rb") as opened:
            size = int.from_bytes(opened.read(8), "little")
            if size > file.stat().st_size:
                raise ValueError("the header is longer than the file")
            header = json.loads(opened.read(size))
        arrays = {
            name: _mapped(file, 8 + size, entry) for name, entry in header.items() if name != "__metadata__"
        }
        if digest(arrays) != header["__metadata__"]["sha256"]:
            raise ValueError("the checksum does not match")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("%s is damaged and will be rebuilt: %s", file, error)
        return None
    return arrays


def _mapped(file: Path, begin: int, entry: dict[str, Any]) -> NDArray[Any]:
    kind, shape, (start, end) = np.dtype(TYPES[entry["dtype"]]), tuple(entry["shape"]), entry["data_offsets"]
    if end == start:
        return np.empty(shape, kind)
    return np.memmap(file, kind, mode="c", offset=begin + start, shape=shape)
