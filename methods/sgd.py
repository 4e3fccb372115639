"""sgd: mini-batch gradient descent without privacy, the upper anchor of utility and leakage."""

from typing import Annotated, ClassVar, Literal

import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import Field

from methods.base import Problem, Released, Role, Run, Technical
from methods.gradients.layers import refuse_unordered_layers
from methods.gradients.unclipped import MeanGradient
from methods.search import Fixed
from methods.training.cross_entropy import mean_of
from methods.training.descent import DescentParams
from methods.training.optimizer import Update, make_optimizer, set_rate
from workloads.base import Records


class SgdParams(DescentParams):
    """Parameters of sgd."""

    sampling: Annotated[Literal["shuffle", "poisson"], Fixed()] = Field(
        default="shuffle",
        description="Shuffled epochs, or Poisson sampling to compare with a DP method.",
    )
    gradients: Annotated[Literal["autograd", "engine"], Technical()] = Field(
        default="autograd",
        description="Gradients by autograd, or by the passes of dp-sgd's engine without clipping and noise.",
    )


class Sgd:
    """Gradient steps on the mean loss of a batch (Robbins and Monro 1951)."""

    version: ClassVar[str] = "3"
    about: ClassVar[str] = "mini-batch SGD or Adam without any privacy: the baseline"
    source: ClassVar[str] = "Robbins and Monro 1951; Adam: Kingma and Ba 2015"
    guarantee: ClassVar[str] = "none"
    role: ClassVar[Role] = "plain-baseline"
    in_benches: ClassVar[dict[str, str]] = {"sampling": "poisson"}  # the batches of DP methods
    other_ways: ClassVar[dict[str, tuple[str, ...]]] = {"gradients": ("engine",)}
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
        mean_loss = mean_of(problem.loss)
        by_hand = MeanGradient(model, problem.loss) if params.gradients == "engine" else None
        update = Update(optimizer, (by_hand.weights if by_hand else []) or list(model.parameters()))
        state = {"model": model, "optimizer": optimizer, "sampler": sampler}

        for step in run.steps("train", params.steps, state):
            batch = sampler.draw()
            if batch.y.shape[0] == 0:
                run.observe(loss=0.0)
                continue
            with run.clock("gradients"):
                found = by_hand(batch.x, batch.y) if by_hand else None
                if found is None:
                    loss = mean_loss(model(batch.x), batch.y)
                    torch.autograd.backward(loss)
                else:
                    loss = found[0]
            with run.clock("update"):
                set_rate(optimizer, params.schedule, params.learning_rate, step, params.steps)
                if found is None:
                    update.step_by_own()
                else:
                    update.step(found[1])
            run.observe(loss=loss.detach())

        optimizer.zero_grad()
        return Released(model.eval(), NonPrivateDpEvent())


method = Sgd()
