"""dlg: the picture and label whose gradient is the shared one, by L-BFGS from random noise."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

import methods.base
from harness.attacks.parts.inversion import (
    Intercepted,
    Inversion,
    InversionParams,
    Reconstructions,
    read_labels,
    record_gradients,
    squared_distance,
    together,
)
from harness.attacks.parts.lbfgs import Evaluate, minimise
from methods.base import Count

DIVERGED = 1e3
"""A distance beyond this has diverged."""


class DlgParams(InversionParams):
    """The length of the search and its unknowns."""

    label: Literal["searched", "known", "idlg"] = Field(
        default="searched",
        description="Whether the label is searched for with the picture, known, or read off the gradient "
        "(Zhao et al. 2020).",
    )
    steps: Count = Field(
        default=1000, description="Steps of L-BFGS, one gradient each (authors' code: up to 300 x 20)."
    )
    restarts: Count = Field(
        default=3, description="Searches at most: a new one, from other noise, if the last has diverged."
    )


class Dlg:
    """Zhu et al. 2019: min |gradient(x, softmax y) - shared|^2 over picture x and label logits y.

    All pictures are optimised in one graph, each with the curvature of its own problem.
    """

    version: ClassVar[str] = "2"
    about: ClassVar[str] = "reconstructs pictures and labels by matching their gradient with L-BFGS"
    source: ClassVar[str] = (
        "Zhu et al. 2019, Deep Leakage from Gradients (arXiv:1906.08935); labels: Zhao et al. 2020, iDLG "
        "(arXiv:2001.02610)"
    )
    caveats: ClassVar[tuple[str, ...]] = (
        "needs a twice differentiable model: with ReLU or max-pooling L-BFGS finds little",
        "matches norms too: a method that clips or rescales a gradient stops it without hiding anything; "
        "inverting-gradients is not affected",
        "single records: the method makes one step on one record, so no other gradient hides it",
        "mean and deviation of the pixels are assumed known, from the pool",
    )
    Params: ClassVar[type[methods.base.Params]] = DlgParams
    shadows: ClassVar[int] = 0

    def rebuild(self, seen: Intercepted, params: DlgParams, stream: torch.Generator) -> Reconstructions:
        """The best picture found for each gradient."""
        known = read_labels(seen.gradients) if params.label == "idlg" else seen.labels
        parts = [
            search(seen.take(rows), None if known is None else known[rows], params, stream)
            for rows in torch.split(torch.arange(len(seen)), together(seen.gradients))
        ]
        x = torch.cat([pictures for pictures, _ in parts])
        return Reconstructions(x, torch.cat([labels for _, labels in parts]))


def search(
    seen: Intercepted, labels: Tensor | None, params: DlgParams, stream: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Pictures and labels; a search that diverges is repeated, as often as the parameters allow."""
    pixels, classes = seen.pixels, seen.gradients[-1].shape[1]
    width = seen.shape.numel()
    points = torch.zeros(len(seen), width + classes)
    distances = torch.full((len(seen),), torch.inf)
    pending = torch.arange(len(seen))
    for _ in range(params.restarts):
        start = torch.randn((len(pending), width + classes), generator=stream)
        part = None if labels is None else labels[pending]
        found, distance = minimise(matching(seen.take(pending), part), start, params.steps, DIVERGED)
        better = distance < distances[pending]  # False for NaN
        points[pending[better]], distances[pending[better]] = found[better], distance[better]
        pending = pending[~(distance <= DIVERGED)]
        if len(pending) == 0:
            break
    x = pixels.original(points[:, :width].view(-1, *seen.shape)).clamp(pixels.low, pixels.high)
    return x, points[:, width:].argmax(1) if labels is None else labels


def matching(seen: Intercepted, labels: Tensor | None) -> Evaluate:
    """The distance of gradients at points: a standardised picture each, then the logits of a label."""
    gradients, width = record_gradients(seen.model), seen.shape.numel()

    def evaluate(points: Tensor) -> tuple[Tensor, Tensor]:
        points = points.detach().requires_grad_()
        x = seen.pixels.original(points[:, :width].view(-1, *seen.shape))
        y = points[:, width:].softmax(1) if labels is None else labels
        distances = squared_distance(gradients(x, y), seen.gradients)
        # Pictures share only the graph: the gradient of the sum is the gradient of each.
        (slopes,) = torch.autograd.grad(distances.sum(), points)
        return distances.detach(), slopes

    return evaluate


attack: Inversion = Dlg()
