"""sgd: mini-batch gradient descent without privacy, the upper anchor of utility and leakage."""

from typing import Any, ClassVar, Literal

import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import Field

from methods.base import Problem, Released, Role, Run
from methods.gradients.layers import refuse_unordered_layers
from methods.training.optimizer import OptimizerParams, Schedule, make_optimizer, set_rate
from workloads.base import Records


class SgdParams(OptimizerParams):
    """Parameters of sgd."""

    sampling: Literal["shuffle", "poisson"] = Field(
        default="shuffle",
        description="Shuffled epochs, or Poisson sampling to compare with a DP method.",
    )
    schedule: Schedule = Field(
        default="constant", description="Learning-rate schedule: constant, or a cosine decay to 0."
    )

    def one_step(self, count: int, rate: float) -> dict[str, Any]:
        """The settings of one plain gradient step on all of `count` records (methods/base.py, Stepped)."""
        return super().one_step(count, rate) | {"schedule": "constant"}


class Sgd:
    """Gradient steps on the mean loss of a batch (Robbins and Monro 1951)."""

    version: ClassVar[str] = "2"
    about: ClassVar[str] = "mini-batch SGD or Adam without any privacy: the baseline"
    source: ClassVar[str] = "Robbins and Monro 1951; Adam: Kingma and Ba 2015"
    guarantee: ClassVar[str] = "none"
    role: ClassVar[Role] = "plain-baseline"
    in_benches: ClassVar[dict[str, str]] = {"sampling": "poisson"}  # the batches of DP methods
    caveats: ClassVar[tuple[str, ...]] = (
        "no guarantee of any kind",
        "epoch shuffling and Poisson sampling are different data streams: compare a DP method with "
        "sampling = 'poisson' as well",
    )
    Params: ClassVar[type[SgdParams]] = SgdParams

    def train(self, members: Records, problem: Problem, params: SgdParams, run: Run) -> Released:
        """Train for `params.steps` steps and release the last iterate.

        An empty Poisson batch has no mean loss and takes no step.
        """
        members = members.to(run.device)
        model = problem.model(run.seed("init")).to(run.device).train()
        refuse_unordered_layers(model)
        optimizer = make_optimizer(model.parameters(), params)
        sampler = run.sampler(params.sampling, members, params.batch_size)
        state = {"model": model, "optimizer": optimizer, "sampler": sampler}

        for step in run.steps("train", params.steps, state):
            batch = sampler.draw()
            if len(batch) == 0:
                run.observe(loss=0.0)
                continue
            with run.clock("gradients"):
                loss = problem.loss(model(batch.x), batch.y).mean()
                torch.autograd.backward(loss)
            with run.clock("update"):
                set_rate(optimizer, params.schedule, params.learning_rate, step, params.steps)
                optimizer.step()
                # Frees memory for the next forward pass.
                optimizer.zero_grad()
            run.observe(loss=loss.detach())

        return Released(model.eval(), NonPrivateDpEvent())


method = Sgd()
