"""Contributions of a layer: enough for every example's gradient norm and for any weighted sum."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from methods.gradients.layers import Layer

# A squared norm from terms that cancel carries an error of about 1e-7 of their scale; below this share of the
# scale the gradient itself is formed.
TRUSTED = 1e-3
ONE = torch.ones(())
"""On the CPU, where tensors of any device can read it."""


class Contribution(Protocol):
    """The gradients of B examples with respect to the trainable weights of one layer."""

    def norms(self) -> Tensor:
        """(B,)"""
        ...

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """Add the sum over examples of factor times gradient, for each weight."""
        ...

    def examples(self) -> list[Tensor]:
        """The gradients, (B, *shape) for each weight."""
        ...

    def take(self, rows: Tensor) -> "Contribution":
        """The contribution of these examples only."""
        ...

    def mask(self, good: Tensor) -> "Contribution":
        """The contribution with the examples that are not `good` (B,) set to zero, even if they were NaN."""
        ...


class Arena:
    """Memory for stored gradients that is reused in the next batch.

    Fresh memory costs a page fault per 4 kB, a large part of the time of writing gradients into it.
    """

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []
        self._used = 0

    def reset(self) -> None:
        """Allow reuse of all tensors returned so far."""
        self._used = 0

    def empty(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """An uninitialised tensor, until the next reset."""
        size, index = math.prod(shape), self._used
        self._used += 1
        if index == len(self._blocks):
            self._blocks.append(like.new_empty(size))
        elif self._blocks[index].numel() < size or self._blocks[index].dtype != like.dtype:
            self._blocks[index] = like.new_empty(size)
        return self._blocks[index][:size].view(*shape)


@dataclass
class Call:
    """One call of a layer, with its input and the gradient of its output."""

    layer: Layer
    a: Tensor
    """(B, ...): its input."""
    y: Tensor | None
    """(B, ...): its output, if the rule needs it and it was not changed in place."""
    b: Tensor
    """(B, ...): the gradient of its output."""
    arena: Arena
    used: Any = None
    """What its module computed from the weights in the call, if it keeps that."""


@dataclass(frozen=True)
class Stored:
    """The gradients themselves."""

    gradients: list[Tensor]

    def norms(self) -> Tensor:
        """See Contribution."""
        return joined([row_norms(g.flatten(1)) for g in self.gradients])

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """See Contribution."""
        for each, g in zip(onto, self.gradients, strict=True):
            each.view(-1).addmv_(g.flatten(1).t(), factors)

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        return self.gradients

    def take(self, rows: Tensor) -> "Stored":
        """See Contribution."""
        return Stored([g[rows] for g in self.gradients])

    def mask(self, good: Tensor) -> "Stored":
        """See Contribution."""
        return Stored([masked(g, good) for g in self.gradients])


@dataclass(frozen=True)
class Absent:
    """No gradient: the loss does not depend on the layer."""

    count: int
    weights: Sequence[nn.Parameter]

    def norms(self) -> Tensor:
        """See Contribution."""
        return self.weights[0].detach().new_zeros(self.count)

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """See Contribution."""

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        return [w.detach().new_zeros(self.count, *w.shape) for w in self.weights]

    def take(self, rows: Tensor) -> "Absent":
        """See Contribution."""
        return Absent(len(rows), self.weights)

    def mask(self, good: Tensor) -> "Absent":
        """See Contribution."""
        return self


@dataclass(slots=True)
class Outer:
    """Rank-one gradients b_i a_i' of a matrix (Goodfellow 2015), and b_i of its bias."""

    a: Tensor
    """(B, inputs)"""
    b: Tensor
    """(B, outputs)"""
    weight: bool
    bias: bool
    of_a: Tensor | None = None
    """(B,): the norms of a, if known."""
    spare: bool = False
    """Whether `add_to`, which must then be the last call, may overwrite b."""

    def norms(self) -> Tensor:
        """See Contribution."""
        of_b = row_norms(self.b)
        if not self.weight:
            return of_b
        of_a = row_norms(self.a) if self.of_a is None else self.of_a
        # The bias acts like an input that is always 1.
        return of_b.mul_(of_a.hypot(ONE) if self.bias else of_a)

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """See Contribution."""
        columns = self.b.t()
        if self.bias:
            onto[-1].addmv_(columns, factors)
        if self.weight:
            scaled = columns.mul_(factors) if self.spare else columns * factors
            # The result is laid out by rows of b: this way round the product is quicker than transposed.
            onto[0].addmm_(scaled, self.a)

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        gradients = [self.b[:, :, None] * self.a[:, None, :]] if self.weight else []
        return [*gradients, self.b] if self.bias else gradients

    def take(self, rows: Tensor) -> "Outer":
        """See Contribution."""
        of_a = None if self.of_a is None else self.of_a[rows]
        return replace(self, a=self.a[rows], b=self.b[rows], of_a=of_a)

    def mask(self, good: Tensor) -> "Outer":
        """See Contribution."""
        return replace(self, a=masked(self.a, good), b=masked(self.b, good), of_a=None)


