"""Canaries: records made to be memorised, each a member by a fair coin, that show worst-case leakage.

The average record says little about what a method may leak (Aerni, Zhang and Tramèr 2024), and a lower bound
on epsilon needs records with independent random membership (Steinke, Nasr and Jagielski 2023). Canaries are
added to a model's `n_train` members, so that these are the same records as without canaries, and the sampling
rate is at most the planned one: epsilon never exceeds its target.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from harness.plan.inspection.inspection import load, load_checked
from harness.spec import FIRST_VERSION, Cell
from methods.base import Detached, Method, Params
from workloads.base import Records, Workload
from workloads.errors import SpecError
from workloads.records import READ_AT_ONCE

MARK = 2**20
"""The first feature of a gradient canary is this plus its number, far above that of any record."""
SCALE = 10.0
"""The approximate gradient norm of a gradient canary; a larger clip would leave it unclipped."""
MOST = 1_000_000
"""Maximum number of canaries of a cell: gradient canaries take a column of the model each, and floats count
this far."""
NEARNESS = 0.01
"""Noise between a near-duplicate and its counterpart, relative to the standard deviation of each feature."""
FLOAT_BITS = 20
"""Minimum entropy of a random float, in bits."""
ROOM_BITS = 40
"""Entropy that random records need, so that no two are equal."""


@dataclass(frozen=True)
class CellRecords:
    """The records of a cell, with its canaries, and its model."""

    pool: Records
    """The workload's pool, without canaries."""
    test: Records
    """Test records, without those that canaries were made from."""
    model: Callable[[int], nn.Module]
    canaries: Records
    """`copies` consecutive rows per canary; empty if the cell has none."""
    copies: int
    """Rows per canary: the group size that a bound is for."""

    @property
    def count(self) -> int:
        """The number of canaries."""
        return len(self.canaries) // self.copies

    @property
    def candidates(self) -> Records:
        """The pool followed by one row per canary: the records that attacks score."""
        return join(self.pool, self.canaries.take(torch.arange(0, len(self.canaries), self.copies)))

    def members(self, mask: Tensor) -> Records:
        """The members of one model, by a mask over `candidates`."""
        own, coins = mask[: len(self.pool)], mask[len(self.pool) :]
        rows = coins.repeat_interleave(self.copies).nonzero().squeeze(1)
        return join(self.pool.take(own.nonzero().squeeze(1)), self.canaries.take(rows))

    def set_aside(self, mask: Tensor, rows: Tensor) -> Tensor:
        """The mask over `candidates` of these rows of `members(mask)`.

        A canary counts as set aside if any of its copies is.
        """
        copies = torch.ones_like(mask, dtype=torch.int64)
        copies[len(self.pool) :] = self.copies
        owners = mask.nonzero().squeeze(1).repeat_interleave(copies[mask])
        refuse_other_rows(rows, len(owners))
        aside = torch.zeros_like(mask)
        aside[owners[rows]] = True
        return aside


def refuse_other_rows(rows: Tensor, members: int) -> None:
    """ValueError unless these are row numbers of that many members."""
    if rows.dim() != 1 or rows.dtype != torch.int64:
        raise ValueError(
            f"set_aside has dtype {rows.dtype} and shape {tuple(rows.shape)}: give a vector of int64 rows"
        )
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < members:
        raise ValueError(
            f"set_aside contains rows {int(rows.min())} to {int(rows.max())}; the members are rows 0 to "
            f"{members - 1}"
        )


def join(records: Records, more: Records) -> Records:
    """Concatenate records; if `more` is empty, return `records` itself, which may be lazy."""
    if len(more) == 0:
        return records
    return Records(torch.cat([records.x, more.x.to(records.x.dtype)]), torch.cat([records.y, more.y]))


def cell_records(workload: Workload, cell: Cell) -> CellRecords:
    """The records of a cell.

    Raises:
        SpecError: Another version of its canaries is installed.
        DataError: The records or the model cannot be used.
    """
    pool, test = load_checked(workload)
    if cell.canary is None:
        return CellRecords(pool, test, workload.model, pool.take(torch.arange(0)), copies=1)
    kind = KINDS[cell.canary]
    if kind.version != cell.canary_version:
        raise SpecError(
            f"the task was planned for {cell.canary} canaries version {cell.canary_version}, but version "
            f"{kind.version} is installed: enqueue the sweep again",
            field="canary",
            value=cell.canary_version,
            allowed=kind.version,
        )
    stream = generator(cell, "canaries")
    order = torch.randperm(len(test), generator=stream)
    request = Request(test, order[: cell.canaries], cell.canaries, workload.classes, stream)
    made, copies = kind.make(request)
    if kind.reads_test:
        test = test.take(order[cell.canaries :].sort().values)
    return CellRecords(pool, test, canary_model(workload, cell.canary, cell.canaries), made, copies)


