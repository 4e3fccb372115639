"""What one step of a method shares: the gradient an observer reads off the weights before and after it.

The method itself trains, on the attacked records alone, with its own clipping and its own noise, calibrated
for the real training. Nothing is re-implemented: an attack cannot be tried on gradients that no method gives.
"""

import hashlib
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from dp_accounting import DpEvent
from torch import Tensor, nn

from harness.attacks.base import Shared, When
from harness.jobs.run import Run
from methods.base import Budget, Method, Params, Problem, Rebuilt, Stepped
from workloads.base import Records
from workloads.errors import SpecError

CPU = torch.device("cpu")
RATE = 2.0**20
"""Of the step. A power of two divides out exactly; a large one leaves 2^-44 of the weights' own rounding."""


class OneStep:
    """A budget for one step: the cell's has paid for it already, at the rate of the real training."""

    def __init__(self) -> None:
        self.left = 1

    def admits(self, event: DpEvent) -> bool:
        """Whether the step is still to be made."""
        return self.left > 0

    def spend(self, event: DpEvent) -> None:
        """It is about to be made."""
        self.left -= 1

    def remaining_uses(self, event: DpEvent) -> int:
        """One, then none."""
        return self.left

    def state_dict(self) -> dict[str, Any]:
        """Whether it was made."""
        return {"left": self.left}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.left = int(state["left"])


class LoneStep(Run):
    """A run of one step, without checkpoints."""

    def budget(self, epsilon: float, delta: float, likely: DpEvent, alone: bool = False) -> Budget:
        """One that admits the step."""
        return OneStep()


def share(
    method: Method,
    params: Params,
    problem: Problem,
    model: nn.Module,
    records: Records,
    name: str,
    when: When,
) -> Shared:
    """What a step from this model on these records alone shares.

    Args:
        method: whose step it is.
        params: of the cell.
        problem: of the cell; its models are not asked for.
        model: whose weights the step starts from.
        records: the batch, all of it.
        name: of the training that the step belongs to; noise is drawn anew for other records.
        when: the moment of that training.
    """
    single = one_step(method, params, len(records))
    run = LoneStep(f"{name}/{when}/{fingerprint(records)}", CPU)
    here = Problem(problem.classes, lambda seed: deepcopy(model), problem.loss, problem.public)
    released = method.train(records, here, single, run)
    run.finish()
    before, after = weights_of(model), weights_of(released.predictor)
    steps = [len(series.wall) for series in run.phases.values()]
    if steps != [1] or before.keys() != after.keys():
        raise SpecError(
            f"training by '{type(method).__name__}' is no sequence of gradient steps on the released model; "
            f"asked for one step it made {steps} in its phases, and no gradient is shared; attack its answers"
        )
    moves = [before[each].double() - after[each].double() for each in before]
    if not any(bool(move.any()) for move in moves):
        raise SpecError("the step left every weight as it was: the method rejected it and shared nothing")
    return Shared(model, [(move / RATE).float() for move in moves])


def one_step(method: Method, params: Params, count: int) -> Params:
    """The cell's parameters with the settings of one step on `count` records, as the method declares them.

    A SpecError for a method that cannot be asked for one.
    """
    if isinstance(method, Rebuilt) or not isinstance(params, Stepped):
        why = (
            "releases another module than the one it trains"
            if isinstance(method, Rebuilt)
            else f"declares no single step: {type(params).__name__} has no one_step"
        )
        raise SpecError(
            f"'{type(method).__name__}' {why}: it cannot be asked for one gradient step; attack its answers"
        )
    return type(params)(**{**params.model_dump(), **params.one_step(count, RATE)})


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The trainable weights by name."""
    return {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}


def fingerprint(records: Records) -> str:
    """A name for these records: their content's hash."""
    parts = (each.contiguous().numpy().tobytes() for each in (records.x, records.y))
    return hashlib.sha256(b"".join(parts)).hexdigest()
