"""inverting-gradients: a smooth picture whose gradient has the direction of the shared one."""

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

import methods.base
from harness.attacks.parts.inversion import (
    Intercepted,
    Inversion,
    InversionParams,
    Pixels,
    Reconstructions,
    cosine_distance,
    read_labels,
    record_gradients,
    together,
    total_variation,
)
from harness.attacks.parts.lbfgs import Evaluate, minimise
from methods.base import Amount, Count, Rate

Box = Callable[[Tensor], Tensor]

SCALE = 1e4
"""L-BFGS stops at slopes below 1e-7, and those of an angle by single pixels are that small."""


class InvertingGradientsParams(InversionParams):
    """The optimizer, its length, and the weight of smoothness."""

    label: Literal["known", "idlg"] = Field(
        default="known", description="Whether labels are known, or read off the gradient (Zhao et al. 2020)."
    )
    optimizer: Literal["lbfgs", "adam"] = Field(
        default="lbfgs", description="The optimizer; the paper's is Adam."
    )
    steps: Count = Field(default=300, description="Steps of a search (paper: 24,000 of Adam on CIFAR-10).")
    restarts: Count = Field(
        default=1, description="Independent searches; the best match of gradients is kept (paper: 8 to 32)."
    )
    tv: Amount = Field(
        default=0.001, description="Weight of the total variation (authors' code: 0.1, with Adam)."
    )
    learning_rate: Rate = Field(
        default=0.1, description="First step size of Adam, a tenth of it after 3/8, 5/8 and 7/8 of the steps."
    )
    signed: bool = Field(default=True, description="Whether Adam is given only the sign of the gradient.")


class InvertingGradients:
    """Geiping et al. 2020: min 1 - cos(gradient(x), shared) + tv TV(x) over pictures x in the box of pixels.

    Pictures, and all their restarts, are optimised in one graph. Pixels are standardised as in the
    paper's experiments, so that step size and smoothness mean the same on every workload.
    """

    version: ClassVar[str] = "2"
    about: ClassVar[str] = "reconstructs pictures by matching the direction of their gradient"
    source: ClassVar[str] = (
        "Geiping et al. 2020, Inverting Gradients: How easy is it to break privacy in federated learning? "
        "(arXiv:2003.14053)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "single records: the method makes one step on one record, so no other gradient hides it",
        "the angle ignores norms: scaling a gradient to norm 1 costs the attacker nothing, noise does",
        "a smooth picture has a smaller error than a random one without content: compare it with "
        "the picture's mean colour, and look at the pictures",
        "signed Adam, the paper's optimizer, has not converged after 1,000 steps on a LeNet with sigmoids, "
        "where L-BFGS needs 300; with ReLU or max-pooling take optimizer = adam, tv = 0.1 and many steps",
        "one search by default, the paper makes up to 32: a failure does not prove that nothing leaks",
        "mean and deviation of the pixels are assumed known, from the pool",
    )
    Params: ClassVar[type[methods.base.Params]] = InvertingGradientsParams
    shadows: ClassVar[int] = 0

    def rebuild(
        self, seen: Intercepted, params: InvertingGradientsParams, stream: torch.Generator
    ) -> Reconstructions:
        """The best of `restarts` pictures for each gradient."""
        labels = read_labels(seen.gradients) if seen.labels is None else seen.labels
        trials = torch.arange(len(seen)).repeat(params.restarts)
        starts = torch.randn((len(trials), *seen.shape), generator=stream)
        found, distances = [], []
        for part in torch.split(torch.arange(len(trials)), together(seen.gradients)):
            rows = trials[part]
            z, distance = search(starts[part], seen.take(rows), labels[rows], params)
            found.append(z)
            distances.append(distance)
        each = torch.cat(distances).view(params.restarts, len(seen))
        best = each.nan_to_num(torch.inf).argmin(0) * len(seen) + torch.arange(len(seen))
        return Reconstructions(seen.pixels.original(torch.cat(found)[best]), labels)


def search(
    start: Tensor, seen: Intercepted, labels: Tensor, params: InvertingGradientsParams
) -> tuple[Tensor, Tensor]:
    """Standardised pictures, and the distances of their gradients without the smoothness."""
    gradients, pixels = record_gradients(seen.model), seen.pixels

    def distance(z: Tensor) -> Tensor:
        return cosine_distance(gradients(pixels.original(z), labels), seen.gradients)

    def evaluate(z: Tensor) -> tuple[Tensor, Tensor]:
        z = z.detach().requires_grad_()
        costs = distance(z) + params.tv * total_variation(z)
        # Pictures share only the graph: the gradient of the sum is the gradient of each.
        (slopes,) = torch.autograd.grad(costs.sum(), z)
        return costs.detach(), slopes

    find = by_lbfgs if params.optimizer == "lbfgs" else by_adam
    found = find(evaluate, start, boxed(pixels), params)
    return found, distance(found)


def by_lbfgs(evaluate: Evaluate, start: Tensor, box: Box, params: InvertingGradientsParams) -> Tensor:
    """The result of L-BFGS, clipped to the box; a diverged picture becomes the mean one."""

    def scaled(points: Tensor) -> tuple[Tensor, Tensor]:
        costs, slopes = evaluate(points.view_as(start))
        return SCALE * costs, SCALE * slopes.flatten(1)

    points, _ = minimise(scaled, start.flatten(1), params.steps, ceiling=torch.inf)
    return box(points.view_as(start).nan_to_num(0.0, 0.0, 0.0))


def by_adam(evaluate: Evaluate, start: Tensor, box: Box, params: InvertingGradientsParams) -> Tensor:
    """The result of Adam, clipped to the box at every step."""
    z = start.clone()
    optimizer = torch.optim.Adam([z], lr=params.learning_rate)
    drops = [params.steps * part // 8 for part in (3, 5, 7)]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, drops, gamma=0.1)
    for _ in range(params.steps):
        _, slopes = evaluate(z)
        z.grad = slopes.sign_() if params.signed else slopes
        optimizer.step()
        schedule.step()
        z.copy_(box(z))
    return z


def boxed(pixels: Pixels) -> Box:
    """A function that clips standardised pictures to the range of pixels."""
    low, high = pixels.standardised(pixels.low), pixels.standardised(pixels.high)
    return lambda z: z.clamp(low, high)


attack: Inversion = InvertingGradients()
