"""Per-example gradients from Opacus's hooks: every gradient is stored, then clipped and summed."""

import torch
from torch import Tensor, nn

from methods.gradients.base import BatchEngine, Clipped, Clipping, Loss, clip_factors
from methods.gradients.contributions import Stored, joined
from methods.gradients.layers import by_layer, forget_activations, refuse_mixing_layers, trainable_layers


class OpacusEngine(BatchEngine):
    """Opacus's GradSampleModule (Yousefpour et al. 2021): memory B times the parameters."""

    name = "opacus"

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        clipping: Clipping = "flat",
        physical_batch_size: int | None = None,
        why: str = "requested",
    ) -> None:
        """Put hooks on `model`; SpecError for a layer that mixes examples."""
        from opacus.grad_sample import GradSampleModule  # a second of imports that few tasks need

        refuse_mixing_layers(model)
        self.layers = trainable_layers(model)
        weights = [weight for layer in self.layers for weight in layer.weights.values()]
        super().__init__(weights, clipping, physical_batch_size)
        self.why, self._loss = why, loss
        self._hooked = GradSampleModule(model, loss_reduction="sum")

    def _clip(self, x: Tensor, y: Tensor, clip: float, onto: list[Tensor], share: float) -> Clipped:
        losses, layers = self._gradients(x, y)
        factors = clip_factors([layer.norms() for layer in layers], clip, self.clipping, share)
        if factors.good is not None:
            # A factor of 0 does not remove NaN or infinity in the weighted sum.
            layers = [
                Stored([torch.nan_to_num(g, 0.0, 0.0, 0.0) for g in layer.gradients]) for layer in layers
            ]
        for layer, own, factor in zip(layers, by_layer(onto, self.layers), factors.layers, strict=True):
            layer.add_to(own, factor)
        return Clipped(onto, factors.norms, losses, factors.longer, factors.nonfinite)

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
        gradients = [self._take(weight, len(x)) for weight in self.weights]
        return losses.detach(), [Stored(own) for own in by_layer(gradients, self.layers)]

    @staticmethod
    def _take(weight: nn.Parameter, examples: int) -> Tensor:
        """Take the (B, ...) gradients off a parameter; zeros if the loss does not depend on it."""
        gradients: Tensor | None = weight.grad_sample  # type: ignore[attr-defined]
        weight.grad_sample = None  # type: ignore[attr-defined]
        weight.grad = None
        return weight.detach().new_zeros(examples, *weight.shape) if gradients is None else gradients
