"""A conditional generator, and its training against a discriminator."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.nn.functional import one_hot

from methods.base import Run
from workloads.base import Records
from workloads.models.init import seeded

BETAS = (0.5, 0.999)
"""Adam's betas in both networks (Radford, Metz and Chintala 2016)."""


class Generator(nn.Module):
    """A fully connected network with two hidden layers that generates features within a fixed range.

    It never reads a member.

    Args:
        shape: Of one example.
        classes: Number of labels.
        latent: Dimension of the input.
        width: Units of a hidden layer.
        bounds: Minimum and maximum of a feature.
        seed: Of the initial weights.
    """

    def __init__(
        self,
        shape: Sequence[int],
        classes: int,
        latent: int,
        width: int,
        bounds: tuple[float, float],
        seed: int,
    ) -> None:
        super().__init__()
        self.shape, self.classes, self.latent, self.bounds = tuple(shape), classes, latent, bounds
        with seeded(seed):
            self.layers = nn.Sequential(
                nn.Linear(latent + classes, width),
                nn.ReLU(),
                nn.Linear(width, width),
                nn.ReLU(),
                nn.Linear(width, math.prod(self.shape)),
                nn.Sigmoid(),
            )

    def forward(self, numbers: Tensor, labels: Tensor) -> Tensor:
        """Map (B, latent) numbers and (B,) labels to (B, *shape) examples."""
        code = one_hot(labels, self.classes).to(numbers.dtype)
        low, high = self.bounds
        share: Tensor = self.layers(torch.cat([numbers, code], dim=1))
        return (low + (high - low) * share).view(-1, *self.shape)

    def draw(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        """One fresh example for every label; gradients flow back to the weights."""
        numbers = torch.randn(len(labels), self.latent, generator=generator, device=generator.device)
        return self(numbers, labels)  # type: ignore[no-any-return]

    def fake(self, labels: Tensor, generator: torch.Generator) -> Records:
        """Draw the examples as records, without gradients."""
        with torch.no_grad():
            return Records(self.draw(labels, generator), labels)


class Forger:
    """A generator in training against a discriminator; part of the state of `run.steps`.

    Labels are drawn uniformly: those of the members are private.

    Args:
        generator: The generator to train.
        discriminator: A copy of the discriminator's architecture, without hooks.
        rate: Adam's learning rate.
        run: The run it belongs to.
    """

    def __init__(self, generator: Generator, discriminator: nn.Module, rate: float, run: Run) -> None:
        self.generator = generator.to(run.device).train()
        # Train through a copy: hooks of a gradient engine must not record generated examples.
        self.mirror = copy.deepcopy(discriminator).requires_grad_(False)
        self.optimizer = optim.Adam(self.generator.parameters(), lr=rate, betas=BETAS)
        self.labels, self.numbers = run.generator("labels"), run.generator("latent")

    def forge(self, count: int) -> Records:
        """Generate examples with their labels."""
        return self.generator.fake(self.draw_labels(count), self.numbers)

    def learn(self, discriminator: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], count: int) -> None:
        """Make one step on `count` examples, with the non-saturating loss."""
        self.mirror.load_state_dict(discriminator.state_dict())
        labels = self.draw_labels(count)
        examples = self.generator.draw(labels, self.numbers)
        torch.autograd.backward(loss(self.mirror(examples), labels).mean())
        self.optimizer.step()
        self.optimizer.zero_grad()

    def draw_labels(self, count: int) -> Tensor:
        """Uniform labels."""
        classes, stream = self.generator.classes, self.labels
        return torch.randint(classes, (count,), generator=stream, device=stream.device)

    def state_dict(self) -> dict[str, Any]:
        """Weights and optimizer."""
        return {"generator": self.generator.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.generator.load_state_dict(state["generator"])
        self.optimizer.load_state_dict(state["optimizer"])
