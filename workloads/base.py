"""What a workload is: records of people, a fresh model, and how many of them one model trains on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Records:
    """Examples and their labels; row i is one person. `workloads/records.py` has them out of a Dataset."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"{len(self.x)} examples but {len(self.y)} labels")

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Tensor) -> "Records":
        """The records at these row numbers, in this order."""
        return Records(self.x[rows], self.y[rows])

    def to(self, device: torch.device) -> "Records":
        """The same records on a device."""
        return Records(self.x.to(device), self.y.to(device))

    def channels_last(self) -> "Records":
        """The same records, images with their channels last in memory."""
        return Records(channels_last(self.x), self.y)

    def batches(self, size: int) -> Iterator[Tensor]:
        """All examples in their order, at most `size` at a time; one empty batch where there are none."""
        yield from torch.split(self.x, size)


def channels_last(x: Tensor) -> Tensor:
    """The same numbers; images, (n, channels, height, width), with the channels last in memory."""
    # A single channel is first and last at once: only a copy says which is meant.
    return x.clone(memory_format=torch.channels_last) if x.dim() == 4 else x


def sent(values: Tensor, device: torch.device) -> Tensor:
    """The same values on a device; from the CPU by way of pinned memory, so that nobody waits for it."""
    if values.device.type != "cpu" or device.type == "cpu":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


class Workload(Protocol):
    """What is trained: data and a fresh model. It knows no method and no epsilon.

    Training settings live beside the module in `recipes/<name>.toml`, each value with its source.
    """

    @property
    def name(self) -> str:
        """The name on the command line."""
        ...

    @property
    def version(self) -> str:
        """Raised when the same name would give other numbers; part of every task's key."""
        ...

    @property
    def about(self) -> str:
        """One line for `privbench list workloads`."""
        ...

    @property
    def source(self) -> str:
        """Where the data come from, with citation and licence."""
        ...

    @property
    def classes(self) -> int:
        """How many labels there are."""
        ...

    @property
    def n_train(self) -> int:
        """Members per model: each model draws exactly this many from the pool."""
        ...

    def pool(self) -> Records:
        """The records from which members and non-members are drawn."""
        ...

    def test(self) -> Records:
        """Records that are never members; accuracy is measured on them."""
        ...

    def model(self, seed: int) -> nn.Module:
        """A freshly initialised model mapping x to logits; the same seed gives the same bits."""
        ...


@runtime_checkable
class Public(Protocol):
    """A workload that declares public records: nobody is a member of them, and anybody may look at them.

    They may be some of the test records. A method that is given them is judged by the others.
    """

    def public(self) -> Records:
        """The public records, of the same kind as the pool's. Methods get the examples without the labels."""
        ...


@dataclass(frozen=True)
class Attribute:
    """A column of the records that a person would rather keep to themselves."""

    name: str
    column: int
    values: tuple[float, ...]
    """What it may be. A record's own is the nearest of them, so that a measurement can be low or high."""

    def of(self, x: Tensor) -> Tensor:
        """(n,): which of the values each record has, as its number."""
        return (x[:, self.column, None] - torch.tensor(self.values)).abs().argmin(1)

    def completions(self, x: Tensor) -> Tensor:
        """(n, values, d): every record with every value in the column's place."""
        many = x[:, None].repeat(1, len(self.values), 1)
        many[:, :, self.column] = torch.tensor(self.values, dtype=x.dtype)
        return many


@runtime_checkable
class Sensitive(Protocol):
    """A workload of rows and columns with an attribute that is sensitive: attacks may try to infer it."""

    @property
    def sensitive(self) -> Attribute:
        """The attribute."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A workload whose records are made at first use, in minutes: who only looks asks before."""

    def unprepared(self) -> str | None:
        """Why the records are not at hand at once; None where they are."""
        ...
