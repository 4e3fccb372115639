"""Feature banks: a frozen network's features of every record of a data set, computed once and cached."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workloads.data.array_cache import Arrays, cached, digest, file_of, forget
from workloads.errors import BenchError
from workloads.features.progress import Lines, Progress
from workloads.published import published

Features = NDArray[np.float16]
Inputs = NDArray[Any] | list[str]
"""Images as bytes, (n, planes, height, width), or texts."""
Encode = Callable[[Any], Features]
"""Maps inputs to one row of features each."""
SPLITS = ("train", "test")
PART = 2_000
"""Records between two checkpoints from which an interrupted computation resumes."""


class Encoder(Protocol):
    """A frozen map from a record to its features.

    It depends on that record and on public weights only, so features cost no privacy: nothing is learnt from
    the data or normalised with them.
    """

    @property
    def about(self) -> str:
        """One line: the network, the features, the citation."""
        ...

    @property
    def version(self) -> str:
        """Everything the features depend on besides the records, as a part of a file name: the weights, and
        a number that is raised when the same weights would give other features."""
        ...

    def missing(self) -> str | None:
        """What must be done before `open` works; None if it does."""
        ...

    def inputs(self, arrays: Arrays, split: str) -> Inputs:
        """The records of a split, train or test."""
        ...

    def open(self) -> Encode:
        """Load the weights; the returned function runs on all of torch's threads."""
        ...


@dataclass(frozen=True)
class Bank:
    """The features of one published data set by one encoder."""

    name: str
    dataset: str
    encoder: Encoder

    @property
    def about(self) -> str:
        """One line for `privbench data features`."""
        return f"{self.dataset}: {self.encoder.about}"

    def missing(self) -> str | None:
        """Why the features can neither be read nor computed; else None."""
        dataset = published(self.dataset)
        if dataset.location() is None:
            return dataset.absence()
        if self.kept() or (reason := self.encoder.missing()) is None:
            return None
        return (
            f"the features '{self.name}' are missing and cannot be computed: {reason}, then "
            f"`privbench data features {self.name}`; or put those of another machine at {self.file()}"
        )

    def file(self) -> Path:
        """The cache file. Needs the data: their content is part of its name."""
        return file_of(self.name, self._key())

    def kept(self) -> bool:
        """Whether the features are cached."""
        return self.file().is_file()

    def load(self, progress: Progress | None = None) -> Arrays:
        """train_x and test_x, float16, mapped from disk; train_y and test_y. Computed if not cached.

        An interrupted computation resumes at its last checkpoint. Of concurrent processes one computes the
        features and the others wait.
        """
        if reason := self.missing():
            raise BenchError(reason, field="features", value=self.name)
        arrays, key = published(self.dataset).load(), self._key()
        computation = Computation(self, arrays, key, progress or Lines())
        with nullcontext() if self.kept() else alone(file_of(self.name, key)):
            features = cached(self.name, key, computation.features)
            computation.forget()
        self._check(features, arrays)
        return features | {f"{split}_y": arrays[f"{split}_y"] for split in SPLITS}

    def _check(self, features: Arrays, arrays: Arrays) -> None:
        """BenchError if the file, perhaps of another machine, is of other records."""
        found = [len(features[f"{split}_x"]) for split in SPLITS]
        right = [len(arrays[f"{split}_y"]) for split in SPLITS]
        if found != right:
            raise BenchError(
                f"{self.file()}: expected features of {right[0]} train and {right[1]} test records, "
                f"found {found[0]} and {found[1]}; delete it, or put the right one there",
                field=str(self.file()),
                value=found,
                allowed=right,
            )

    def _key(self) -> str:
        dataset = published(self.dataset)
        return f"{(dataset.sha256 or digest(dataset.load()))[:12]}-{self.encoder.version}"


@dataclass(frozen=True)
class Computation:
    """The computation of a bank's features in parts, each cached until all are done."""

    bank: Bank
    arrays: Arrays
    key: str
    progress: Progress

    def features(self) -> Arrays:
        """train_x and test_x."""
        encode = self.bank.encoder.open()
        return {f"{split}_x": self._split(split, encode) for split in SPLITS}

    def forget(self) -> None:
        """Remove the parts."""
        for split in SPLITS:
            for begin in range(0, self._count(split), PART):
                forget(self._part(split, begin), self.key)

    def _split(self, split: str, encode: Encode) -> Features:
        inputs, parts = self.bank.encoder.inputs(self.arrays, split), []
        what, count = f"features {self.bank.name}, {split}", len(inputs)
        self.progress(what, 0, count)
        for begin in range(0, count, PART):
            rows = inputs[begin : begin + PART]
            made = cached(self._part(split, begin), self.key, partial(_encoded, encode, rows))
            parts.append(made["x"])
            self.progress(what, begin + len(rows), count)
        return np.concatenate(parts)

    def _count(self, split: str) -> int:
        return len(self.arrays[f"{split}_y"])

    def _part(self, split: str, begin: int) -> str:
        return f".{self.bank.name}-{split}-{begin}"


def _encoded(encode: Encode, rows: Inputs) -> Arrays:
    return {"x": encode(rows)}


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Hold a lock against other processes that compute the same file."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.with_name(f".{file.name}.lock").open("w")
    except OSError:  # nothing can be cached here, so there is nothing to wait for
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
