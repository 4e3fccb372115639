"""Random partitions of the members into batches, optionally with one fixed batch for an experiment."""

import torch
from torch import Tensor

from workloads.base import Records, sent
from workloads.errors import SpecError

TOGETHER = 0
"""The number of the fixed batch, if there is one."""


class Partition:
    """A random split of the members into batches whose sizes differ by at most one, redrawn by `draw`.

    The rows of `together`, if given, are batch TOGETHER of every draw; the others are split into the rest.
    Row numbers are on `device`; default: the generator's.
    """

    def __init__(
        self,
        members: int,
        batches: int,
        generator: torch.Generator,
        together: Tensor | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.batches, self.generator, self.together = batches, generator, together
        self._device = device or generator.device
        self._free: Tensor | None = None
        if together is not None:
            alone = torch.ones(members, dtype=torch.bool, device=together.device)
            alone[together] = False
            self._free = alone.nonzero().flatten()
            members, batches = len(self._free), batches - 1
        if not 1 <= batches <= members:
            raise SpecError(
                f"{members} members cannot be split into {batches} batches; allowed: 1 to {members}",
                field="batches",
                value=batches,
                allowed=(1, members),
            )
        self._members = members
        self._bounds = [place * members // batches for place in range(batches + 1)]
        self._order = torch.empty(0, dtype=torch.int64)

    def draw(self, first: int | None = None) -> list[int]:
        """Redraw the split; return the batch numbers in random order, starting with `first` if given."""
        order, device = self.generator, self.generator.device
        shuffled = sent(torch.randperm(self._members, generator=order, device=device), self._device)
        self._order = shuffled if self._free is None else self._free[shuffled]
        numbers: list[int] = torch.randperm(self.batches, generator=order, device=device).tolist()
        if first is not None:
            numbers.remove(first)
            numbers.insert(0, first)
        return numbers

    def rows(self, number: int) -> Tensor:
        """The row numbers of a batch of the last draw."""
        if self.together is not None:
            if number == TOGETHER:
                return self.together
            number -= 1
        return self._order[self._bounds[number] : self._bounds[number + 1]]


def flip_labels(
    members: Records, size: int, share: float, classes: int, generator: torch.Generator
) -> tuple[Records, Tensor]:
    """Flip labels in a batch of `size` random rows; return the members and the rows of that batch.

    A share of the batch, rounded to whole records, gets a uniformly random wrong class (PD-SGD, Section 6.2).
    """
    rows = torch.randperm(len(members), generator=generator, device=generator.device)[:size]
    flipped = rows[: round(share * size)]
    shift = torch.randint(1, classes, flipped.shape, generator=generator, device=generator.device)
    labels = members.y.clone()
    labels[flipped] = (labels[flipped] + shift) % classes
    return Records(members.x, labels), rows