def canary_model(workload: Workload, kind: str | None, count: int) -> Callable[[int], nn.Module]:
    """The model function of a cell; with a column per canary for gradient canaries."""
    if kind != GRADIENT:
        return workload.model
    return lambda seed: Marked(workload.model(seed), count, workload.classes)


def refusals(
    workload: Workload, method: Method, params: Params | None, kind: object, count: object
) -> list[str]:
    """Problems with the canaries of a grid; `params` is None if the parameters are invalid."""
    if kind is None and count is None:
        return []
    problems = []
    if not isinstance(kind, str) or kind not in KINDS:
        problems.append(f"canary = {kind!r}: give one of {', '.join(KINDS)}")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        problems.append(f"canaries = {count!r}: give their number, 1 to {MOST:,}, together with canary")
    if problems or not isinstance(kind, str) or not isinstance(count, int):
        return problems
    test = load(workload, "test")
    if KINDS[kind].reads_test and count > len(test) // 2:
        problems.append(
            f"canaries = {count}: {kind} canaries are made from test records, of which {workload.name} has "
            f"{len(test)}; give at most {len(test) // 2}"
        )
    if unfit := KINDS[kind].unfit(test):
        problems.append(f"canary = {kind!r}: {unfit}")
    if kind == GRADIENT and isinstance(method, Detached) and params is not None:
        reason = method.detached(params)
        if reason:
            problems.append(
                f"canary = {kind!r} would test nothing: {reason}; give one of {', '.join(OTHERS)}"
            )
    return problems


def generator(cell: Cell, purpose: str) -> torch.Generator:
    """A random stream shared by all methods on the workload, which get the same canaries."""
    parts = (purpose, cell.workload.name, cell.workload.version, cell.canary, cell.canaries, cell.seed)
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def coins(cell: Cell, index: int) -> Tensor:
    """Membership of canaries in model `index`: an independent fair coin each."""
    return torch.rand(cell.canaries, generator=generator(cell, f"coins/{index}"), dtype=torch.float64) < 0.5


@dataclass(frozen=True)
class Request:
    """The inputs of making canaries."""

    test: Records
    """All test records."""
    rows: Tensor
    """Test records to use, one per canary, for a kind that is made from them."""
    count: int
    """Number of canaries; may exceed the test records for a kind that is not made from them."""
    classes: int
    stream: torch.Generator


Made = tuple[Records, int]
"""Canaries, and the number of rows per canary."""


def _fits(test: Records) -> None:
    """Accept any records."""


@dataclass(frozen=True)
class Kind:
    """A kind of canaries."""

    make: Callable[[Request], Made]
    reads_test: bool
    threat: str
    """The capabilities of an adversary who uses them."""
    version: str = FIRST_VERSION
    """Raised when the same request would give other records; part of the cell's key."""
    unfit: Callable[[Records], str | None] = _fits
    """Why this kind does not work for such records; None if it does."""


def mislabelled(given: Request) -> Made:
    """Test records with a uniformly random wrong label."""
    picked = given.test.take(given.rows)
    shift = torch.randint(1, given.classes, picked.y.shape, generator=given.stream)
    return Records(picked.x, (picked.y + shift) % given.classes), 1


def near_duplicate(given: Request) -> Made:
    """Pairs of a mislabelled record and a near-duplicate, in or out together.

    Against defences that query models not trained on a record: some of them saw its counterpart (Tang et al.
    2022).
    """
    picked, _ = mislabelled(given)
    x, stream = picked.x, given.stream
    if x.is_floating_point():
        noise = NEARNESS * spread(given.test) * torch.randn(x.shape, generator=stream)
        counterpart = x + noise.to(x.dtype)
    else:  # tokens: replace one
        low, high = (int(end) for end in bounds(given.test))
        flat = x.flatten(1)
        place = torch.randint(flat.shape[1], (len(flat), 1), generator=stream)
        further = torch.randint(1, high - low + 1, place.shape, generator=stream)
        other = low + (flat.gather(1, place) - low + further) % (high - low + 1)
        counterpart = flat.scatter(1, place, other.to(x.dtype)).view_as(x)
    pairs = torch.stack([x, counterpart], dim=1).flatten(0, 1)
    return Records(pairs, picked.y.repeat_interleave(2)), 2


