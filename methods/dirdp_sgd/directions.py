"""Exact and vectorised sampling of the von Mises-Fisher distribution around given directions."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

NARROW = 32
"""Below this dimension a normal vector may be so close to the mean that single precision loses the rest."""
STRETCH = 2**12
"""Coordinates whose squares are summed in single precision; the sums of longer rows add up in doubles."""


@dataclass(frozen=True)
class Redrawn:
    """N new directions, and the lengths of the vectors they are drawn around."""

    directions: Tensor
    """(N, K): unit rows, of the vectors' type."""
    lengths: Tensor
    """(N,): doubles; zero or not finite for a vector without a direction."""


def redraw(vectors: Tensor, kappa: float, generator: torch.Generator) -> Redrawn:
    """For every row of (N, K), K >= 2, a unit vector y ~ VMF(row / |row|, kappa), independent of the others.

    The density on the unit sphere is proportional to exp(kappa mu.y). A row that is zero or not finite has no
    direction, and its y is uniform; an infinite kappa gives y = mu.

    Tangent-normal form (Ulrich 1984): y = w mu + sqrt(1 - w^2) v, with v uniform among the unit vectors
    orthogonal to mu: a normal vector n minus its component along mu, normalised. With t = n.mu and
    s = sqrt(1 - w^2) / |n - t mu| this is (w - s t) mu + s n: n is read three times and never copied.
    """
    kind = torch.float64 if vectors.shape[1] < NARROW else vectors.dtype
    rows = vectors.to(kind)
    lengths = row_lengths(rows)
    directed = torch.isfinite(lengths) & (lengths > 0)
    # Off the CPU, checking for such a row would wait for the device.
    if rows.device.type != "cpu" or not bool(directed.all()):
        # A zero mean and a right angle leave y = n / |n|.
        rows = rows.where(directed[:, None], 0.0)
    norms = lengths.where(directed, 1.0)
    cosines, sines = draw_angles(len(rows), rows.shape[1], kappa, generator)
    cosines, sines = cosines.where(directed, 0.0), sines.where(directed, 1.0)
    normals = torch.randn(rows.shape, dtype=kind, device=rows.device, generator=generator)
    # The transposed view, not rows[:, :, None]: the product is six times faster.
    along = torch.bmm(normals[:, None], rows[:, None].mT).flatten().double() / norms
    stretch = sines / (row_lengths(normals).square() - along.square()).sqrt()
    turn = (cosines - stretch * along) / norms
    drawn = normals.mul_(stretch.to(kind)[:, None]).addcmul_(rows, turn.to(kind)[:, None])
    return Redrawn(drawn.to(vectors.dtype), lengths)


def draw_angles(
    count: int, dimension: int, kappa: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(count,) doubles each: cosine w and sine of the angle between a draw and its mean.

    Wood's rejection sampler (1994): z ~ Beta((K-1)/2, (K-1)/2), d = 1 - (1 - b) z, w = (1 - (1 + b) z) / d,
    accepted where kappa w + (K-1) log(1 - x0 w) - c >= log u. With b in its rationalised form,
    1 - w = 2 b z / d, 1 + w = 2 (1 - z) / d and the test as below nothing cancels, whatever kappa and K are.
    """
    if kappa == math.inf:
        ones = torch.ones(count, dtype=torch.float64, device=generator.device)
        return ones, torch.zeros_like(ones)
    rest = dimension - 1
    b = rest / (2 * kappa + math.hypot(2 * kappa, rest))
    cosines = torch.empty(count, dtype=torch.float64, device=generator.device)
    sines = torch.empty_like(cosines)
    pending = torch.arange(count, device=generator.device)
    while len(pending):
        shape = torch.full((2, len(pending)), rest / 2, dtype=torch.float64, device=generator.device)
        one, other = torch._standard_gamma(shape, generator=generator)
        z = one / (one + other)
        d = 1 - (1 - b) * z
        score = 2 * b * kappa * (1 / (1 + b) - z / d) + rest * torch.log((1 + b) / (2 * d))
        chance = torch.rand(len(pending), dtype=torch.float64, device=generator.device, generator=generator)
        taken = score >= chance.log()
        cosines[pending] = torch.where(taken, 1 - 2 * b * z / d, cosines[pending])
        sines[pending] = torch.where(taken, 2 * (b * z * (1 - z)).sqrt() / d, sines[pending])
        # The only synchronisation of a round: the loop depends on how many are left.
        pending = pending[(~taken).nonzero().flatten()]
    return cosines, sines


def row_lengths(rows: Tensor) -> Tensor:
    """(N,): the norms of the rows of (N, K) in doubles, exact to single precision for millions of columns."""
    parts = [torch.linalg.vector_norm(part, dim=1) for part in torch.split(rows, STRETCH, dim=1)]
    lengths: Tensor = torch.linalg.vector_norm(torch.stack(parts).double(), dim=0)
    return lengths
