"""Who is in a batch. A sampler that a guarantee rests on also writes the ledger of what it drew."""

from typing import Any, Protocol

import torch
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from torch import Tensor

from workloads.base import sent
from workloads.errors import SpecError

HOST = torch.device("cpu")
"""Where batches are drawn: the same on every device, and their sizes are known without waiting for one."""


class Sampler(Protocol):
    """Draws one batch after another; its state and its generator's resume it exactly."""

    device: torch.device
    """Where row numbers go: the generator's, unless another is given."""

    def draw(self) -> Tensor:
        """The row numbers of the next batch, on the device."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What the next draw depends on, besides the generator."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        ...


class PoissonSampler:
    """Every member enters every batch independently with probability batch_size / members.

    The batch size is random, its mean is `batch_size`, and a batch may be empty. The ledger comes from
    the same object that drew the batches, so the two cannot disagree.
    """

    def __init__(
        self,
        members: int,
        batch_size: int,
        generator: torch.Generator,
        device: torch.device | None = None,
    ) -> None:
        self.members, self.generator, self.device = members, generator, device or generator.device
        self.rate = poisson_rate(members, batch_size)
        self.draws = 0

    def draw(self) -> Tensor:
        """The row numbers of the next batch, ascending."""
        self.draws += 1
        # Doubles, so that the probability is the rate to 2^-53, not to 2^-24.
        chance = torch.rand(
            self.members,
            generator=self.generator,
            device=self.generator.device,
            dtype=torch.float64,
        )
        return sent((chance < self.rate).nonzero().flatten(), self.device)

    def event(self, noise_multiplier: float) -> DpEvent:
        """What the draws so far cost when each released one Gaussian sum with this noise."""
        return poisson_event(self.rate, noise_multiplier, self.draws)

    def state_dict(self) -> dict[str, Any]:
        """The count of draws."""
        return {"draws": self.draws}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved count."""
        self.draws = int(state["draws"])


class FixedSizeSampler:
    """Every batch is a fresh uniform sample of exactly `batch_size` members without replacement.

    What is public is then the size of a batch: neighbours replace a member. As for PoissonSampler, the ledger
    comes from the object that drew.
    """

    def __init__(
        self,
        members: int,
        batch_size: int,
        generator: torch.Generator,
        device: torch.device | None = None,
    ) -> None:
        refuse_larger_than(members, batch_size)
        self.members, self.batch_size, self.generator = members, batch_size, generator
        self.device = device or generator.device
        self.draws = 0

    def draw(self) -> Tensor:
        """The row numbers of the next batch, in random order."""
        self.draws += 1
        order = torch.randperm(self.members, generator=self.generator, device=self.generator.device)
        return sent(order[: self.batch_size], self.device)

    def event(self, release: DpEvent) -> DpEvent:
        """What the draws so far cost when each was released through this event."""
        return fixed_size_event(self.members, self.batch_size, release, self.draws)

    def state_dict(self) -> dict[str, Any]:
        """The count of draws."""
        return {"draws": self.draws}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved count."""
        self.draws = int(state["draws"])


class ShuffleSampler:
    """Epochs: a fresh random order of all members, cut into batches; the last may be smaller.

    The batches of an epoch depend on each other, so no Poisson ledger may be written for them.
    """

    def __init__(
        self,
        members: int,
        batch_size: int,
        generator: torch.Generator,
        device: torch.device | None = None,
    ) -> None:
        refuse_larger_than(members, batch_size)
        self.members, self.batch_size, self.generator = members, batch_size, generator
        self.device = device or generator.device
        self.order = torch.empty(0, dtype=torch.int64)
        self.taken = 0

    def draw(self) -> Tensor:
        """The row numbers of the next batch."""
        if self.taken >= len(self.order):
            order = torch.randperm(self.members, generator=self.generator, device=self.generator.device)
            self.order = sent(order, self.device)
            self.taken = 0
        batch = self.order[self.taken : self.taken + self.batch_size]
        self.taken += len(batch)
        return batch

    def state_dict(self) -> dict[str, Any]:
        """The order of the epoch and how much of it is used."""
        return {"order": self.order, "taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on within a saved epoch."""
        self.order = state["order"].to(self.device)
        self.taken = int(state["taken"])


def poisson_rate(members: int, batch_size: int) -> float:
    """The probability with which a member enters a batch: batch_size / members exactly."""
    refuse_larger_than(members, batch_size)
    return batch_size / members


def poisson_event(rate: float, noise_multiplier: float, draws: int) -> DpEvent:
    """`draws` Gaussian sums, each over a Poisson sample; no noise is no privacy."""
    if draws == 0:
        return NoOpDpEvent()
    if noise_multiplier == 0:
        return NonPrivateDpEvent()
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise_multiplier)), draws)


def fixed_size_event(members: int, batch_size: int, release: DpEvent, draws: int) -> DpEvent:
    """`draws` releases, each over a sample of fixed size; one without noise is no privacy."""
    refuse_larger_than(members, batch_size)
    if draws == 0:
        return NoOpDpEvent()
    if isinstance(release, NonPrivateDpEvent):
        return NonPrivateDpEvent()
    return SelfComposedDpEvent(SampledWithoutReplacementDpEvent(members, batch_size, release), draws)


def refuse_larger_than(members: int, batch_size: int) -> None:
    """A batch larger than the members is a mistake of the sweep, not a full batch."""
    if batch_size > members:
        raise SpecError(
            f"batch_size {batch_size} is larger than the {members} members of a model; "
            f"allowed: 1 to {members}"
        )
