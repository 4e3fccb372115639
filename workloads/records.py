"""Records read on demand, for data larger than memory; and subsets of records."""

import hashlib
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from workloads.base import Records, channels_last, sent

CPU = torch.device("cpu")


class LazyRecords(Records):
    """The items of a map-style Dataset, pairs of an example and its label, as Records.

    Labels are in memory. `x` reads all examples of these records on every access; `take` and `to` read
    nothing, so only the examples of a batch are read for it. A Dataset with torch's `__getitems__` is read
    many items at a time.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        y: Tensor,
        rows: Tensor | None = None,
        device: torch.device = CPU,
        last: bool = False,
    ) -> None:
        """Args: the items; labels of these records; their rows in the Dataset, default all; the device of x;
        whether images are read channels last."""
        rows = torch.arange(len(y)) if rows is None else rows
        if len(rows) != len(y):
            raise ValueError(f"{len(rows)} rows of the Dataset but {len(y)} labels")
        # Records are frozen, with an x in memory.
        fields = {"dataset": dataset, "y": y, "rows": rows, "device": device, "last": last}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    dataset: Dataset[Any]
    rows: Tensor
    device: torch.device
    last: bool

    @property
    def x(self) -> Tensor:
        """The examples of these records, read now."""
        return self._read(self.rows)

    def take(self, rows: Tensor) -> "LazyRecords":
        """The records at these row numbers, in this order."""
        return LazyRecords(self.dataset, self.y[rows], self.rows[rows.to(CPU)], self.device, self.last)

    def to(self, device: torch.device) -> "LazyRecords":
        """The same records, read to the device."""
        return LazyRecords(self.dataset, self.y.to(device), self.rows, device, self.last)

    def channels_last(self) -> "LazyRecords":
        """The same records; images are read channels last."""
        return LazyRecords(self.dataset, self.y, self.rows, self.device, last=True)

    def batches(self, size: int) -> Iterator[Tensor]:
        """All examples in order, never more than `size` in memory."""
        yield from map(self._read, torch.split(self.rows, size))

    def __repr__(self) -> str:
        return f"LazyRecords({self.dataset!r}, {len(self)} rows)"

    def _read(self, rows: Tensor) -> Tensor:
        # No items cannot be stacked: the first one gives the shape.
        wanted = rows.tolist() or [0]
        many = getattr(self.dataset, "__getitems__", None)
        items = many(wanted) if many else [self.dataset[row] for row in wanted]
        x = sent(torch.stack([x for x, _ in items])[: len(rows)], self.device)
        return channels_last(x) if self.last else x


READ_AT_ONCE = 2048
LAZY_SAMPLE = 1024
"""Examples of lazy records that their fingerprint covers: reading all of them may take hours."""


def every_other(records: Records) -> Records:
    """The first record, the third and so on: a half that is distributed like the other.

    The first half is not: that of MNIST's test images is easier than the second.
    """
    return records.take(torch.arange(0, len(records), 2))


def without(records: Records, others: Records) -> Records:
    """The records whose example is not among the others' examples, bit for bit."""
    left_out = set(fingerprints(others))
    kept = [row for row, each in enumerate(fingerprints(records)) if each not in left_out]
    return records.take(torch.tensor(kept, dtype=torch.int64))


def fingerprints(records: Records) -> Iterator[bytes]:
    """A hash of every example, bit for bit, in order; reads some records at a time."""
    for part in records.batches(READ_AT_ONCE):
        for example in part.cpu().contiguous().numpy():
            yield hashlib.blake2b(example.tobytes(), digest_size=16).digest()


_hashed: dict[int, tuple[Any, int, str]] = {}
"""The digests of examples that are alive: the id of their holder, a reference to it, its version."""


def describe(records: Records) -> dict[str, dict[str, Any]]:
    """Shape, dtype and digest of examples and labels; of lazy ones, a digest of evenly spaced examples.

    The digest is a plain hash: it confirms a guess of all records at once, so publish it keyed only
    (harness/store/fingerprints.py).
    """
    lazy = isinstance(records, LazyRecords) and len(records) > LAZY_SAMPLE
    rows = torch.linspace(0, len(records) - 1, LAZY_SAMPLE).long() if lazy else None
    sampled = records if rows is None else records.take(rows)
    first = next(records.take(torch.arange(min(1, len(records)))).batches(1))
    shape = [len(records), *first.shape[1:]]
    x = {"shape": shape, "dtype": _dtype(first), "digest": _digest_of(sampled)}
    y = {"shape": list(records.y.shape), "dtype": _dtype(records.y), "digest": _digest([records.y])}
    return {"x": x | ({"sampled": LAZY_SAMPLE} if lazy else {}), "y": y}


def _digest_of(records: Records) -> str:
    """The digest of examples, computed once for those in memory."""
    if isinstance(records, LazyRecords):
        return _digest(records.batches(READ_AT_ONCE))
    x = records.x
    known = _hashed.get(id(x))
    if known is None or known[0]() is not x or known[1] != x._version:
        known = weakref.ref(x), x._version, _digest(records.batches(READ_AT_ONCE))
        _hashed[id(x)] = known
    return known[2]


def _digest(parts: Iterable[Tensor]) -> str:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        values = part.detach().to(CPU).contiguous().flatten().view(torch.uint8)
        found.update(values.numpy().data)
    return found.hexdigest()


def _dtype(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")