def out_of_distribution(given: Request) -> Made:
    """Random features, each within its range in the data, with a random label."""
    low, high = ranges(given.test)
    shape, stream = (given.count, *low.shape), given.stream
    if low.is_floating_point():
        noise = torch.rand(shape, generator=stream).to(low.dtype) * (high - low) + low
    else:
        noise = torch.randint(int(low.min()), int(high.max()) + 1, shape, generator=stream).to(low.dtype)
    return Records(noise, torch.randint(given.classes, (given.count,), generator=stream)), 1


def gradient(given: Request) -> Made:
    """Records that encode which column of a `Marked` model they move."""
    like = given.test.take(torch.arange(1)).x
    x = torch.zeros((given.count, *like.shape[1:]), dtype=like.dtype)
    x.view(given.count, -1)[:, 0] = MARK + torch.arange(given.count)
    return Records(x, torch.randint(given.classes, (given.count,), generator=given.stream)), 1


def ranges(records: Records) -> tuple[Tensor, Tensor]:
    """Minimum and maximum of every feature."""
    lows, highs = zip(*((x.amin(0), x.amax(0)) for x in records.batches(READ_AT_ONCE)), strict=True)
    return torch.stack(lows).amin(0), torch.stack(highs).amax(0)


def bounds(records: Records) -> tuple[float, float]:
    """Minimum and maximum over all features."""
    low, high = ranges(records)
    return float(low.min()), float(high.max())


def spread(records: Records) -> Tensor:
    """Standard deviation of every feature."""
    total, squares = torch.zeros(()), torch.zeros(())
    for x in records.batches(READ_AT_ONCE):
        total, squares = total + x.double().sum(dim=0), squares + x.double().square().sum(dim=0)
    mean = total / len(records)
    return (squares / len(records) - mean.square()).clamp(min=0).sqrt().float()


def _too_narrow(test: Records) -> str | None:
    """Why random values could coincide with a record."""
    x = test.take(torch.arange(1)).x
    low, high = ranges(test)
    if x.is_floating_point():
        room = float((high > low).sum()) * FLOAT_BITS
    else:
        room = x[0].numel() * math.log2(int(high.max()) - int(low.min()) + 1)
    if room >= ROOM_BITS:
        return None
    return f"the records have too little entropy ({room:.0f} bits): a random one could be one of them"


def _too_coarse(test: Records) -> str | None:
    """Why records cannot encode the number of a canary."""
    found = test.take(torch.arange(1)).x.dtype
    if found in (torch.float32, torch.float64, torch.int64, torch.int32):
        return None
    return f"it needs records of 32 bits or more, but the workload has {found}"


GRADIENT = "gradient"
BLACK_BOX = "black-box, adds records"
KINDS: Mapping[str, Kind] = {
    "mislabelled": Kind(mislabelled, True, BLACK_BOX),
    "near-duplicate": Kind(near_duplicate, True, "black-box, adds pairs of records", "2", _too_narrow),
    "out-of-distribution": Kind(out_of_distribution, False, BLACK_BOX, "2", _too_narrow),
    GRADIENT: Kind(gradient, False, "white-box, adds gradients", unfit=_too_coarse),
}
"""See docs/audit.md."""
OTHERS = [kind for kind in KINDS if kind != GRADIENT]


class Marked(nn.Module):
    """A model with a column of weights per gradient canary (the Dirac canary of Nasr et al. 2021).

    The gradient of canary i is nonzero only in column i, with norm SCALE |p - y|, and that of every other
    record is zero there. Under plain gradient steps a column ends as the sum of all its noisy updates, so the
    released weights reveal as much about the canary as the single steps.
    """

    def __init__(self, base: nn.Module, count: int, classes: int) -> None:
        super().__init__()
        self.base = base
        self.marks = nn.Linear(count, classes, bias=False)
        nn.init.zeros_(self.marks.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Logits: of the base model for a record, of its column for a canary."""
        first = x.flatten(1)[:, 0]
        marked = first >= MARK
        number = torch.where(marked, first - MARK, torch.zeros_like(first)).long()
        plain = x.masked_fill(marked.view(-1, *[1] * (x.dim() - 1)), 0)
        logits = self.base(plain) * ~marked[:, None]
        code = one_hot(number, self.marks.in_features) * marked[:, None]
        combined: Tensor = logits + self.marks(SCALE * code.to(logits.dtype))
        return combined
