"""The gradient shared by one step of a method: the difference of the weights before and after it.

The method itself trains on the attacked records only, with its own clipping and noise, calibrated for the
real training. Nothing is re-implemented, so attacks see only gradients that a method really produces.
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
from harness.plan.inspection.misfits import explain_no_gradient
from methods.base import Budget, Method, Params, Problem, Stepped
from workloads.base import Records
from workloads.errors import SpecError

CPU = torch.device("cpu")
RATE = 2.0**20
"""Learning rate of the step. A power of two divides exactly; a large one keeps their rounding at 2^-44."""


class OneStep:
    """A budget for one step, which is already covered by the cell's budget."""

    def __init__(self) -> None:
        self.left = 1

    def admits(self, event: DpEvent) -> bool:
        """Whether the step has not been made."""
        return self.left > 0

    def spend(self, event: DpEvent) -> None:
        """Use up the step."""
        self.left -= 1

    def remaining_uses(self, event: DpEvent) -> int:
        """One before the step, then zero."""
        return self.left

    def state_dict(self) -> dict[str, Any]:
        """The remaining steps."""
        return {"left": self.left}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the remaining steps."""
        self.left = int(state["left"])


class LoneStep(Run):
    """A run of one step, without checkpoints."""

    def budget(self, epsilon: float, delta: float, likely: DpEvent, alone: bool = False) -> Budget:
        """A budget that admits one step."""
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
    """The gradient shared by a step from this model on these records only.

    Args:
        method: The method of the cell.
        params: Its parameters.
        problem: Of the cell; its model function is not used.
        model: The weights before the step.
        records: The whole batch.
        name: Of the training; noise is redrawn for other records.
        when: The moment of that training.
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
            f"'{type(method).__name__}' does not train the released model by gradient steps: it made {steps} "
            "steps in its phases instead of one, and shares no gradient; attack its predictions instead"
        )
    moves = [before[each].double() - after[each].double() for each in before]
    if not any(bool(move.any()) for move in moves):
        raise SpecError("the step changed no weight: the method rejected it and shared nothing")
    return Shared(model, [(move / RATE).float() for move in moves])


def one_step(method: Method, params: Params, count: int) -> Params:
    """The cell's parameters, changed to one step on `count` records as the method declares.

    SpecError for a method without single steps.
    """
    if why := explain_no_gradient(method, type(params)):
        raise SpecError(why)
    if not isinstance(params, Stepped):
        raise TypeError(f"{type(params).__name__} has no one_step")
    return type(params)(**{**params.model_dump(), **params.one_step(count, RATE)})


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The trainable weights by name."""
    return {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}


def fingerprint(records: Records) -> str:
    """SHA-256 of the records' content."""
    parts = (each.contiguous().numpy().tobytes() for each in (records.x, records.y))
    return hashlib.sha256(b"".join(parts)).hexdigest()
