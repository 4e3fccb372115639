"""Normalisation of records in front of a model: by their own channels, or by private statistics."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from dp_accounting import DpEvent, GaussianDpEvent
from torch import Tensor, nn
from torch.nn.functional import group_norm

from methods.base import Run
from methods.mechanisms.draws import add_gaussian, choose
from methods.mechanisms.events import PureDpEvent
from workloads.base import Records, sent
from workloads.errors import SpecError

READ_AT_ONCE = 2048
BOUNDS = 2.0 ** (torch.arange(-40, 41, dtype=torch.float64) / 4)
"""Candidates of a clipping bound, independent of the data: 2^-10 to 2^10 in steps of a fifth."""
MARGIN = 30.0
"""With MARGIN / epsilon norms above a bound, one above all norms is drawn in fewer than 1 of 10,000 cases."""


class GroupNormalised(nn.Module):
    """Group normalisation of each record by its own channels: costs no privacy."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """Normalise records (B, channels, ...)."""
        return group_norm(x.to(torch.float32), self.groups)


class ChannelNormalised(nn.Module):
    """Normalisation of every channel by a fixed mean and deviation, which are saved with the model."""

    mean: Tensor
    factor: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(0))
        self.register_buffer("factor", torch.zeros(0))

    def fix(self, mean: Tensor, variance: Tensor) -> None:
        """Set the moments of every channel. A channel without variance becomes 0."""
        self.mean = mean.to(torch.float32)
        self.factor = torch.where(variance > 0, variance.rsqrt(), 0.0).to(torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise records (B, channels, ...)."""
        shape = (-1, *[1] * (x.dim() - 2))
        # In place on a copy: fresh memory for a batch takes longer than the arithmetic.
        return x.to(torch.float32, copy=True).sub_(self.mean.view(shape)).mul_(self.factor.view(shape))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # The number of channels is known only from the records or the saved state.
        for name in ("mean", "factor"):
            if (saved := state_dict.get(prefix + name)) is not None:
                setattr(self, name, torch.empty_like(saved, device=getattr(self, name).device))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def estimate_moments(members: Records, noise: float, bound_epsilon: float, run: Run) -> tuple[Tensor, Tensor]:
    """Private mean and variance of every channel, at the cost of `moments_event`.

    Tramer and Boneh 2021: the channels' means and mean squares of each record, clipped to a norm and averaged
    with Gaussian noise. They clip to the exact median of the norms, which is not accounted for and makes the
    variances of dissimilar records too small; here the bound is private, and as high as `high_share` allows.
    """
    per_record = [channel_moments(x) for x in members.batches(READ_AT_ONCE)]
    means, squares = (torch.cat(rows) for rows in zip(*per_record, strict=True))
    mean = noisy_mean("means", means, noise, bound_epsilon, run)
    square = noisy_mean("squares", squares, noise, bound_epsilon, run)
    return mean, (square - mean.square()).clamp(min=0)


def moments_event(noise: float, bound_epsilon: float) -> list[DpEvent]:
    """The DP events of `estimate_moments`."""
    return [PureDpEvent(bound_epsilon), GaussianDpEvent(noise)] * 2


def channel_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """(B, channels) twice: the mean of every channel over its places, and the mean of its square."""
    places = x.to(torch.float32).flatten(2) if x.dim() > 2 else x.to(torch.float32)[:, :, None]
    return places.mean(dim=2), places.square().mean(dim=2)


def noisy_mean(name: str, rows: Tensor, noise: float, bound_epsilon: float, run: Run) -> Tensor:
    """The mean of rows clipped to a private bound, with noise of `noise` times the bound on their sum.

    The number of rows is public, as it is in the rate of Poisson sampling.
    """
    rows = torch.where(torch.isfinite(rows).all(dim=1, keepdim=True), rows.double(), 0.0)
    norms = torch.linalg.vector_norm(rows, dim=1)
    share = high_share(len(rows), bound_epsilon)
    bound = private_quantile(f"bound of {name}", norms, share, bound_epsilon, run)
    noisy: Tensor = run.mechanism(
        name,
        (rows * (bound / norms.clamp(min=bound))[:, None]).sum(dim=0),
        partial(add_gaussian, scale=noise * bound),
        sensitivity=bound,
        scale=noise * bound,
        divisor=len(rows),
        event=GaussianDpEvent(noise),
        stream="normalisation",
        once=True,
    )
    return noisy / len(rows)


def high_share(count: int, epsilon: float) -> float:
    """The highest quantile, at least the median, that can be distinguished privately from the maximum."""
    return max(0.5, 1 - MARGIN / (epsilon * count))


def private_quantile(name: str, values: Tensor, share: float, epsilon: float, run: Run) -> float:
    """One of BOUNDS near a quantile: the exponential mechanism, (epsilon, 0)-DP (McSherry and Talwar 2007).

    The best bound is the first with at least that share of the values below it; the score of any other is
    minus the number of values by which it misses. Adding or removing a value changes it by at most the larger
    of `share` and 1 - `share`.
    """
    bounds = sent(BOUNDS, values.device)
    lacking = share * len(values) - (values[:, None] < bounds).sum(dim=0).double()
    # The excess of the previous bound: without it all bounds above all values would score the same.
    beyond = torch.cat([lacking.new_zeros(1), -lacking[:-1]])
    sensitivity = max(share, 1 - share)
    place = run.mechanism(
        name,
        -torch.maximum(lacking, beyond).clamp(min=0),
        partial(choose, factor=epsilon / (2 * sensitivity)),
        sensitivity=sensitivity,
        scale=2 * sensitivity / epsilon,
        norm="linf",
        event=PureDpEvent(epsilon),
        stream="normalisation",
        once=True,
    )
    return float(BOUNDS[place])


def refuse_unfit(example: Tensor, groups: int | None) -> None:
    """SpecError for records (1, ...) without numeric channels, or with channels not divisible by `groups`."""
    shape: Sequence[int] = example.shape[1:]
    if example.dim() < 2 or not example.is_floating_point():
        raise SpecError(
            f"normalisation needs records with numeric channels, got shape {tuple(shape)} and type "
            f"{example.dtype}: set normalisation = 'none'",
            field="normalisation",
            value=(tuple(shape), str(example.dtype)),
        )
    if groups is not None and (shape[0] % groups or example[0].numel() == groups):
        raise SpecError(
            f"groups = {groups} must divide the {shape[0]} channels of a record and leave more than one "
            "number in each group; give another number of groups",
            field="groups",
            value=groups,
            allowed=f"divisors of {shape[0]}",
        )
