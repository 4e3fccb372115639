"""label-smoothing: SGD towards soft labels; less confident on members, without a guarantee."""

from typing import Annotated, ClassVar

import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import Field

from privbench import (
    Count,
    Fixed,
    Fraction,
    OptimizerParams,
    Problem,
    Rate,
    Records,
    Released,
    Run,
    Search,
    make_optimizer,
)


class LabelSmoothingParams(OptimizerParams):
    """Parameters of label-smoothing, with the space that `privbench tune` searches."""

    steps: Annotated[Count, Search(8, 64, unit="epochs", axis=2)] = Field(
        default=500, description="Training steps."
    )
    batch_size: Annotated[Count, Search(1 / 64, 1 / 4, unit="rate", axis=1)] = Field(
        default=64, description="Examples per step."
    )
    learning_rate: Annotated[Rate, Search(0.02, 2, unit="step", axis=0)] = Field(
        default=0.1, description="Learning rate."
    )
    momentum: Annotated[Fraction, Fixed()] = Field(default=0.0, description="Momentum of optimizer 'sgd'.")
    smoothing: Annotated[Fraction, Search(0, 0.5, "linear")] = Field(
        default=0.1, description="Weight of the uniform distribution in the targets."
    )


class LabelSmoothing:
    """Cross-entropy with (1 - smoothing) on the label and the rest on all classes (Szegedy et al. 2016)."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "SGD towards soft labels: a regulariser that also hides some confidence"
    source: ClassVar[str] = "Szegedy et al. 2016, Rethinking the Inception Architecture (arXiv:1512.00567)"
    guarantee: ClassVar[str] = "empirical"
    caveats: ClassVar[tuple[str, ...]] = ("was proposed for accuracy; no guarantee of any kind",)
    Params: ClassVar[type[LabelSmoothingParams]] = LabelSmoothingParams

    def train(self, members: Records, problem: Problem, params: LabelSmoothingParams, run: Run) -> Released:
        """Train for `params.steps` steps and release the last iterate."""
        members = members.to(run.device)
        model = problem.model(run.seed("init")).to(run.device).train()
        optimizer = make_optimizer(model.parameters(), params)
        sampler = run.sampler("shuffle", members, params.batch_size)
        state = {"model": model, "optimizer": optimizer, "sampler": sampler}

        for _ in run.steps("train", params.steps, state):
            batch = sampler.draw()
            with run.clock("gradients"):
                logits = model(batch.x)
                uniform = -torch.log_softmax(logits, dim=1).mean(dim=1)
                on_label = problem.loss(logits, batch.y)
                loss = ((1 - params.smoothing) * on_label + params.smoothing * uniform).mean()
                torch.autograd.backward(loss)
            with run.clock("update"):
                optimizer.step()
                optimizer.zero_grad()
            run.observe(loss=loss.detach())

        return Released(model.eval(), NonPrivateDpEvent())


method = LabelSmoothing()
