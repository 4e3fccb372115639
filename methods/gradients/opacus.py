"""Per-example gradients from Opacus's hooks: every gradient is stored, then clipped and summed."""

import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor, nn

from methods.gradients.base import Clipped, Loss, clip_factors
from methods.gradients.layers import refuse_mixing_layers


class OpacusEngine:
    """Opacus's GradSampleModule (Yousefpour et al. 2021): memory B times the parameters."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        """Put hooks on `model`; a layer that mixes examples is a SpecError."""
        refuse_mixing_layers(model)
        self.loss = loss
        self.weights = [p for p in model.parameters() if p.requires_grad]
        self._hooked = GradSampleModule(model, loss_reduction="sum")

    def clipped_sum(self, x: Tensor, y: Tensor, clip: float) -> Clipped:
        """See Engine."""
        if len(x) == 0:
            empty = self.weights[0].new_zeros(0)
            return Clipped([torch.zeros_like(w) for w in self.weights], empty, empty)
        losses = self.loss(self._hooked(x), y)
        torch.autograd.backward(losses.sum())
        gradients = [self._take_gradients(w, len(x)) for w in self.weights]
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
        factors = clip_factors(norms, clip)
        if not bool(torch.isfinite(norms).all()):
            # A factor of 0 does not silence NaN or infinity in the weighted sum.
            gradients = [torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0) for g in gradients]
        sums = [torch.einsum("i,i...->...", factors, g) for g in gradients]
        return Clipped(sums, norms, losses.detach())

    def release(self) -> None:
        """See Engine."""
        model = self._hooked.to_standard_module()
        for layer in model.modules():
            # Opacus forgets these: inputs of the last batches, that is, people's records.
            for leftover in ("activations", "max_batch_len"):
                vars(layer).pop(leftover, None)

    @staticmethod
    def _take_gradients(weight: nn.Parameter, examples: int) -> Tensor:
        """The (B, ...) gradients of one parameter, taken off it; zeros where the loss does not reach it."""
        gradients: Tensor | None = weight.grad_sample  # type: ignore[attr-defined]
        weight.grad_sample = None  # type: ignore[attr-defined]
        weight.grad = None
        return weight.new_zeros(examples, *weight.shape) if gradients is None else gradients
