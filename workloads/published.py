"""The base of workloads on published data: origin and availability of the data."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from workloads import data
from workloads.base import Records
from workloads.data.dataset import Published
from workloads.records import every_other

Splits = tuple[Records, Records]
"""Pool and test."""


def published(name: str) -> Published:
    """The published data set of this name."""
    dataset = data.family.get(name)
    if not isinstance(dataset, Published):
        raise TypeError(f"{name} comes with a package and is not read from a publisher's files")
    return dataset


@dataclass(frozen=True)
class OnPublishedData(ABC):
    """One network on one published data set.

    Everything but the records is available without the data. `n_train` is below the pool size even if the
    paper trains on all of it: without non-members leakage cannot be measured.
    """

    name: str
    network: str
    dataset: str
    classes: int
    n_train: int
    build: Callable[[int], nn.Module]
    version: str = "1"

    @property
    def about(self) -> str:
        """The data and the network in one line."""
        return f"{self.dataset}: {self.network}"

    @property
    def source(self) -> str:
        """Citation and licence."""
        dataset = published(self.dataset)
        return f"{dataset.citation}; licence: {dataset.licence}"

    def missing(self) -> str | None:
        """Why the records are missing, as the error on access would state it; else None."""
        dataset = published(self.dataset)
        return dataset.absence() if dataset.location() is None else None

    @abstractmethod
    def splits(self) -> Splits:
        """Pool and test; BenchError with the files to provide if the data are missing."""

    def pool(self) -> Records:
        """The records that members and non-members are drawn from."""
        return self.splits()[0]

    def test(self) -> Records:
        """The records that are never members."""
        return self.splits()[1]

    def public(self) -> Records:
        """Every other test record: published data have no records besides pool and test."""
        return every_other(self.test())

    def model(self, seed: int) -> nn.Module:
        """A fresh network."""
        return self.build(seed)
