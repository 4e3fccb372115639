"""Shared parts of gradient inversion: records reconstructed from their gradients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

import methods.base
from harness.attacks.base import Attacker, When
from methods.base import Count
from workloads.base import Records

READ_AT_ONCE = 2048
HELD_AT_ONCE = 2**22
"""Elements of per-record gradients in one graph, which keeps about ten such tensors: some 160 MB."""

Gradients = Sequence[Tensor]
"""(k, *shape) for each trainable weight: the gradients of k records."""


class InversionParams(methods.base.Params):
    """The parameters of every inversion."""

    images: Count = Field(
        default=32, description="Members to reconstruct, evenly over the cell's models; one gradient each."
    )
    when: When = Field(
        default="start",
        description="The model whose gradients are shared: untrained (start) or released (end).",
    )
    label: str = Field(default="known", description="Whether labels are `known`, or how they are recovered.")
    seed: int = Field(default=0, description="Of the choice of members and of the attack's own randomness.")


@dataclass(frozen=True)
class Pixels:
    """The range, mean and deviation of a pool's pixels, (planes, 1, 1) each. Public for picture data sets."""

    low: Tensor
    high: Tensor
    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, pool: Records) -> "Pixels":
        """Those of a pool; a constant plane has a deviation of 1."""
        lows, highs, sums, squares, count = [], [], [], [], 0
        for part in pool.batches(READ_AT_ONCE):
            planes = part.double().transpose(0, 1).flatten(1)
            lows.append(planes.amin(1))
            highs.append(planes.amax(1))
            sums.append(planes.sum(1))
            squares.append(planes.square().sum(1))
            count += planes.shape[1]
        mean = torch.stack(sums).sum(0) / count
        variance = torch.stack(squares).sum(0) / count - mean.square()
        deviation = torch.where(variance > 0, variance, torch.ones_like(variance)).sqrt()
        found = (torch.stack(lows).amin(0), torch.stack(highs).amax(0), mean, deviation)
        return cls(*(each.float().view(-1, 1, 1) for each in found))

    def standardised(self, x: Tensor) -> Tensor:
        """With mean 0 and deviation 1 in each plane: the values that the papers' attacks optimise."""
        return (x - self.mean) / self.deviation

    def original(self, z: Tensor) -> Tensor:
        """From standardised values back to the workload's."""
        return z * self.deviation + self.mean

    def unit(self, x: Tensor) -> Tensor:
        """From the workload's values to [0, 1], clipped."""
        return ((x - self.low) / (self.high - self.low)).clamp(0, 1)


@dataclass(frozen=True)
class Intercepted:
    """What an observer of one model's training sees of k single records, without the records."""

    model: nn.Module
    gradients: Gradients
    labels: Tensor | None
    """(k,); None if the attack must recover them."""
    shape: torch.Size
    """Of one record."""
    pixels: Pixels

    def __len__(self) -> int:
        return len(self.gradients[0])

    def take(self, rows: Tensor) -> "Intercepted":
        """The records at these row numbers."""
        labels = None if self.labels is None else self.labels[rows]
        return Intercepted(
            self.model, [each[rows] for each in self.gradients], labels, self.shape, self.pixels
        )


@dataclass(frozen=True)
class Reconstructions:
    """The output of an inversion for k gradients."""

    x: Tensor
    """(k, *shape): pictures in the workload's values."""
    labels: Tensor
    """(k,)"""


def explain_no_images(shape: Sequence[int]) -> str | None:
    """Why records of this shape cannot be reconstructed; None if they are images."""
    if len(shape) == 3:
        return None
    return (
        f"records of shape {tuple(shape)} are not images (channels, height, width), which gradient inversion "
        "needs: attack an image workload, such as cifar10-lenet"
    )


@runtime_checkable
class Inversion(Attacker, Protocol):
    """Reconstructs pictures from gradients; its Params are InversionParams. The harness evaluates them."""

    def rebuild(self, seen: Intercepted, params: Any, stream: torch.Generator) -> Reconstructions:
        """One picture and one label for each gradient."""
        ...


def read_labels(gradients: Gradients) -> Tensor:
    """(k,): the class whose output bias alone has a negative gradient (iDLG, Zhao et al. 2020).

    Exact for cross-entropy on a single record without noise. Without an output bias, by the sums of the rows
    of the output weights, which works if the last features are positive.
    """
    last = gradients[-1]
    return last.flatten(2).sum(2).argmin(1) if last.dim() > 2 else last.argmin(1)


def together(gradients: Gradients) -> int:
    """The number of records to reconstruct in one graph."""
    return max(1, HELD_AT_ONCE // sum(each[0].numel() for each in gradients))


def record_gradients(model: nn.Module) -> Callable[[Tensor, Tensor], list[Tensor]]:
    """A function from k examples and labels (or probabilities) to Gradients, differentiable once more.

    All records are in one graph: many of them cost little more than one.
    """
    fixed = {name: each.detach() for name, each in model.named_parameters() if not each.requires_grad}
    weights = {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, {**fixed, **weights}, (x[None],)), y[None])

    each = vmap(grad(loss), (None, 0, 0))
    return lambda x, y: list(each(weights, x, y).values())


def cosine_distance(found: Gradients, wanted: Gradients) -> Tensor:
    """(k,): 1 - cosine over all weights together; 1 if one side is zero."""
    products = inner(found, wanted)
    lengths = (inner(found, found) * inner(wanted, wanted)).sqrt()
    return 1 - products / lengths.clamp_min(torch.finfo(lengths.dtype).tiny)


def squared_distance(found: Gradients, wanted: Gradients) -> Tensor:
    """(k,): the squared Euclidean distance over all weights together."""
    differences = [one - other for one, other in zip(found, wanted, strict=True)]
    return inner(differences, differences)


def inner(one: Gradients, other: Gradients) -> Tensor:
    """(k,): inner products over all weights together."""
    pairs = zip(one, other, strict=True)
    return torch.stack([(a * b).flatten(1).sum(1) for a, b in pairs]).sum(0)


def total_variation(x: Tensor) -> Tensor:
    """(k,): mean |difference| of vertical neighbours plus that of horizontal ones (anisotropic)."""
    down, right = x[..., 1:, :] - x[..., :-1, :], x[..., 1:] - x[..., :-1]
    return down.abs().flatten(1).mean(1) + right.abs().flatten(1).mean(1)
