"""Ensembles: models of one architecture, each on its own shard, many at once if that is faster."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from methods.base import Run
from methods.training.optimizer import OptimizerParams, make_optimizer
from workloads.base import Records

LARGEST_STACKED = 2**18
"""Maximum number of weights of a model for which stacking pays off on a CPU."""
WEIGHTS_AT_ONCE = 2**22
"""Maximum number of weights trained together."""
PREDICTED_AT_ONCE = 256


class Shards:
    """Members assigned to `count` shards, each independently at random.

    Adding or removing a member changes only one shard. Sizes differ; a shard may be empty.
    """

    def __init__(self, members: Records, count: int, generator: torch.Generator) -> None:
        self.members = members
        shard = torch.randint(count, (len(members),), generator=generator, device=generator.device)
        self.sizes = torch.bincount(shard, minlength=count)
        self._rows = shard.argsort(stable=True)
        self._starts = self.sizes.cumsum(0) - self.sizes

    def rows(self, shard: int) -> Tensor:
        """The rows of one shard, ascending."""
        start = int(self._starts[shard])
        return self._rows[start : start + int(self.sizes[shard])]

    def draw(self, shards: slice, size: int, generator: torch.Generator) -> Records:
        """Draw `size` members of each of these shards with replacement, concatenated by shard.

        For an empty shard these are members of other shards, which must not be used.
        """
        sizes, starts = self.sizes[shards, None], self._starts[shards, None]
        # Doubles, so that no product rounds up to the size.
        chance = torch.rand(
            len(sizes), size, generator=generator, device=generator.device, dtype=torch.float64
        )
        places = (starts + (chance * sizes).long()).clamp(max=len(self._rows) - 1)
        return self.members.take(self._rows[places.flatten()])


class Stack(nn.Module):
    """Several models as one: (g, B, ...) examples to (g, B, classes) outputs, by batched products."""

    def __init__(self, models: list[nn.Module]) -> None:
        super().__init__()
        # Not a submodule: the stacked weights are trained instead of its own.
        self._base = [models[0]]
        self._names = [name for name, _ in models[0].named_parameters()]
        stacked, _ = stack_module_state(models)
        self.weights = nn.ParameterList(stacked[name].detach() for name in self._names)

    def forward(self, x: Tensor) -> Tensor:
        """Apply model i to x[i]."""
        weights = dict(zip(self._names, self.weights, strict=True))
        return vmap(self._call, randomness="different")(weights, x)

    def _call(self, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(self._base[0], weights, (x,))  # type: ignore[no-any-return]


class Single(nn.Module):
    """One model with the shapes of a Stack."""

    def __init__(self, models: list[nn.Module]) -> None:
        super().__init__()
        (self.model,) = models

    def forward(self, x: Tensor) -> Tensor:
        """(1, B, ...) to (1, B, classes)."""
        logits: Tensor = self.model(x[0])
        return logits[None]


def group_size(model: nn.Module, count: int) -> int:
    """How many of `count` such models are trained together.

    Depends only on the model, never on timing, so that a task computes the same everywhere. On a CPU a stack
    is faster for linear layers (64-128-10: 4 times, 64-10: 17 times) unless they are large (784-1024-10: a
    third as fast), and slower for convolutions.
    """
    layers = [each for each in model.modules() if not isinstance(each, nn.Sequential)]
    plain = all(not list(each.children()) for each in layers) and not list(model.buffers())
    linear = all(isinstance(each, nn.Linear) or not list(each.parameters()) for each in layers)
    weights = sum(each.numel() for each in model.parameters())
    if not (plain and linear) or weights > LARGEST_STACKED:
        return 1
    return min(count, max(1, WEIGHTS_AT_ONCE // max(weights, 1)))


class Ensemble:
    """Models in training, group by group; of a trained group only its predictions are kept.

    Part of the state of `run.steps`; needs `total` steps.

    Args:
        make: A fresh model from a seed.
        shards: The members of each model.
        loss: Outputs and labels to one loss per example.
        params: Of every model's training.
        queries: Examples to predict by every trained model.
        run: The run it belongs to.
    """

    def __init__(
        self,
        make: Callable[[int], nn.Module],
        shards: Shards,
        loss: Callable[[Tensor, Tensor], Tensor],
        params: OptimizerParams,
        queries: Tensor,
        run: Run,
    ) -> None:
        self.make, self.shards, self.loss, self.params = make, shards, loss, params
        self.queries, self.run = queries, run
        self.generator = run.generator("teachers")
        count = len(shards.sizes)
        self.size = group_size(make(0), count)
        self.groups = -(-count // self.size)
        self.total = self.groups * params.steps
        self.predictions = torch.zeros(count, len(queries), dtype=torch.int16, device=run.device)
        """(models, queries): predicted labels; zeros until a group is trained."""
        self.begin(0)

    def begin(self, group: int) -> None:
        """Create the models of this group."""
        self.group = group
        self.places = slice(group * self.size, min((group + 1) * self.size, len(self.predictions)))
        numbers = range(self.places.start, self.places.stop)
        models = [self.make(self.run.seed(f"teacher-{number}")).to(self.run.device) for number in numbers]
        self.stack = (Stack(models) if self.size > 1 else Single(models)).train()
        self.optimizer = make_optimizer(self.stack.parameters(), self.params)

    def step(self, number: int) -> Tensor:
        """Make step `number` of `total`; return the mean loss of the models with a nonempty shard."""
        group, within = divmod(number, self.params.steps)
        if group != self.group:
            self.begin(group)
        with self.run.drawing():
            batch = self.shards.draw(self.places, self.params.batch_size, self.generator)
            x = batch.x
            x = x.view(-1, self.params.batch_size, *x.shape[1:])
            # Members of other shards must not reach a model without a shard, not even as 0 times infinity.
            trained = self.shards.sizes[self.places] > 0
            x[~trained] = 0
        with self.run.clock("gradients"):
            losses = self.loss(self.stack(x).flatten(0, 1), batch.y).view(-1, self.params.batch_size)
            # A sum, so that each model gets the gradient of its own mean.
            loss = torch.where(trained, losses.mean(1), 0.0).sum()
            torch.autograd.backward(loss)
        with self.run.clock("update"):
            self.optimizer.step()
            self.optimizer.zero_grad()
        if within == self.params.steps - 1:
            self.predictions[self.places] = self.predict()
        return loss.detach() / trained.sum().clamp(min=1)

    def predict(self) -> Tensor:
        """(g, queries): labels predicted by the models of this group."""
        self.stack.eval()
        count = self.places.stop - self.places.start
        with torch.no_grad():
            parts = [
                self.stack(part.expand(count, *part.shape)).argmax(2)
                for part in torch.split(self.queries, PREDICTED_AT_ONCE)
            ]
        self.stack.train()
        return torch.cat(parts, dim=1)

    def state_dict(self) -> dict[str, Any]:
        """The group in training and the predictions so far."""
        return {
            "group": self.group,
            "stack": self.stack.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "answers": self.predictions,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.begin(int(state["group"]))
        self.stack.load_state_dict(state["stack"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.predictions.copy_(state["answers"])
