"""Plain gradient descent on records, shared by methods without per-example gradients."""

from collections.abc import Callable
from typing import Annotated, Any, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from methods.base import Count, Fraction, Rate, Run
from methods.gradients.layers import refuse_unordered_layers
from methods.search import Search
from methods.training.optimizer import OptimizerParams, Schedule, make_optimizer, set_rate
from workloads.base import Records

PREDICTED_AT_ONCE = 2048


class DescentParams(OptimizerParams):
    """Parameters of a method of plain gradient steps, and their search space."""

    steps: Annotated[Count, Search(8, 64, unit="epochs", axis=2)] = Field(
        default=500, description="Training steps."
    )
    batch_size: Annotated[Count, Search(1 / 64, 1 / 4, unit="rate", axis=1)] = Field(
        default=64, description="Examples per step."
    )
    learning_rate: Annotated[Rate, Search(0.02, 2, unit="step", axis=0)] = Field(
        default=0.1, description="Learning rate."
    )
    momentum: Annotated[Fraction, Search(choices=(0.0, 0.9), when=("optimizer", "sgd"))] = Field(
        default=0.0, description="Momentum of optimizer 'sgd'."
    )
    schedule: Schedule = Field(
        default="constant", description="Learning-rate schedule: constant, or a cosine decay to 0."
    )

    def one_step(self, count: int, rate: float) -> dict[str, Any]:
        """The settings of one plain gradient step on all of `count` records (methods/base.py, Stepped)."""
        return super().one_step(count, rate) | {"schedule": "constant"}


class Source(Protocol):
    """The source of batches of a descent: `run.sampler`, or a method's wrapper of it."""

    def draw(self) -> Records:
        """The next batch."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """The state besides the random stream."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        ...


class Descent:
    """Gradient descent of a model on shuffled batches; part of the state of `run.steps`.

    Args:
        model: The model to train; moved to the run's device.
        records: The training records.
        loss: Outputs and labels of a batch to one loss per example.
        params: Optimiser, batch size and schedule.
        run: The run it belongs to.
        stream: The name of the random stream for shuffling.
        rows: The rows of `records` to train on; default: all. A batch is at most that large; without any, a
            step does nothing.
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
        self.count = len(records) if rows is None else len(rows)
        self.weights = [weight for weight in model.parameters() if weight.requires_grad]
        self.optimizer = make_optimizer(self.weights, params)
        size = min(params.batch_size, self.count)
        self.sampler = run.sampler("shuffle", records, size, stream, rows=rows)
        self.source: Source = self.sampler

    def step(self, number: int, total: int) -> Tensor:
        """Make step `number` of `total`; return the mean loss of its batch before the step."""
        run = self.run
        if self.count == 0:
            return torch.zeros((), device=run.device)
        batch = self.source.draw()
        with run.clock("gradients"):
            loss = self.loss(self.model(batch.x), batch.y).mean()
            # Gradients of this model only: the loss may involve another network.
            torch.autograd.backward(loss, inputs=self.weights)
        with run.clock("update"):
            set_rate(self.optimizer, self.params.schedule, self.params.learning_rate, number, total)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.detach()

    def descend(self, phase: str, total: int) -> nn.Module:
        """Make all steps as a phase of the run; return the trained model in evaluation mode."""
        for number in self.run.steps(phase, total, {"descent": self}):
            self.run.observe(loss=self.step(number, total))
        return self.model.eval()

    def state_dict(self) -> dict[str, Any]:
        """Model, optimizer and sampler."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "sampler": self.source.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.source.load_state_dict(state["sampler"])


def predict(model: nn.Module, records: Records) -> Tensor:
    """The model's logits on all records, without gradients; leaves the model in evaluation mode."""
    model.eval()
    with torch.no_grad():
        return torch.cat([model(x) for x in records.batches(PREDICTED_AT_ONCE)])
