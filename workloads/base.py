"""The workload protocol: records, a fresh model, and the number of members per model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from workloads.errors import DataError


@dataclass(frozen=True)
class Records:
    """Examples and their labels; row i is one record. `workloads/records.py` reads them from a Dataset."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if not (isinstance(self.x, Tensor) and isinstance(self.y, Tensor)):
            raise no_tensor("x", self.x) if not isinstance(self.x, Tensor) else no_tensor("y", self.y)
        # In every step: len() of a tensor takes longer than its shape.
        if self.x.shape[0] != self.y.shape[0]:
            raise ValueError(f"{len(self.x)} examples but {len(self.y)} labels")

    def __len__(self) -> int:
        return self.y.shape[0]

    def take(self, rows: Tensor) -> "Records":
        """The records at these row numbers, in this order."""
        # Half the time of x[rows], which alone keeps the channels of images last.
        x = self.x[rows] if self.x.dim() == 4 else self.x.index_select(0, rows)
        return Records(x, self.y.index_select(0, rows))

    def to(self, device: torch.device) -> "Records":
        """The same records on a device."""
        return Records(self.x.to(device), self.y.to(device))

    def channels_last(self) -> "Records":
        """The same records, images with their channels last in memory."""
        return Records(channels_last(self.x), self.y)

    def batches(self, size: int) -> Iterator[Tensor]:
        """All examples in order, at most `size` at a time; one empty batch if there are none."""
        yield from torch.split(self.x, size)


def no_tensor(field: str, given: object) -> DataError:
    """The error for features or labels that are no tensor: what they are, and how to make one of them."""
    kind = type(given)
    found = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    first = next(iter(getattr(given, "flat", given if isinstance(given, list | tuple) else ())), None)
    advice = f"torch.from_numpy({field})" if kind.__module__ == "numpy" else f"torch.tensor({field})"
    if isinstance(first, str):
        advice = f"torch.from_numpy(numpy.unique({field}, return_inverse=True)[1]), since they are strings"
    name = "features" if field == "x" else "labels"
    message = f"the {name} ({field}) of Records are {found}, not a tensor: give {advice}"
    return DataError(message, field=field, value=found, allowed="torch.Tensor")


def channels_last(x: Tensor) -> Tensor:
    """The same values; images, (n, channels, height, width), with the channels last in memory."""
    # A single channel is first and last at once: only a copy fixes the format.
    return x.clone(memory_format=torch.channels_last) if x.dim() == 4 else x


def sent(values: Tensor, device: torch.device) -> Tensor:
    """The same values on a device; from the CPU through pinned memory, without blocking."""
    if values.device == device:
        return values
    if values.device.type != "cpu" or device.type == "cpu":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


class Workload(Protocol):
    """Data and a fresh model to train. Independent of methods and epsilon.

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
        """The origin of the data, with citation and licence."""
        ...

    @property
    def classes(self) -> int:
        """The number of classes."""
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
    """A workload with public records: never members, and free to use without privacy cost.

    They may be some of the test records. A method that uses them is evaluated on the others.
    """

    def public(self) -> Records:
        """The public records, of the same kind as the pool's. Methods get the examples without the labels."""
        ...


@dataclass(frozen=True)
class Attribute:
    """A sensitive column of the records."""

    name: str
    column: int
    values: tuple[float, ...]
    """The possible values. A record has the nearest of them, so that a measurement can be low or high."""

    def of(self, x: Tensor) -> Tensor:
        """(n,): the index of each record's value."""
        return (x[:, self.column, None] - torch.tensor(self.values)).abs().argmin(1)

    def completions(self, x: Tensor) -> Tensor:
        """(n, values, d): every record with every value in that column."""
        many = x[:, None].repeat(1, len(self.values), 1)
        many[:, :, self.column] = torch.tensor(self.values, dtype=x.dtype)
        return many


@runtime_checkable
class Sensitive(Protocol):
    """A tabular workload with a sensitive attribute that attacks may try to infer."""

    @property
    def sensitive(self) -> Attribute:
        """The attribute."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A workload whose records take minutes to compute at first use; callers can check beforehand."""

    def unprepared(self) -> str | None:
        """Why the records are not available at once; None if they are."""
        ...


@runtime_checkable
class Fetched(Protocol):
    """A workload on data that may be absent from a machine; callers can check without loading them."""

    def missing(self) -> str | None:
        """What is missing and which command or file provides it; None if nothing is."""
        ...


@runtime_checkable
class Grouped(Protocol):
    """A workload with several records of one person: declares which records belong together.

    A plan then warns about what guarantees and leakage of such records mean.
    """

    def groups(self) -> Tensor:
        """(n,) int64: a number of the person of each pool record."""
        ...
