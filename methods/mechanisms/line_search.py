"""Losses of a model at several steps along a direction, for a private comparison."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from workloads.base import Records

READ_AT_ONCE = 4096


class LineSearch:
    """Losses of a model at several points of a line through its weights.

    Args:
        model: Evaluated without dropout.
        loss: Logits and labels to one loss per example, none negative.
        weights: The weights to move; changed only by `move`.
        bound: The upper bound of one record's loss.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        weights: Sequence[nn.Parameter],
        bound: float,
    ) -> None:
        self.model, self.loss, self.weights, self.bound = model, loss, weights, bound

    @torch.no_grad()
    def losses(self, records: Records, direction: Sequence[Tensor], lengths: Tensor) -> Tensor:
        """(len(lengths),), double: the sums of bounded losses at weights - length * direction."""
        training = self.model.training
        start = [weight.clone() for weight in self.weights]
        sums = torch.zeros(len(lengths), dtype=torch.float64, device=records.y.device)
        self.model.eval()
        for part in pieces(records):
            for place, length in enumerate(lengths.tolist()):
                self._put(start, direction, length)
                losses = self.loss(self.model(part.x), part.y).double()
                # NaN counts as the largest loss.
                sums[place] += losses.nan_to_num(nan=self.bound).clamp(0, self.bound).sum()
        self._put(start, direction, 0.0)
        self.model.train(training)
        return sums

    @torch.no_grad()
    def move(self, direction: Sequence[Tensor], length: float) -> None:
        """Step against the direction."""
        self._put([weight.clone() for weight in self.weights], direction, length)

    def _put(self, start: Sequence[Tensor], direction: Sequence[Tensor], length: float) -> None:
        for weight, origin, part in zip(self.weights, start, direction, strict=True):
            torch.sub(origin, part, alpha=length, out=weight.data)


def pieces(records: Records) -> Iterator[Records]:
    """The records in order, a few thousand at a time."""
    rows = torch.arange(len(records), device=records.y.device)
    return (records.take(part) for part in torch.split(rows, READ_AT_ONCE) if len(part))
