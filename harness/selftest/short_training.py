"""Short trainings on any device, run like tasks."""

import itertools
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import methods
from harness.jobs.run import Interrupted, Run
from harness.jobs.setup import Setup
from harness.plan.declarations import named
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.spec import Task

STEPS = 8
EPSILON = 8.0


def plan_task(workload: str, method: str, **changes: Any) -> Task:
    """The first training of a cell with its recipe and these changes; SpecError if they do not fit."""
    grid: dict[str, Any] = {"workload": workload, "method": method, **changes}
    if "epsilon" in methods.family.get(method).Params.model_fields:
        grid.setdefault("epsilon", EPSILON)
    sweep = {"name": "selftest", "models": 1, "grid": [grid]}
    return make_plan(*read_sweep(sweep, "selftest"), None).tasks[0]


def plan_private(workload: str, **changes: Any) -> Task:
    """The first training of a cell of the private baseline."""
    return plan_task(workload, named("private-baseline"), **changes)


@dataclass(frozen=True)
class Trained:
    """The result of a short training."""

    run: Run
    weights: list[Tensor] | None
    """On the CPU; None if it was interrupted."""

    @property
    def whole(self) -> list[Tensor]:
        """The weights of a training that was not interrupted."""
        if self.weights is None:
            raise RuntimeError("the training was interrupted")
        return self.weights


def train_briefly(
    task: Task, device: torch.device, steps: int | None = None, folder: Path | None = None
) -> Trained:
    """Train a task's model.

    Args:
        task: The training.
        device: Its device.
        steps: Interrupt after this many; None for the whole training.
        folder: Of checkpoints; None disables them.
    """
    taken = itertools.count(1)
    run = Run(task.key, device, folder, stop=lambda: next(taken) == steps)
    weights = None
    with suppress(Interrupted):
        setup = Setup(task.cell, task.index, device)
        released = setup.method.train(setup.members, setup.problem, setup.params, run)
        weights = [each.detach().cpu() for each in released.predictor.state_dict().values()]
    run.finish()
    return Trained(run, weights)


def distance(one: list[Tensor], other: list[Tensor]) -> float:
    """The maximum difference relative to the largest entry, over all tensors."""
    return max(
        float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-12))
        for a, b in zip(one, other, strict=True)
    )


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    """Whether all tensors are identical."""
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
