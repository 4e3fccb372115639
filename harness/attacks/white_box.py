"""White-box: membership from the last layer's gradient, its activations and the loss."""

import math
from collections import deque
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

import methods.base
from harness.attacks.base import Attack, AttackedCell, Bools, Evidence, Floats
from harness.attacks.parts.boosting import boosted_log_odds
from harness.attacks.parts.posteriors import shadows_of
from harness.attacks.parts.queries import blocks
from harness.leakage.intervals import Dependence
from methods.base import Count
from workloads.errors import BenchError

FOLDS = 2
"""Parts of the target's records; the membership of one is scored with that of the others known."""
WIDTH = 64
"""Activations that the classifier sees, at most."""
TOP = 3
"""Posteriors that it sees from the highest down; all of them, minus the label's 1, are in the gradient."""


class WhiteBoxParams(methods.base.Params):
    """What the classifier is trained on."""

    knowledge: Literal["partial", "shadow"] = Field(
        default="partial",
        description="partial: the adversary knows the membership of half of the target's records; "
        "shadow: it knows none and trains on other models",
    )
    shadow_models: Count = Field(default=4, description="Shadows to train on, at most; for shadow.")
    trees: Count = Field(default=100, description="Boosting rounds of a classifier.")
    seed: int = Field(default=0, ge=0, description="seed of the folds and of the reduction of activations")


class WhiteBox:
    """Nasr, Shokri and Houmansadr 2019, on the last layer, with boosted trees as classifier.

    The gradient of the loss by the last weight matrix is the outer product of p - y and the layer's input, so
    both factors and their norms represent it without a backward pass. The classifier sees them with the loss,
    the label and the highest posteriors.

    With `partial` knowledge the records are cut into two random halves, regardless of membership, and each
    half is scored by a classifier trained on the target's members and non-members in the other half: no score
    uses the membership of its own record. With `shadow` it is trained on the other models of the cell; the
    units of two models do not correspond, so activations are sorted.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "a classifier on last-layer gradient, activations, loss and posterior"
    source: ClassVar[str] = "Nasr et al. 2019, Comprehensive Privacy Analysis of Deep Learning (S&P)"
    caveats: ClassVar[tuple[str, ...]] = (
        "`partial` knows the membership of half of the target's records: more than other attacks here",
        "the last layer only, and boosted trees instead of the authors' networks: a lower bound",
        "activations beyond 64 are reduced: to random projections, or to evenly spaced sorted ones",
        "needs a model that ends in a linear layer",
    )
    Params: ClassVar[type[methods.base.Params]] = WhiteBoxParams
    knows_others: ClassVar[bool] = True
    shadows: ClassVar[int] = 0
    dependence: ClassVar[Dependence] = "learned"

    def unfit(self, cell: AttackedCell) -> str | None:
        """Why it cannot run without the models."""
        return cell.lacks_model()

    def scores(self, evidence: Evidence, params: WhiteBoxParams) -> Floats:
        """(M, n): log odds of membership."""
        models = range(len(evidence.members))
        if params.knowledge == "shadow" and len(models) == 1:
            raise BenchError(
                "white-box with knowledge = shadow trains on other models, but the cell has one model: "
                "give models = 2 or more, or knowledge = partial",
                field="models",
                value=1,
                allowed=2,
            )
        columns = [_columns(evidence, m, params) for m in models]
        if params.knowledge == "partial":
            truths = zip(columns, evidence.members, evidence.evaluated, strict=True)
            return np.stack([_across_halves(*each, params.trees, params.seed) for each in truths])
        scores = np.zeros(evidence.members.shape)
        for m in models:
            teachers = shadows_of(m, len(models), params.shadow_models)
            taught = [(s, evidence.evaluated[s]) for s in teachers]
            x = np.concatenate([columns[s][own] for s, own in taught])
            y = np.concatenate([evidence.members[s, own] for s, own in taught])
            scores[m] = boosted_log_odds(x, y, columns[m], params.trees)
        return scores


def _across_halves(columns: Floats, members: Bools, evaluated: Bools, trees: int, seed: int) -> Floats:
    """(n,): each half of the records scored by a classifier trained on the other.

    The halves are drawn regardless of membership, so one has a few more members than the other. Odds are
    balanced: else the half with fewer members would score higher.
    """
    scores = np.empty(len(members))
    order = np.random.default_rng(seed).permutation(len(members))
    for half in np.array_split(order, FOLDS):
        others = evaluated.copy()
        others[half] = False
        scores[half] = boosted_log_odds(columns[others], members[others], columns[half], trees, even=True)
    return scores


@dataclass(frozen=True)
class LastLayer:
    """The last layer in one forward pass of a model."""

    logits: Tensor
    error: Tensor
    """(b, C): p - y, the gradient of the cross-entropy by the logits and by the layer's bias."""
    activation: Tensor
    """(b, k): the layer's input."""

    @property
    def gradient(self) -> Tensor:
        """(b, C, k): of every record's loss by the layer's weights."""
        return self.error[:, :, None] * self.activation[:, None, :]


def last_layer(model: nn.Module, x: Tensor, y: Tensor) -> LastLayer:
    """Logits and the factors of every record's last-layer gradient, without a backward pass."""
    seen: deque[tuple[Tensor, Tensor]] = deque(maxlen=1)
    hooks = [
        layer.register_forward_hook(lambda _, given, made: seen.append((given[0], made)))
        for layer in model.modules()
        if isinstance(layer, nn.Linear)
    ]
    try:
        with torch.no_grad():
            logits = model(x)
    finally:
        for hook in hooks:
            hook.remove()
    if torch.isnan(logits).any():
        raise BenchError("the model's logits are NaN: look for a diverged training or a broken predictor")
    if not seen or seen[-1][1] is not logits:
        raise BenchError(
            "white-box needs a model that ends in a linear layer, and this one does not: "
            "use an attack on logits",
            field="model",
        )
    error = logits.softmax(1)
    error[torch.arange(len(y)), y] -= 1
    return LastLayer(logits, error, seen[-1][0])


def _columns(evidence: Evidence, model: int, params: WhiteBoxParams) -> Floats:
    """(n, columns): the classifier's input for every record under one model."""
    released = evidence.released(model)
    parts = [_describe(last_layer(released, x, y), y, params) for x, y in blocks(evidence.pool, 1)]
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)


def _describe(layer: LastLayer, y: Tensor, params: WhiteBoxParams) -> Tensor:
    losses = torch.nn.functional.cross_entropy(layer.logits.double(), y, reduction="none")
    error = torch.linalg.vector_norm(layer.error, dim=1)
    activation = torch.linalg.vector_norm(layer.activation, dim=1)
    figures = torch.stack([losses, y.double(), error, activation, error * activation], dim=1)
    top = layer.logits.softmax(1).topk(min(TOP, layer.logits.shape[1]), dim=1).values
    return torch.cat([figures, top, layer.error, _narrow(layer.activation, params)], dim=1)


def _narrow(activation: Tensor, params: WhiteBoxParams) -> Tensor:
    """(b, at most WIDTH): the activations, comparable among records of a model or between models too."""
    width = activation.shape[1]
    if params.knowledge == "shadow":
        ordered = activation.sort(dim=1, descending=True).values
        return ordered[:, torch.linspace(0, width - 1, min(width, WIDTH)).round().long()]
    if width <= WIDTH:
        return activation
    random = torch.Generator().manual_seed(params.seed)
    directions = torch.randn(width, WIDTH, generator=random) / math.sqrt(width)
    return activation @ directions


attack: Attack = WhiteBox()
