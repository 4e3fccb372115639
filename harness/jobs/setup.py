"""The inputs of a method, built in one place for trainings, benches, estimates and attacks."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

import methods
import workloads
from harness.jobs.memory_layout import apply_layout
from harness.plan.canaries import CellRecords, cell_records, coins
from harness.plan.public_records import public_records
from harness.spec import Cell, Plugin
from methods.base import Answering, Method, Params, Problem
from methods.training.cross_entropy import CrossEntropy
from workloads.base import Records, Workload
from workloads.errors import SpecError
from workloads.records import without

per_example_loss = CrossEntropy()
"""The loss of every problem: cross-entropy of every example, shape (B,)."""


@dataclass(frozen=True)
class Setup:
    """Model `index` of a cell on a device, before training; every part is built on first use."""

    cell: Cell
    index: int
    device: torch.device
    like: "Setup | None" = None
    """A setup of the same workload, members and canaries whose records are shared, as in a bench."""

    @cached_property
    def workload(self) -> Workload:
        """The cell's workload; SpecError if another version is installed."""
        workload = workloads.family.load(self.cell.workload.name)
        same_version("workload", self.cell.workload, workload.version)
        return workload

    @cached_property
    def method(self) -> Method:
        """The cell's method; SpecError if another version is installed."""
        method = methods.family.load(self.cell.method.name)
        same_version("method", self.cell.method, method.version)
        return method

    @cached_property
    def params(self) -> Params:
        """The method's parameters."""
        return self.method.Params(**self.cell.params)

    @cached_property
    def public(self) -> Records | None:
        """The public records given to the method, if any."""
        return public_records(self.workload, self.method)

    @cached_property
    def records(self) -> CellRecords:
        """The pool, canaries and test records, without test records that the method is given as public."""
        if self.like is not None:
            return self.like.records
        records = cell_records(self.workload, self.cell)
        if self.public is None:
            return records
        return replace(records, test=without(records.test, self.public))

    @cached_property
    def mask(self) -> Tensor:
        """Membership mask over the pool and the canaries."""
        own = membership(self.cell, self.index, len(self.records.pool))
        return torch.cat([own, coins(self.cell, self.index)])

    @property
    def members(self) -> Records:
        """The members on the device, in the memory layout of trainings."""
        return self.like.members if self.like is not None else self._given[0]

    @property
    def problem(self) -> Problem:
        """Model, loss and public records, in the memory layout of trainings."""
        return self._given[1]

    @cached_property
    def plain_problem(self) -> Problem:
        """The problem in torch's default layout, as in evaluation and attacks."""
        public = None if self.public is None else self.public.x.to(self.device)
        asked = None
        if isinstance(self.method, Answering):
            asked = torch.cat([self.records.candidates.x, self.records.test.x])
        return Problem(self.workload.classes, self.records.model, per_example_loss, public, asked)

    @cached_property
    def _given(self) -> tuple[Records, Problem]:
        if self.like is not None:
            return apply_layout(self.like.members, self.plain_problem)
        return apply_layout(self.records.members(self.mask).to(self.device), self.plain_problem)


def membership(cell: Cell, index: int, pool: int) -> Tensor:
    """Membership mask of model `index`: exactly `n_train` of the pool, redrawn for every index.

    The draw does not depend on the method: model i of every cell of a workload has the same members, so that
    methods are compared on the same records.
    """
    if cell.n_train > pool:
        raise SpecError(
            f"{cell.workload.name}: n_train = {cell.n_train} exceeds the pool of {pool}",
            field="n_train",
            value=cell.n_train,
            allowed=(1, pool),
        )
    text = f"members/{cell.workload.name}/{cell.workload.version}/{cell.n_train}/{cell.seed}/{index}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
    order = torch.randperm(pool, generator=torch.Generator().manual_seed(seed))
    mask = torch.zeros(pool, dtype=torch.bool)
    mask[order[: cell.n_train]] = True
    return mask


def same_version(kind: str, asked: Plugin, installed: str) -> None:
    """SpecError unless the planned version is installed: results of two versions are not comparable."""
    if asked.version != installed:
        raise SpecError(
            f"the task was planned for {kind} {asked.name} version {asked.version}, but version {installed} "
            "is installed: enqueue the sweep again",
            field=kind,
            value=asked.version,
            allowed=installed,
        )
