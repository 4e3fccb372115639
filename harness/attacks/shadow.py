"""The shadow attack (S): a threshold on the loss, learned on models whose members are known."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import methods.base
from harness.attacks.base import Attack, Evidence, Floats, cross_entropy
from harness.leakage.intervals import Dependence

BINS = 512
"""Losses are counted in this many bins of equal content: a fit then costs the same for any pool."""
RIDGE = 1.0
"""Penalty on the slope, scikit-learn's default: losses that separate members perfectly have no other fit."""
NEWTON_STEPS = 40


class ShadowParams(methods.base.Params):
    """One threshold for all records, or one per class."""

    per_class: bool = Field(
        default=True, description="One threshold per label instead of one for all records."
    )


class Shadow:
    """Ye et al. 2022, attack S: logistic regression of membership on the loss, over the cell's other models.

    The score is the log odds of membership. With one classifier for all records it is a decreasing function
    of the loss and has the loss attack's AUC; with one per class, classes have thresholds of their own. Every
    record of every shadow counts, with the mean loss of its bin; the target's own loss is used as it is.
    """

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "a threshold on the loss for each class, learned on shadow models"
    source: ClassVar[str] = "Ye et al. 2022, Enhanced Membership Inference Attacks (arXiv:2111.09679)"
    caveats: ClassVar[tuple[str, ...]] = (
        "with per_class = false it ranks records as `loss` does, and has its AUC",
        "a class whose members are not easier for the shadows gets a threshold that is noise",
    )
    Params: ClassVar[type[methods.base.Params]] = ShadowParams
    shadows: ClassVar[int] = 1
    dependence: ClassVar[Dependence] = "learned"

    def scores(self, evidence: Evidence, params: ShadowParams) -> Floats:
        """(M, n): log odds; 0 without shadows."""
        losses = cross_entropy(evidence.phi)
        classes = evidence.labels if params.per_class else np.zeros_like(evidence.labels)
        edges = np.unique(np.quantile(losses, np.linspace(0, 1, BINS + 1)[1:-1]))
        members, everyone = (
            np.stack([_counts(row, own, classes, edges) for row, own in zip(losses, chosen, strict=True)])
            for chosen in (evidence.included, evidence.evaluated)
        )
        values = _bin_means(losses, edges)
        scores = np.zeros(losses.shape)
        for m in range(len(losses)) if len(losses) > 1 else ():
            # Counts are integers: subtracting is exact.
            inside, total = members.sum(axis=0) - members[m], everyone.sum(axis=0) - everyone[m]
            slope, intercept = fit(values, inside, total - inside)
            scores[m] = slope[classes] * losses[m] + intercept[classes]
        return scores


def _counts(
    losses: Floats, chosen: NDArray[np.bool_], classes: NDArray[np.int64], edges: Floats
) -> NDArray[np.int64]:
    """(classes, bins): how many of the chosen records of each class fall into each bin."""
    bins, width = np.searchsorted(edges, losses, side="right"), len(edges) + 1
    flat = classes[chosen] * width + bins[chosen]
    return np.bincount(flat, minlength=(int(classes.max()) + 1) * width).reshape(-1, width)


def _bin_means(losses: Floats, edges: Floats) -> Floats:
    """(bins,): the mean loss in each bin; 0 for an empty one, which no count refers to."""
    bins = np.searchsorted(edges, losses.ravel(), side="right")
    sums = np.bincount(bins, losses.ravel(), len(edges) + 1)
    return np.asarray(sums / np.maximum(np.bincount(bins, minlength=len(edges) + 1), 1))


def fit(values: Floats, inside: NDArray[np.int64], outside: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Slope and intercept of a logistic regression for every row of counts, by Newton's method.

    Args:
        values: (b,): the regressor.
        inside: (c, b): how many members have that value.
        outside: (c, b): how many non-members have it.

    Returns:
        Two arrays (c,); 0 for a row without members or without non-members.
    """
    known = (inside.sum(axis=1) > 0) & (outside.sum(axis=1) > 0)
    total = inside + outside
    slope, intercept = np.zeros(len(inside)), np.zeros(len(inside))
    for _ in range(NEWTON_STEPS):
        odds = slope[:, None] * values + intercept[:, None]
        chance = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        error, weight = total * chance - inside, total * chance * (1 - chance)
        down_slope, down_intercept = error @ values + RIDGE * slope, error.sum(axis=1)
        # The second derivatives, with enough on the diagonal to stay invertible for separable rows.
        second, mixed, flat = weight @ values**2 + RIDGE, weight @ values, weight.sum(axis=1) + 1e-9
        determinant = second * flat - mixed**2
        step_slope = (flat * down_slope - mixed * down_intercept) / determinant
        step_intercept = (second * down_intercept - mixed * down_slope) / determinant
        # Far from the optimum a whole step overshoots; near it the bound does not bind.
        size = np.minimum(1.0, 4.0 / np.maximum(np.abs(step_slope) + np.abs(step_intercept), 1e-300))
        slope, intercept = slope - size * step_slope, intercept - size * step_intercept
    return np.where(known, slope, 0.0), np.where(known, intercept, 0.0)


attack: Attack = Shadow()
