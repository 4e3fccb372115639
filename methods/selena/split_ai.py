"""Split-AI: sub-models that each hold out a part of the records, and their predictions on that part."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from methods.base import Run
from methods.training.descent import DescentParams
from methods.training.ensembles import PREDICTED_AT_ONCE, Single, Stack, group_size
from methods.training.optimizer import make_optimizer, set_rate
from methods.training.sampling import HOST
from workloads.base import Records, sent


def draw_absences(members: int, sub_models: int, absences: int, generator: torch.Generator) -> Tensor:
    """(members, sub_models): True if a sub-model does not see a member, exactly `absences` in every row.

    All sets of that many sub-models are equally likely, and rows are independent.
    """
    # Doubles: ties among floats would be common, and a sort need not break them fairly.
    chance = torch.rand(
        members, sub_models, generator=generator, device=generator.device, dtype=torch.float64
    )
    absent = torch.zeros_like(chance, dtype=torch.bool)
    return absent.scatter_(1, chance.argsort(1)[:, :absences], True)


class SplitAi:
    """The sub-models in training, one step of all at a time; part of the state of `run.steps`.

    Each shuffles the members it sees and has its own batches, as if it were trained alone. One that sees no
    member keeps its initial weights. Many are computed at once if that is faster.

    Args:
        make: A fresh model from a seed.
        members: All members.
        absent: Which members each sub-model holds out, from `draw_absences`.
        loss: Outputs and labels of a batch to one loss per example.
        params: Of every sub-model's training.
        run: The run it belongs to.
    """

    def __init__(
        self,
        make: Callable[[int], nn.Module],
        members: Records,
        absent: Tensor,
        loss: Callable[[Tensor, Tensor], Tensor],
        params: DescentParams,
        run: Run,
    ) -> None:
        self.members, self.loss, self.params, self.run = members, loss, params, run
        self.absent = absent.to(run.device)
        count = absent.shape[1]
        models = [make(run.seed(f"sub-model-{number}")).to(run.device) for number in range(count)]
        size = group_size(models[0], count)
        self.places = [slice(start, min(start + size, count)) for start in range(0, count, size)]
        kind = Stack if size > 1 else Single
        self.groups = [kind(models[place]).train() for place in self.places]
        self.optimizers = [make_optimizer(group.parameters(), params) for group in self.groups]
        # On the host, like the draws: the batches of all sub-models go to the device in one copy.
        self.seen = [rows.nonzero().flatten() for rows in (~absent.to(HOST)).T]
        self.samplers = [
            run.sampler(
                "shuffle", members, min(params.batch_size, len(rows)), "sub-models", rows=rows, device=HOST
            )
            for rows in self.seen
        ]

    def step(self, number: int, total: int) -> Tensor:
        """Step `number` of `total` of every sub-model; their mean loss."""
        run, losses = self.run, torch.zeros((), device=self.run.device)
        with run.drawing():
            rows, weights = self._draw()
        for place, group, optimizer in zip(self.places, self.groups, self.optimizers, strict=True):
            with run.drawing():
                batch = self.members.take(rows[place].flatten())
                x = batch.x.view(-1, self.params.batch_size, *batch.x.shape[1:])
            with run.clock("gradients"):
                each = self.loss(group(x).flatten(0, 1), batch.y)
                # A sum of means, so that each sub-model gets the gradient of its own.
                loss = (each * weights[place].flatten()).sum()
                torch.autograd.backward(loss)
            with run.clock("update"):
                set_rate(optimizer, self.params.schedule, self.params.learning_rate, number, total)
                optimizer.step()
                optimizer.zero_grad()
            losses += loss.detach()
        return losses / len(self.seen)

    def add_predictions(self, group: int, soft_labels: Tensor) -> None:
        """Add the share of this group's sub-models to `soft_labels` (members, classes).

        After all groups a row is the mean of the probabilities of the sub-models that do not see the member.
        """
        stack, place = self.groups[group].eval(), self.places[group]
        shares = self.absent[:, place] / self.absent.sum(1, keepdim=True)
        chunks = (torch.split(each, PREDICTED_AT_ONCE) for each in (self.members.x, shares, soft_labels))
        with torch.no_grad():
            for x, share, out in zip(*chunks, strict=True):
                probabilities = stack(x.expand(share.shape[1], *x.shape)).softmax(2)
                out += (share.T[:, :, None] * probabilities).sum(0)

    def _draw(self) -> tuple[Tensor, Tensor]:
        """(sub-models, batch size) row numbers, and the weight of each in the mean of its batch.

        The last batch of an epoch is smaller: it is padded with records of weight 0.
        """
        size = self.params.batch_size
        rows = torch.zeros(len(self.seen), size, dtype=torch.int64)
        weights = torch.zeros(len(self.seen), size)
        places = torch.arange(size)
        for number, (seen, sampler) in enumerate(zip(self.seen, self.samplers, strict=True)):
            if len(seen) > 0:
                drawn = sampler.draw_rows()
                rows[number] = drawn[places % len(drawn)]
                weights[number, : len(drawn)] = 1 / len(drawn)
        return sent(rows, self.run.device), sent(weights, self.run.device)

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimizers and samplers of all sub-models."""
        return {name: [each.state_dict() for each in things] for name, things in self._parts().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        for name, things in self._parts().items():
            for each, saved in zip(things, state[name], strict=True):
                each.load_state_dict(saved)

    def _parts(self) -> dict[str, list[Any]]:
        return {"groups": self.groups, "optimizers": self.optimizers, "samplers": self.samplers}
