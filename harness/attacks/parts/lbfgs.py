"""L-BFGS on many small problems at once: each has its own curvature, and one graph evaluates them all."""

from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

HISTORY = 100
FLAT = 1e-7
"""A problem is solved when no slope is steeper, as in torch.optim.LBFGS."""
CURVED = 1e-10
"""Below this product of step and change of slope a step has no information about the curvature."""

Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Points (k, d) to values (k,) and slopes (k, d); row i of both depends on row i of the points alone."""


def minimise(evaluate: Evaluate, start: Tensor, steps: int, ceiling: float) -> tuple[Tensor, Tensor]:
    """Points and values after at most `steps` steps of length 1 (Liu and Nocedal 1989), without line search.

    The same steps as torch.optim.LBFGS on each problem alone. A solved problem stays where it is, as does one
    that has diverged: whose value is not finite, or above the ceiling.
    """
    point = start.clone()
    value, slope = evaluate(point)
    memory = Curvature()
    length = (1 / slope.abs().sum(1)).clamp(max=1)[:, None]
    for _ in range(steps):
        moving = (slope.abs().amax(1) > FLAT) & torch.isfinite(value) & (value <= ceiling)
        if not bool(moving.any()):
            break
        move = torch.where(moving[:, None], length * memory.direction(slope), 0.0)
        point, before = point + move, slope
        # Rows that do not move get their old value and slope.
        value, slope = evaluate(point)
        memory.learn(move, slope - before)
        length = torch.ones_like(length)
    return point, value


class Curvature:
    """The last steps of k problems and their changes of slope: a low-rank inverse Hessian."""

    def __init__(self) -> None:
        self._pairs: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=HISTORY)
        self._scale: Tensor | None = None

    def learn(self, step: Tensor, change: Tensor) -> None:
        """Add a step (k, d) of every problem; one without curvature is ignored."""
        product = _products(step, change)
        curved = product > CURVED
        inverse = torch.where(curved, 1 / product, 0.0)
        scale = torch.where(curved, product / change.square().sum(1, keepdim=True), 0.0)
        before = torch.ones_like(scale) if self._scale is None else self._scale
        self._scale = torch.where(curved, scale, before)
        self._pairs.append((step, change, inverse))

    def direction(self, slope: Tensor) -> Tensor:
        """(k, d): minus the inverse Hessian times the slope, by the two-loop recursion."""
        direction, weights = -slope, []
        for step, change, inverse in reversed(self._pairs):
            weights.append(_products(step, direction) * inverse)
            direction.addcmul_(weights[-1], change, value=-1)
        if self._scale is not None:
            direction.mul_(self._scale)
        for (step, change, inverse), weight in zip(self._pairs, reversed(weights), strict=True):
            direction.addcmul_(step, weight - _products(change, direction) * inverse)
        return direction


def _products(one: Tensor, other: Tensor) -> Tensor:
    """(k, 1): the inner product of every row with its counterpart, without a temporary of their size."""
    products: Tensor = torch.linalg.vecdot(one, other)
    return products[:, None]
