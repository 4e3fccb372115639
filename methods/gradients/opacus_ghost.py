"""Clipped sums from Opacus's ghost clipping: norms from a first backward pass, the sum from a second."""

import torch
from torch import Tensor, nn

from methods.gradients.base import BatchEngine, Clipped, Clipping, Loss, clip_factors
from methods.gradients.layers import forget_activations, refuse_mixing_layers, tied_weights
from workloads.errors import SpecError


class OpacusGhostEngine(BatchEngine):
    """Opacus's fast gradient and ghost clipping (Li et al. 2022; Lee and Kifer 2021): two backward passes."""

    name = "opacus-ghost"

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        clipping: Clipping = "flat",
        physical_batch_size: int | None = None,
        why: str = "requested",
    ) -> None:
        """Put hooks on `model`; SpecError for models that the engine does not support."""
        from opacus.grad_sample import GradSampleModuleFastGradientClipping

        refuse_mixing_layers(model)
        problems = [
            f"tied weights {names}: engine 'opacus-ghost' needs one layer per weight; use engine = 'opacus'"
            for names in tied_weights(model)
        ]
        if clipping != "flat":
            problems.append(
                f"engine 'opacus-ghost' has clipping = 'flat' only, got '{clipping}'; use engine = 'auto'"
            )
        if problems:
            raise SpecError(problems, field="engine", value=self.name, allowed=("auto", "opacus"))
        super().__init__([p for p in model.parameters() if p.requires_grad], clipping, physical_batch_size)
        self.why, self._loss = why, loss
        self._hooked = GradSampleModuleFastGradientClipping(model, loss_reduction="sum")

    def _clip(self, x: Tensor, y: Tensor, clip: float, onto: list[Tensor], share: float) -> Clipped:
        losses, norms = self._backward(x, y, retain_graph=True)
        factors = clip_factors([norms], clip, "flat", share)
        clipped = Clipped(onto, norms, losses.detach(), factors.longer, factors.nonfinite)
        if factors.nonfinite:  # the only wait of this engine off the CPU
            # A factor of 0 does not remove NaN or infinity in the second pass: leave the examples out.
            good = torch.isfinite(norms).nonzero().flatten()
            self.clipped_sum(x[good], y[good], clip, onto, share)
            return clipped
        self._hooked.disable_hooks()
        try:
            found = torch.autograd.grad(losses, self.weights, factors.layers[0], materialize_grads=True)
        finally:
            self._hooked.enable_hooks()
        torch._foreach_add_(onto, found)
        return clipped

    def _norms(self, x: Tensor, y: Tensor) -> Tensor:
        return self._backward(x, y, retain_graph=False)[1]

    def _per_example(self, x: Tensor, y: Tensor) -> list[Tensor]:
        raise SpecError(
            "engine 'opacus-ghost' never forms per-example gradients; use engine = 'opacus'",
            field="engine",
            value=self.name,
            allowed=("opacus",),
        )

    def release(self) -> None:
        """See Engine."""
        forget_activations(self._hooked.to_standard_module())
        for weight in self.weights:
            if hasattr(weight, "_norm_sample"):
                del weight._norm_sample

    def _backward(self, x: Tensor, y: Tensor, retain_graph: bool) -> tuple[Tensor, Tensor]:
        """The losses, with their graph, and the norms."""
        for weight in self.weights:
            weight._norm_sample = None  # type: ignore[attr-defined]
            # Backward would add to it.
            weight.grad = None
        losses = self._loss(self._hooked(x), y)
        torch.autograd.backward(losses.sum(), retain_graph=retain_graph)
        squares = losses.new_zeros(len(x)).detach()
        for weight in self.weights:
            weight.grad = None
            # None if the loss does not depend on the weight.
            norms: Tensor | None = weight._norm_sample  # type: ignore[attr-defined]
            if norms is not None:
                squares += norms.detach().flatten().square()
        return losses, squares.sqrt()
