"""What a data set is: where it lies, whose it is, and the hash that tells it is whole."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Dataset(Protocol):
    """A set of records that workloads read. `privbench data` lists and verifies them."""

    @property
    def about(self) -> str:
        """One line."""
        ...

    @property
    def licence(self) -> str:
        """As its publisher states it."""
        ...

    @property
    def sha256(self) -> str:
        """The hash of the content that our numbers were made with."""
        ...

    def location(self) -> str | None:
        """Where it was found; None where it is not here."""
        ...

    def verify(self) -> bool:
        """Whether what is here is what it should be."""
        ...


@dataclass(frozen=True)
class Embedded:
    """Data that come inside a package or out of a seeded generator: always here."""

    about: str
    licence: str
    where: str
    sha256: str
    content: Callable[[], bytes]

    def location(self) -> str | None:
        """The package or generator it comes from."""
        return self.where

    def verify(self) -> bool:
        """Whether the content hashes to what it should."""
        return hashlib.sha256(self.content()).hexdigest() == self.sha256
