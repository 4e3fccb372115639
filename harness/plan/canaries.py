"""Canaries: records made to be remembered, members by a fair coin each, that show the worst case.

The average record of a data set says little about what a method may leak (Aerni, Zhang and Tramèr 2024), and
a lower bound on epsilon needs records whose membership is independent coin tosses (Steinke, Nasr and
Jagielski 2023). Canaries come on top of a model's `n_train` members, so that those are the same people as
without canaries, and a sampling rate is at most the planned one: the price never rises above the target.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from harness.spec import FIRST_VERSION, Cell
from methods.base import Detached, Method, Params
from workloads.base import Records, Workload
from workloads.errors import SpecError
from workloads.records import READ_AT_ONCE

MARK = 2**20
"""A gradient canary's first feature is this plus its number: no record of a data set comes near."""
SCALE = 10.0
"""A gradient canary's gradient has about this norm; a clip above it would see it unclipped."""
MOST = 1_000_000
"""Canaries of a cell; gradient canaries each take a place in the model, and floats count this far."""
NEARNESS = 0.01
"""A near-duplicate differs from its twin by noise of this share of each feature's spread."""
FLOAT_BITS = 20
"""What a random float says at least."""
ROOM_BITS = 40
"""What a random record must say, so that no two are ever equal."""


@dataclass(frozen=True)
class CellRecords:
    """A workload with canaries: what a training of the cell reads instead of the workload's own."""

    pool: Records
    """The workload's own, without canaries."""
    test: Records
    """Without the records that canaries were made of."""
    model: Callable[[int], nn.Module]
    canaries: Records
    """`copies` rows for each canary, together; none where the cell has none."""
    copies: int
    """How many rows one coin decides on: the size of the group that a bound is about."""

    @property
    def count(self) -> int:
        """How many canaries there are."""
        return len(self.canaries) // self.copies

    @property
    def candidates(self) -> Records:
        """The pool, and one row of every canary after it: the records that attacks know of."""
        return join(self.pool, self.canaries.take(torch.arange(0, len(self.canaries), self.copies)))

    def members(self, mask: Tensor) -> Records:
        """The members of one model: `mask` over pool and canaries, as over `candidates`."""
        own, coins = mask[: len(self.pool)], mask[len(self.pool) :]
        rows = coins.repeat_interleave(self.copies).nonzero().squeeze(1)
        return join(self.pool.take(own.nonzero().squeeze(1)), self.canaries.take(rows))

    def set_aside(self, mask: Tensor, rows: Tensor) -> Tensor:
        """Whose records are at these rows of `members(mask)`, over pool and canaries as over `candidates`.

        A canary of which one copy is set aside and another trained the model is neither in nor out.
        """
        copies = torch.ones_like(mask, dtype=torch.int64)
        copies[len(self.pool) :] = self.copies
        owners = mask.nonzero().squeeze(1).repeat_interleave(copies[mask])
        refuse_other_rows(rows, len(owners))
        aside = torch.zeros_like(mask)
        aside[owners[rows]] = True
        return aside


def refuse_other_rows(rows: Tensor, members: int) -> None:
    """An error for what is not row numbers of so many members."""
    if rows.dim() != 1 or rows.dtype != torch.int64:
        raise ValueError(
            f"set_aside is {rows.dtype} of shape {tuple(rows.shape)}; give row numbers, one int64 each"
        )
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < members:
        raise ValueError(
            f"set_aside holds rows {int(rows.min())} to {int(rows.max())}; the members are rows 0 to "
            f"{members - 1}"
        )


def join(records: Records, more: Records) -> Records:
    """Both, one after the other; without more, the records themselves, which may be lazy."""
    if len(more) == 0:
        return records
    return Records(torch.cat([records.x, more.x.to(records.x.dtype)]), torch.cat([records.y, more.y]))


