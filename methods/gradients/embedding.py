"""Per-example gradients of an embedding: a few rows of a large table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from methods.gradients.contributions import masked, row_norms


@dataclass(frozen=True)
class Lookup:
    """Gradients that are zero except for the rows an example looked up."""

    ids: Tensor
    """(B, T)"""
    b: Tensor
    """(B, T, width): zero at the padding index."""
    rows: int

    @classmethod
    def of(cls, layer: nn.Embedding, ids: Tensor, b: Tensor) -> "Lookup":
        """From the layer's indices and the gradient of its output."""
        ids, b = ids.reshape(len(ids), -1), b.reshape(len(b), -1, b.shape[-1])
        if layer.padding_idx is not None:
            b = b.masked_fill((ids == layer.padding_idx)[:, :, None], 0.0)
        return cls(ids, b, layer.num_embeddings)

    def norms(self) -> Tensor:
        """(B,): places that looked up the same row are added first."""
        ordered, order = self.ids.sort(dim=1)
        starts = torch.ones_like(ordered)
        starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        # The k-th distinct row of an example gets the number k - 1, so the sums need no table.
        numbers = starts.cumsum(dim=1) - 1
        places = order[:, :, None].expand_as(self.b)
        sums = torch.zeros_like(self.b)
        sums.scatter_add_(1, numbers[:, :, None].expand_as(self.b), self.b.gather(1, places))
        return row_norms(sums.flatten(1))

    def add_to(self, onto: Sequence[Tensor], factors: Tensor) -> None:
        """See Contribution."""
        scaled = self.b * factors[:, None, None]
        onto[0].index_add_(0, self.ids.flatten(), scaled.flatten(0, 1))

    def examples(self) -> list[Tensor]:
        """See Contribution."""
        tables = self.b.new_zeros(len(self.b), self.rows, self.b.shape[2])
        return [tables.scatter_add_(1, self.ids[:, :, None].expand_as(self.b), self.b)]

    def mask(self, good: Tensor) -> "Lookup":
        """See Contribution."""
        return replace(self, b=masked(self.b, good))

    def take(self, rows: Tensor) -> "Lookup":
        """See Contribution."""
        return replace(self, ids=self.ids[rows], b=self.b[rows])
