"""Samplers of batches, and the DP event of a release on such a batch. Methods use `run.sampler`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
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

from methods.base import SamplerKind
from workloads.base import Records, sent
from workloads.errors import SpecError, UnknownName

HOST = torch.device("cpu")
"""Batches are drawn on the CPU: the same for every device, with sizes known without waiting for one."""
BATCHES_AHEAD, NUMBERS_AHEAD = 64, 2**17
"""How far a Poisson sampler reads ahead at most: a draw of few members is mostly the cost of calls."""


class Sampler(Protocol):
    """Draws batches; its state and its generator's are enough to resume it."""

    device: torch.device
    """The device of row numbers; default: the generator's."""

    def draw(self) -> Tensor:
        """The row numbers of the next batch, on the device."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The state besides the generator."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        ...


class PoissonSampler:
    """Every member enters every batch independently with probability batch_size / members.

    The batch size is random with mean `batch_size`, and a batch may be empty. The ledger comes from the same
    object that drew the batches, so the two cannot disagree.

    `ahead` allows to draw several batches at once, the same ones as one by one. The caller must then
    `settle` the sampler before it uses or saves the generator.
    """

    def __init__(
        self,
        members: int,
        batch_size: int,
        generator: torch.Generator,
        device: torch.device | None = None,
        rate: float | None = None,
        ahead: bool = False,
    ) -> None:
        self.members, self.device = members, device or generator.device
        self.rate = poisson_rate(members, batch_size) if rate is None else rate
        self.draws = 0
        self._generator = generator
        # Only a CPU's generator gives the same numbers in one call as in several.
        ahead = ahead and generator.device.type == "cpu"
        self._at_once = max(1, min(BATCHES_AHEAD, NUMBERS_AHEAD // max(1, members))) if ahead else 1
        # Doubles, so that the probability equals the rate to 2^-53, not 2^-24; the same memory in every draw.
        self._chances = torch.empty(self._at_once, members, device=generator.device, dtype=torch.float64)
        self._chance = self._chances[0]
        self._unused: list[Tensor] = []
        """Batches that were read ahead, the next one last."""
        self._before = torch.empty(0)
        """The generator's state before these and those used since."""

    @property
    def generator(self) -> torch.Generator:
        """The stream. Whoever gets it may draw from it, so no batch is read ahead from now on."""
        self.read_no_further()
        return self._generator

    def draw(self, rate: float | None = None) -> Tensor:
        """The row numbers of the next batch, ascending; `rate` may lower the ledger's."""
        if rate is None:
            rate = self.rate
        elif not rate <= self.rate:
            raise ValueError(f"a sampling rate of {rate} is not covered by the ledger's {self.rate}")
        else:
            self.read_no_further()  # the rates of the next batches are not known
        self.draws += 1
        if self._at_once > 1:
            if not self._unused:
                self._read_ahead()
            return self._unused.pop()
        chance = self._chance.uniform_(generator=self._generator)
        return sent((chance < rate).nonzero().squeeze(1), self.device)

    def settle(self) -> None:
        """Put the generator where it is after the last batch used; drop the batches read ahead."""
        if self._unused:
            used = self._at_once - len(self._unused)
            self._generator.set_state(self._before)
            self._chances[:used].uniform_(generator=self._generator)
            self._unused.clear()

    def read_no_further(self) -> None:
        """Settle, and draw one batch at a time from now on."""
        self.settle()
        self._at_once = 1

    def _read_ahead(self) -> None:
        self._before = self._generator.get_state()
        batches, rows = (self._chances.uniform_(generator=self._generator) < self.rate).nonzero().unbind(1)
        sizes = torch.bincount(batches, minlength=self._at_once).tolist()
        self._unused = list(torch.split(sent(rows.contiguous(), self.device), sizes))[::-1]

    def sampled(self, release: DpEvent) -> DpEvent:
        """The DP event of one release on one batch; without noise there is no privacy."""
        return release if is_open(release) else PoissonSampledDpEvent(self.rate, release)

    def event(self, noise_multiplier: float) -> DpEvent:
        """The DP event of the draws so far, each with one Gaussian sum of this noise."""
        return poisson_event(self.rate, noise_multiplier, self.draws)

    def state_dict(self) -> dict[str, Any]:
        """The number of draws."""
        return {"draws": self.draws}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved count."""
        self.settle()
        self.draws = int(state["draws"])


class FixedSizeSampler:
    """Every batch is a uniform sample of exactly `batch_size` members without replacement.

    The batch size is public: neighbouring data sets replace a member. As for PoissonSampler, the ledger comes
    from the same object.
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

    def sampled(self, release: DpEvent) -> DpEvent:
        """The DP event of one release on one batch; without noise there is no privacy."""
        if is_open(release):
            return release
        return SampledWithoutReplacementDpEvent(self.members, self.batch_size, release)

    def event(self, release: DpEvent) -> DpEvent:
        """The DP event of the draws so far, each released through this event."""
        return fixed_size_event(self.members, self.batch_size, release, self.draws)

    def state_dict(self) -> dict[str, Any]:
        """The number of draws."""
        return {"draws": self.draws}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved count."""
        self.draws = int(state["draws"])


class ShuffleSampler:
    """Epochs: a random order of all members, cut into batches; the last may be smaller.

    The batches of an epoch are dependent, so they have no Poisson ledger.
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
        if self.taken >= self.order.shape[0]:
            order = torch.randperm(self.members, generator=self.generator, device=self.generator.device)
            self.order = sent(order, self.device)
            self.taken = 0
        size = min(self.batch_size, self.order.shape[0] - self.taken)
        self.taken += size
        return self.order.narrow(0, self.taken - size, size)

    def state_dict(self) -> dict[str, Any]:
        """The order of the epoch and the position in it."""
        return {"order": self.order, "taken": self.taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved epoch."""
        self.order = state["order"].to(self.device)
        self.taken = int(state["taken"])


class Batches:
    """Batches of records from a sampler; implements methods.base.Batches.

    Args:
        sampler: Draws row numbers.
        records: The records.
        drawing: Times a block as drawing.
        rows: Rows of the records that the sampler's numbers refer to; None for all.
    """

    def __init__(
        self,
        sampler: "PoissonSampler | FixedSizeSampler | ShuffleSampler",
        records: Records,
        drawing: Callable[[], AbstractContextManager[None]],
        rows: Tensor | None = None,
    ) -> None:
        self.sampler, self.records = sampler, records
        self.rows = torch.empty(0, dtype=torch.int64)
        self._drawing, self._own = drawing, rows

    def draw(self, rate: float | None = None) -> Records:
        """The next batch."""
        with self._drawing():
            return self.records.take(self._next(rate))

    def draw_rows(self) -> Tensor:
        """Draw the next batch and return only its row numbers."""
        with self._drawing():
            return self._next(None)

    def thin(self, chances: Tensor) -> Records:
        """Subsample the last batch: each record stays independently with its own probability."""
        with self._drawing():
            stream = self.sampler.generator
            drawn = torch.rand(len(chances), generator=stream, device=stream.device, dtype=torch.float64)
            # Decided on the stream's device, usually the CPU, which must know how many are kept.
            kept = (drawn < chances.to(stream.device)).nonzero().flatten()
            self.rows = self.rows[sent(kept, self.rows.device)]
            return self.records.take(self.rows)

    def event(self, release: DpEvent) -> DpEvent:
        """The DP event of one release on one batch; SpecError for epochs, whose batches are dependent."""
        if isinstance(self.sampler, ShuffleSampler):
            raise SpecError(
                "batches of shuffled epochs depend on each other and have no DP event: "
                "use a 'poisson' or 'fixed_size' sampler for a guarantee",
                field="sampler",
                value="shuffle",
                allowed=("poisson", "fixed_size"),
            )
        return self.sampler.sampled(release)

    def state_dict(self) -> dict[str, Any]:
        """The sampler's state."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.sampler.load_state_dict(state)

    def _next(self, rate: float | None) -> Tensor:
        sampler = self.sampler
        drawn = sampler.draw() if rate is None else _as_poisson(sampler).draw(rate)
        self.rows = drawn if self._own is None else self._own[drawn]
        return self.rows


def make_sampler(
    kind: SamplerKind,
    members: int,
    batch_size: int,
    generator: torch.Generator,
    device: torch.device,
    rate: float | None = None,
    ahead: bool = False,
) -> "PoissonSampler | FixedSizeSampler | ShuffleSampler":
    """Create a sampler; SpecError for an unknown kind. `ahead`: see PoissonSampler."""
    if kind == "poisson":
        return PoissonSampler(members, batch_size, generator, device, rate, ahead)
    if rate is not None:
        raise SpecError(
            f"rate = {rate} applies to a 'poisson' sampler; leave it out for '{kind}'",
            field="rate",
            value=rate,
        )
    if kind not in KINDS:
        raise UnknownName("sampler", kind, ("poisson", *KINDS))
    return KINDS[kind](members, batch_size, generator, device)


KINDS: dict[str, type[FixedSizeSampler | ShuffleSampler]] = {
    "fixed_size": FixedSizeSampler,
    "shuffle": ShuffleSampler,
}


def _as_poisson(sampler: Sampler) -> PoissonSampler:
    if not isinstance(sampler, PoissonSampler):
        raise TypeError(f"only a Poisson sampler has a rate, not a {type(sampler).__name__}")
    return sampler


def is_open(release: DpEvent) -> bool:
    """Whether a release has no noise: then sampling does not help."""
    return isinstance(release, NonPrivateDpEvent)


def poisson_rate(members: int, batch_size: int) -> float:
    """The sampling rate, batch_size / members."""
    refuse_larger_than(members, batch_size)
    return batch_size / members


def poisson_event(rate: float, noise_multiplier: float, draws: int) -> DpEvent:
    """`draws` Gaussian sums, each over a Poisson sample; without noise there is no privacy."""
    if draws == 0:
        return NoOpDpEvent()
    if noise_multiplier == 0:
        return NonPrivateDpEvent()
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise_multiplier)), draws)


def fixed_size_event(members: int, batch_size: int, release: DpEvent, draws: int) -> DpEvent:
    """`draws` releases, each over a sample of fixed size; without noise there is no privacy."""
    refuse_larger_than(members, batch_size)
    if draws == 0:
        return NoOpDpEvent()
    if isinstance(release, NonPrivateDpEvent):
        return NonPrivateDpEvent()
    return SelfComposedDpEvent(SampledWithoutReplacementDpEvent(members, batch_size, release), draws)


def refuse_larger_than(members: int, batch_size: int) -> None:
    """SpecError for a batch larger than the members: it is not taken as a full batch."""
    if batch_size > members:
        raise SpecError(
            f"batch_size = {batch_size} is larger than the {members} members of a model; "
            f"allowed: 1 to {members}",
            field="batch_size",
            value=batch_size,
            allowed=(1, members),
        )