def cell_records(workload: Workload, cell: Cell) -> CellRecords:
    """The workload as the models of a cell see it."""
    pool, test = workload.pool(), workload.test()
    if cell.canary is None:
        return CellRecords(pool, test, workload.model, pool.take(torch.arange(0)), copies=1)
    kind = KINDS[cell.canary]
    if kind.version != cell.canary_version:
        raise SpecError(
            f"the task was planned for {cell.canary} canaries of version {cell.canary_version}; installed is "
            f"{kind.version}: enqueue the sweep again"
        )
    stream = generator(cell, "canaries")
    order = torch.randperm(len(test), generator=stream)
    request = Request(test, order[: cell.canaries], cell.canaries, workload.classes, stream)
    made, copies = kind.make(request)
    if kind.reads_test:
        test = test.take(order[cell.canaries :].sort().values)
    return CellRecords(pool, test, canary_model(workload, cell.canary, cell.canaries), made, copies)


def canary_model(workload: Workload, kind: str | None, count: int) -> Callable[[int], nn.Module]:
    """A fresh model from a seed; one with a place for every canary where they are gradient canaries."""
    if kind != GRADIENT:
        return workload.model
    return lambda seed: Marked(workload.model(seed), count, workload.classes)


def refusals(
    workload: Workload, method: Method, params: Params | None, kind: object, count: object
) -> list[str]:
    """What is wrong with the canaries a grid asks for; `params` are None where they are wrong themselves."""
    if kind is None and count is None:
        return []
    problems = []
    if not isinstance(kind, str) or kind not in KINDS:
        problems.append(f"canary = {kind!r}: give one of {', '.join(KINDS)}")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        problems.append(f"canaries = {count!r}: give their number, 1 to {MOST:,}, together with canary")
    if problems or not isinstance(kind, str) or not isinstance(count, int):
        return problems
    test = workload.test()
    if KINDS[kind].reads_test and count > len(test) // 2:
        problems.append(
            f"canaries = {count}: {kind} canaries are made of test records, and {workload.name} has "
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
    """A random stream that every method on the workload shares: all are tried with the same canaries."""
    words = (purpose, cell.workload.name, cell.workload.version, cell.canary, cell.canaries, cell.seed)
    digest = hashlib.sha256("/".join(map(str, words)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def coins(cell: Cell, index: int) -> Tensor:
    """Which canaries are members of model `index`: an independent fair coin each."""
    return torch.rand(cell.canaries, generator=generator(cell, f"coins/{index}"), dtype=torch.float64) < 0.5


@dataclass(frozen=True)
class Request:
    """What canaries are made from."""

    test: Records
    """All test records."""
    rows: Tensor
    """Those to use, for a kind that is made of test records: one for each canary."""
    count: int
    """How many canaries; a kind that is not made of test records may be asked for more than there are."""
    classes: int
    stream: torch.Generator


Made = tuple[Records, int]
"""Canaries, and how many rows of them are one canary."""


def _fits(test: Records) -> None:
    """No reason against any records."""


@dataclass(frozen=True)
class Kind:
    """How canaries of a kind are made."""

    make: Callable[[Request], Made]
    reads_test: bool
    threat: str
    """What an adversary must be able to do who uses them."""
    version: str = FIRST_VERSION
    """Raised when the same request would give other records; part of the key of a cell that has them."""
    unfit: Callable[[Records], str | None] = _fits
    """Why there can be none among such records; None where there can."""


def mislabelled(given: Request) -> Made:
    """Records of the workload's kind with a wrong label, each wrong one as likely."""
    picked = given.test.take(given.rows)
    shift = torch.randint(1, given.classes, picked.y.shape, generator=given.stream)
    return Records(picked.x, (picked.y + shift) % given.classes), 1


def near_duplicate(given: Request) -> Made:
    """Mislabelled pairs, a record and a nearly equal one, in or out together.

    They vouch for each other where a defence asks models that did not see a record (Tang et al. 2022).
    """
    picked, _ = mislabelled(given)
    x, stream = picked.x, given.stream
    if x.is_floating_point():
        noise = NEARNESS * spread(given.test) * torch.randn(x.shape, generator=stream)
        twin = x + noise.to(x.dtype)
    else:  # tokens: another one at one place
        low, high = (int(end) for end in bounds(given.test))
        flat = x.flatten(1)
        place = torch.randint(flat.shape[1], (len(flat), 1), generator=stream)
        further = torch.randint(1, high - low + 1, place.shape, generator=stream)
        other = low + (flat.gather(1, place) - low + further) % (high - low + 1)
        twin = flat.scatter(1, place, other.to(x.dtype)).view_as(x)
    pairs = torch.stack([x, twin], dim=1).flatten(0, 1)
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
    """Records that only say which place of a `Marked` model they move."""
    like = given.test.take(torch.arange(1)).x
    x = torch.zeros((given.count, *like.shape[1:]), dtype=like.dtype)
    x.view(given.count, -1)[:, 0] = MARK + torch.arange(given.count)
    return Records(x, torch.randint(given.classes, (given.count,), generator=given.stream)), 1


def ranges(records: Records) -> tuple[Tensor, Tensor]:
    """The lowest and the highest value of every feature, over all records."""
    lows, highs = zip(*((x.amin(0), x.amax(0)) for x in records.batches(READ_AT_ONCE)), strict=True)
    return torch.stack(lows).amin(0), torch.stack(highs).amax(0)


def bounds(records: Records) -> tuple[float, float]:
    """The lowest and the highest value of any feature."""
    low, high = ranges(records)
    return float(low.min()), float(high.max())


def spread(records: Records) -> Tensor:
    """The standard deviation of every feature, over all records."""
    total, squares = torch.zeros(()), torch.zeros(())
    for x in records.batches(READ_AT_ONCE):
        total, squares = total + x.double().sum(dim=0), squares + x.double().square().sum(dim=0)
    mean = total / len(records)
    return (squares / len(records) - mean.square()).clamp(min=0).sqrt().float()


def _too_narrow(test: Records) -> str | None:
    """Why values drawn at random could well be a record's own."""
    x = test.take(torch.arange(1)).x
    low, high = ranges(test)
    if x.is_floating_point():
        room = float((high > low).sum()) * FLOAT_BITS
    else:
        room = x[0].numel() * math.log2(int(high.max()) - int(low.min()) + 1)
    if room >= ROOM_BITS:
        return None
    return f"the records take too few values: one made at random could be one of them ({room:.0f} bits)"


def _too_coarse(test: Records) -> str | None:
    """Why records cannot hold the number of a canary."""
    found = test.take(torch.arange(1)).x.dtype
    if found in (torch.float32, torch.float64, torch.int64, torch.int32):
        return None
    return f"it needs records of 32 bits or more, the workload's are {found}"


GRADIENT = "gradient"
BLACK_BOX = "black-box, adds records"
KINDS: Mapping[str, Kind] = {
    "mislabelled": Kind(mislabelled, True, BLACK_BOX),
    "near-duplicate": Kind(near_duplicate, True, "black-box, adds pairs of records", "2", _too_narrow),
    "out-of-distribution": Kind(out_of_distribution, False, BLACK_BOX, "2", _too_narrow),
    GRADIENT: Kind(gradient, False, "white-box, adds gradients", unfit=_too_coarse),
}
"""docs/audit.md says what each is for."""
OTHERS = [kind for kind in KINDS if kind != GRADIENT]


class Marked(nn.Module):
    """A model with weights that only gradient canaries move, one column for each (Nasr et al. 2021's Dirac).

    The gradient of canary i lies in column i alone, with norm SCALE |p - y|, and every other record's is zero
    there. Under plain gradient steps a column ends as the sum of all noisy updates of it: nothing that an
    observer of the single steps could know about the canary is lost in the released weights.
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
        answer: Tensor = logits + self.marks(SCALE * code.to(logits.dtype))
        return answer
