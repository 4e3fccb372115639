"""Per-example gradients from Opacus's hooks: every gradient is stored, then clipped and summed."""

from itertools import islice

import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor, nn

from methods.gradients.base import BatchEngine, Clipped, Clipping, Loss, clip_factors
from methods.gradients.contributions import Stored, joined
from methods.gradients.layers import forget_activations, refuse_mixing_layers, trainable_layers


class OpacusEngine(BatchEngine):
    """Opacus's GradSampleModule (Yousefpour et al. 2021): memory B times the parameters."""

    name = "opacus"

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        clipping: Clipping = "flat",
        physical_batch_size: int | None = None,
        why: str = "asked for",
    ) -> None:
        """Put hooks on `model`; a layer that mixes examples is a SpecError."""
        refuse_mixing_layers(model)
        layers = trainable_layers(model)
        self._sizes = [len(layer.weights) for layer in layers]
        weights = [weight for layer in layers for weight in layer.weights.values()]
        super().__init__(weights, clipping, physical_batch_size)
        self.why, self._loss = why, loss
        self._hooked = GradSampleModule(model, loss_reduction="sum")

    def _clip(self, x: Tensor, y: Tensor, clip: float) -> Clipped:
        losses, layers = self._gradients(x, y)
        factors = clip_factors([layer.norms() for layer in layers], clip, self.clipping)
        if factors.nonfinite:
            # A factor of 0 does not silence NaN or infinity in the weighted sum.
            layers = [
                Stored([torch.nan_to_num(g, 0.0, 0.0, 0.0) for g in layer.gradients]) for layer in layers
            ]
        parts = zip(layers, factors.layers, strict=True)
        sums = [each for layer, factor in parts for each in layer.weighted(factor)]
        return Clipped(sums, factors.norms, losses, factors.clipped, factors.nonfinite)

    def _norms(self, x: Tensor, y: Tensor) -> Tensor:
        return joined([layer.norms() for layer in self._gradients(x, y)[1]])

    def _per_example(self, x: Tensor, y: Tensor) -> list[Tensor]:
        return [gradient for layer in self._gradients(x, y)[1] for gradient in layer.gradients]

    def release(self) -> None:
        """See Engine."""
        forget_activations(self._hooked.to_standard_module())

    def _gradients(self, x: Tensor, y: Tensor) -> tuple[Tensor, list[Stored]]:
        """The losses and the gradients of every layer."""
        for weight in self.weights:
            # Backward would add to it.
            weight.grad = None
        losses = self._loss(self._hooked(x), y)
        torch.autograd.backward(losses.sum())
        gradients = iter([self._take(weight, len(x)) for weight in self.weights])
        return losses.detach(), [Stored(list(islice(gradients, size))) for size in self._sizes]

    @staticmethod
    def _take(weight: nn.Parameter, examples: int) -> Tensor:
        """The (B, ...) gradients of one parameter, taken off it; zeros where the loss does not reach it."""
        gradients: Tensor | None = weight.grad_sample  # type: ignore[attr-defined]
        weight.grad_sample = None  # type: ignore[attr-defined]
        weight.grad = None
        return weight.detach().new_zeros(examples, *weight.shape) if gradients is None else gradients