@dataclass(frozen=True)
class Sequences:
    """Gradients sum_t b_it a_it' of a matrix used at T places, never formed (Li et al. 2022, ghost norms)."""

    a: Tensor
    """(B, T, inputs)"""
    b: Tensor
    """(B, T, outputs)"""
    bias: bool

    def norms(self) -> Tensor:
        """See Contribution."""
        norms = gram_norms(self.a, self.b)
        return joined([norms, row_norms(self.b.sum(dim=1))]) if self.bias else norms

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """See Contribution."""
        scaled = self.b * factors[:, None, None]
        onto[0].addmm_(scaled.flatten(0, 1).t(), self.a.flatten(0, 1))
        if self.bias:
            onto[1].add_(scaled.sum(dim=(0, 1)))

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        gradients = [torch.bmm(self.b.transpose(1, 2), self.a)]
        return [*gradients, self.b.sum(dim=1)] if self.bias else gradients

    def take(self, rows: Tensor) -> "Sequences":
        """See Contribution."""
        return Sequences(self.a[rows], self.b[rows], self.bias)

    def mask(self, good: Tensor) -> "Sequences":
        """See Contribution."""
        return Sequences(masked(self.a, good), masked(self.b, good), self.bias)


def masked(values: Tensor, good: Tensor) -> Tensor:
    """(B, ...): the values, zero for the examples that are not good."""
    return torch.where(good.view(-1, *[1] * (values.dim() - 1)), values, 0.0)


def row_norms(rows: Tensor) -> Tensor:
    """(B,): the norm of every row of a matrix."""
    if rows.stride(0) == 1 and rows.shape[1] > 1:  # laid out by columns, where vector_norm is slow (measured)
        return torch.mul(rows, rows).sum(dim=1).sqrt_()
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return norms


def joined(norms: Sequence[Tensor]) -> Tensor:
    """The norms of gradients from the norms of their parts."""
    # Quicker than the norm over a stack of them (measured), and nothing overflows.
    return reduce(torch.hypot, norms)


def gram_norms(a: Tensor, b: Tensor) -> Tensor:
    """(B,): the norm of sum_t b_it a_it', squared sum_st (a_is . a_it)(b_is . b_it)."""
    if a.device.type != "cpu":
        # Checking which rows cancel would wait: in doubles their remainder is accurate.
        squares, _ = gram_squares(products(a.double()), products(b.double()))
        return squares.clamp_(min=0).sqrt_().to(a.dtype)
    return trusted_roots(*gram_squares(products(a), products(b)), lambda row: b[row].t() @ a[row])


def products(rows: Tensor) -> Tensor:
    """(B, T, T): the inner products of T rows."""
    return torch.bmm(rows, rows.transpose(1, 2))


def gram_squares(of_a: Tensor, of_b: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) each: the squares of `gram_norms`, and (sum_t |a_it| |b_it|)^2, to which rounding is relative.

    Of inner products, of which the first are overwritten.
    """
    diagonals = of_a.diagonal(dim1=1, dim2=2) * of_b.diagonal(dim1=1, dim2=2)
    scale = diagonals.sqrt().sum(dim=1).square_()
    return of_a.mul_(of_b).sum(dim=(1, 2)), scale


def trusted_roots(squares: Tensor, scale: Tensor, form: Callable[[int], Tensor]) -> Tensor:
    """(B,): norms from squares that are sums of terms as large as `scale`, which may cancel.

    If a square is small relative to its terms it is dominated by rounding, and too small a norm would clip
    too little: for such a row `form` computes the gradient itself.
    """
    norms = squares.sqrt()
    for row in (squares < TRUSTED * scale).nonzero().flatten().tolist():
        norms[row] = torch.linalg.vector_norm(form(row))
    return norms


def gram_is_cheaper(places: int, inputs: int, outputs: int) -> bool:
    """Whether Gram matrices cost less than storing the gradient and reading it twice."""
    # The passes over a stored gradient take as long as about twenty multiplications per entry (measured).
    return places * places * (inputs + outputs) < 20 * inputs * outputs
