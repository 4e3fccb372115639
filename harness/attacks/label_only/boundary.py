"""The distance of a record to the decision boundary: exact for a linear model, else from label queries."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from harness.attacks.parts.queries import predict

BISECTIONS = 10
"""Halvings of a segment across the boundary, which is then known to a thousandth."""
DIRECTIONS = 24
"""Label queries around a point of the boundary to estimate its normal."""
LEAPS = 4
"""Lengths tried for a step along the normal, each half of the previous one."""
ROUND = DIRECTIONS + LEAPS + BISECTIONS
"""Queries of one round."""

Kept = Callable[[Tensor], Tensor]
"""For (b, d) points, one per record: whether the prediction is still the record's label."""


def linear_layer(model: nn.Module, x: Tensor) -> nn.Linear | None:
    """The layer of a model that is a single linear layer, judged by its logits on `x`; else None."""
    layers = [each for each in model.modules() if next(each.parameters(recurse=False), None) is not None]
    if len(layers) != 1 or not isinstance(layers[0], nn.Linear):
        return None
    flat = x.flatten(1).to(layers[0].weight.dtype)
    if flat.shape[1] != layers[0].in_features:
        return None
    with torch.no_grad():
        alike = torch.allclose(layers[0](flat), model(x), rtol=1e-4, atol=1e-5)
    return layers[0] if alike else None


def linear_distance(layer: nn.Linear, x: Tensor, y: Tensor) -> Tensor:
    """(b,): the L2 distance min over j of (z_y - z_j) / |w_y - w_j|; 0 if the prediction is not y."""
    with torch.no_grad():
        logits = layer(x.flatten(1).to(layer.weight.dtype)).double()
    margins = logits.gather(1, y[:, None]) - logits
    slopes = torch.cdist(layer.weight.detach().double(), layer.weight.detach().double())[y]
    # A class of equal weights is never reached, and the record's own does not count.
    ways = torch.where(slopes > 0, margins / slopes, torch.where(margins < 0, 0.0, math.inf))
    ways.scatter_(1, y[:, None], math.inf)
    return ways.amin(1).clamp(min=0)


def hop_skip_jump(
    model: nn.Module, x: Tensor, y: Tensor, start: Tensor, queries: int, random: torch.Generator
) -> Tensor:
    """(b,): L2 distances to the nearest points found that are not predicted as y (Chen et al. 2020).

    All records are processed at once. From the boundary between a record and its start every round estimates
    the boundary's normal from labels around the point, steps along it, and returns to the boundary on the way
    to the record. Only labels are used.

    Args:
        model: as released.
        x: (b, ...) records that are predicted as y.
        y: (b,) labels.
        start: (b, ...) points that are predicted otherwise.
        queries: the query budget per record, at least BISECTIONS.
        random: for the directions.
    """
    here, shape = x.flatten(1).float(), x.shape[1:]

    def kept(points: Tensor) -> Tensor:
        labels = predict(model, points.reshape(-1, *shape)).argmax(1).view(points.shape[:-1])
        return labels == (y if points.dim() == 2 else y[:, None])

    edge = _bisect(kept, here, start.flatten(1).float())
    nearest: Tensor = torch.linalg.vector_norm(edge - here, dim=1)
    for number in range(1, 1 + (queries - BISECTIONS) // ROUND):
        span = torch.linalg.vector_norm(edge - here, dim=1, keepdim=True)
        normal = _normal(kept, edge, span, random)
        edge = _bisect(kept, here, _leap(kept, edge, normal, span / math.sqrt(number)))
        nearest = torch.minimum(nearest, torch.linalg.vector_norm(edge - here, dim=1))
    return nearest


def _bisect(kept: Kept, near: Tensor, far: Tensor) -> Tensor:
    """The boundary between points that are predicted as y and points that are not, on the latter's side."""
    low, high = torch.zeros(len(near), 1), torch.ones(len(near), 1)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        inside = kept(near + middle * (far - near))[:, None]
        low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
    return near + high * (far - near)


def _normal(kept: Kept, edge: Tensor, span: Tensor, random: torch.Generator) -> Tensor:
    """(b, d): unit vectors away from y, the mean of random directions weighted by the labels there.

    The directions have length span / sqrt d: their part along the normal then exceeds the bisection error.
    """
    draws = torch.randn(len(edge), DIRECTIONS, edge.shape[1], generator=random)
    units = draws / torch.linalg.vector_norm(draws, dim=2, keepdim=True)
    reach = span[:, None] / math.sqrt(edge.shape[1])
    outside = (~kept(edge[:, None] + reach * units)).to(edge.dtype)
    # As in the paper: without centring, a point just outside would weight all directions alike.
    weights = outside - outside.mean(1, keepdim=True)
    mean = torch.einsum("bk,bkd->bd", weights, units)
    length: Tensor = torch.linalg.vector_norm(mean, dim=1, keepdim=True)
    return mean / length.clamp(min=1e-12)


def _leap(kept: Kept, edge: Tensor, normal: Tensor, length: Tensor) -> Tensor:
    """Points beyond the edge along the normal, at the first length that stays outside; else the edge."""
    found, there = torch.zeros(len(edge), 1, dtype=torch.bool), edge
    for _ in range(LEAPS):
        tried = edge + length * normal
        outside = ~kept(tried)[:, None]
        there = torch.where(outside & ~found, tried, there)
        found, length = found | outside, length / 2
    return there
