"""What workloads on published data share: where the data come from, and whether they are here."""

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
    """The data set of this name, which must be one that publishers ship."""
    dataset = data.family.get(name)
    if not isinstance(dataset, Published):
        raise TypeError(f"{name} comes with a package and is not read from a publisher's files")
    return dataset


@dataclass(frozen=True)
class OnPublishedData(ABC):
    """One network on one published data set.

    Everything but the records can be asked without the data. `n_train` is below the pool even where the paper
    trains on all of it: without non-members nothing can be said about leakage.
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
        """Whom to cite, and under which licence."""
        dataset = published(self.dataset)
        return f"{dataset.citation}; licence: {dataset.licence}"

    def missing(self) -> str | None:
        """Why the records cannot be had here, in the words of the error that asking would give; else None."""
        dataset = published(self.dataset)
        return dataset.absence() if dataset.location() is None else None

    @abstractmethod
    def splits(self) -> Splits:
        """Pool and test; a BenchError that says which file to put where if the data are absent."""

    def pool(self) -> Records:
        """The records that members and non-members are drawn from."""
        return self.splits()[0]

    def test(self) -> Records:
        """The records that are never members."""
        return self.splits()[1]

    def public(self) -> Records:
        """Every other test record: publishers leave nothing else that is neither pool nor test."""
        return every_other(self.test())

    def model(self, seed: int) -> nn.Module:
        """A fresh network."""
        return self.build(seed)
