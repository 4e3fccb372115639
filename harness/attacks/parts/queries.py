"""Queries of a released model: in batches, and with logits that are numbers."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from workloads.base import Records
from workloads.errors import BenchError

ROWS = 2048
"""Rows in one pass of a model."""


def predict(model: nn.Module, x: Tensor) -> Tensor:
    """(rows, C): the model's logits, computed in batches."""
    with torch.no_grad():
        logits = torch.cat([model(part) for part in torch.split(x, ROWS)])
    unknown = int(torch.isnan(logits).any(1).sum())
    if unknown:
        raise BenchError(
            f"the model's logits are NaN for {unknown} of {len(x)} queries; attacks need numbers: "
            "look for a diverged training or a broken predictor",
            field="logits",
            value=unknown,
            allowed=0,
        )
    return logits


def blocks(records: Records, queries: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Examples and labels, as many at a time as `queries` of each fit into one pass."""
    size = max(1, ROWS // queries)
    yield from zip(records.batches(size), torch.split(records.y, size), strict=True)


def share_right(
    model: nn.Module, records: Records, copies: Callable[[Tensor], Tensor], queries: int
) -> Tensor:
    """(n,) in float64: the share of a record's copies that the model predicts as the record's label.

    Args:
        model: as released.
        records: with their labels.
        copies: from (b, ...) examples to (b, queries, ...).
        queries: copies of each record.
    """
    shares = []
    for x, y in blocks(records, queries):
        given = predict(model, copies(x).flatten(0, 1)).argmax(1).view(len(x), queries)
        shares.append((given == y[:, None]).double().mean(1))
    return torch.cat(shares)
