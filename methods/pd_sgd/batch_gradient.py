"""The gradient of a batch's mean loss as one flat vector."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from methods.base import Loss
from methods.gradients.layers import refuse_unordered_layers
from methods.gradients.unclipped import MeanGradient
from methods.mechanisms.noise import cut
from methods.training.cross_entropy import mean_of
from workloads.base import Records
from workloads.errors import SpecError


class BatchGradient:
    """Gradients over all trainable weights of a model, written into the caller's flat vectors."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        refuse_running_statistics(model)
        refuse_unordered_layers(model)
        self.model, self._mean_loss = model, mean_of(loss)
        self._by_hand = MeanGradient(model, loss)
        trainable = [weight for weight in model.parameters() if weight.requires_grad]
        self.weights = self._by_hand.weights or trainable
        if not self.weights:
            raise SpecError(
                "the model has no trainable parameters; let at least one require gradients", field="workload"
            )

    def empty(self) -> Tensor:
        """An uninitialised flat vector of all weights."""
        first = self.weights[0]
        return torch.empty(
            sum(weight.numel() for weight in self.weights), dtype=first.dtype, device=first.device
        )

    def write(self, batch: Records, out: Tensor) -> Tensor:
        """Write the gradient of the batch's mean loss into `out`; return the loss."""
        found = self._by_hand(batch.x, batch.y)
        if found is None:
            loss = self._mean_loss(self.model(batch.x), batch.y)
            parts: Sequence[Tensor] = torch.autograd.grad(loss, self.weights, materialize_grads=True)
        else:
            loss, parts = found
        torch.cat([part.reshape(-1) for part in parts], out=out)
        return loss.detach()

    def lend(self, vector: Tensor) -> None:
        """Make pieces of a flat vector the weights' `grad`, for an optimiser step."""
        for weight, piece in zip(self.weights, cut(vector, self.weights), strict=True):
            weight.grad = piece

    def release(self) -> None:
        """Remove the vector from the weights."""
        for weight in self.weights:
            weight.grad = None


def refuse_running_statistics(model: nn.Module) -> None:
    """SpecError for layers with running statistics.

    The statistics of rejected batches would be released with the model.
    """
    problems = {
        name: f"layer '{name}' ({type(layer).__name__}) keeps running statistics of every batch that is "
        "tried, so rejected batches would be released with the model; use GroupNorm instead"
        for name, layer in model.named_modules()
        if getattr(layer, "running_mean", None) is not None
    }
    if problems:
        raise SpecError(list(problems.values()), field="layer", value=tuple(problems))
