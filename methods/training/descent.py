"""Plain gradient descent on records: the part that methods without per-example gradients have in common."""

from collections.abc import Callable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from methods.base import Run
from methods.gradients.layers import refuse_unordered_layers
from methods.training.optimizer import OptimizerParams, Schedule, make_optimizer, set_rate
from methods.training.sampling import HOST, Sampler, ShuffleSampler
from workloads.base import Records

ANSWERED_AT_ONCE = 2048


class DescentParams(OptimizerParams):
    """What a method of plain gradient steps has."""

    schedule: Schedule = Field(
        default="constant", description="The step size over the steps: as it is, or down to 0 as a cosine."
    )

    def one_step(self, count: int, rate: float) -> dict[str, Any]:
        """The settings of one plain gradient step on all of `count` records (methods/base.py, Stepped)."""
        return super().one_step(count, rate) | {"schedule": "constant"}


class Descent:
    """A model on its way down the mean loss of shuffled batches; belongs into the state of `run.steps`.

    Args:
        model: What is trained; moved to the run's device.
        records: What it is trained on.
        loss: Outputs and labels of a batch to one loss per example.
        params: Optimizer, batch size and schedule.
        run: The run it belongs to.
        stream: The name of the random stream that shuffles.
        rows: The rows of `records` it may see, where it may not see all. A batch is never larger than
            they are; where there are none, a step does nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        records: Records,
        loss: Callable[[Tensor, Tensor], Tensor],
        params: DescentParams,
        run: Run,
        stream: str,
        rows: Tensor | None = None,
    ) -> None:
        self.model, self.records, self.loss = model.to(run.device).train(), records, loss
        refuse_unordered_layers(self.model)
        self.params, self.run = params, run
        self.rows = torch.arange(len(records), device=run.device) if rows is None else rows
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.optimizer = make_optimizer(self.weights, params)
        size = min(params.batch_size, len(self.rows))
        self.sampler: Sampler = ShuffleSampler(len(self.rows), size, run.generator(stream, HOST), run.device)

    def step(self, number: int, total: int) -> Tensor:
        """Step `number` of `total`; the mean loss of its batch before the step."""
        run = self.run
        if len(self.rows) == 0:
            return torch.zeros((), device=run.device)
        with run.clock("batch"):
            batch = self.records.take(self.rows[self.sampler.draw()])
        with run.clock("gradients"):
            loss = self.loss(self.model(batch.x), batch.y).mean()
            # Into this model alone: the loss may lead through another network.
            torch.autograd.backward(loss, inputs=self.weights)
        with run.clock("update"):
            set_rate(self.optimizer, self.params.schedule, self.params.learning_rate, number, total)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.detach()

    def descend(self, phase: str, total: int) -> nn.Module:
        """All steps, as a phase of the run; the trained model, in evaluation mode."""
        for number in self.run.steps(phase, total, {"descent": self}):
            self.run.observe(loss=self.step(number, total))
        return self.model.eval()

    def state_dict(self) -> dict[str, Any]:
        """Model, optimizer and sampler."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "sampler": self.sampler.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.sampler.load_state_dict(state["sampler"])


def answer(model: nn.Module, records: Records) -> Tensor:
    """The model's outputs on all records, without gradients; the model is left in evaluation mode."""
    model.eval()
    with torch.no_grad():
        return torch.cat([model(x) for x in records.batches(ANSWERED_AT_ONCE)])
