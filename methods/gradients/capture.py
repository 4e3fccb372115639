"""Capture the input of every layer and the gradient of its output, in one pass each way."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from methods.gradients.contributions import Arena, Call, Contribution
from methods.gradients.layers import Layer
from methods.gradients.rules import READS_OUTPUT
from workloads.errors import SpecError


class Use:
    """One call of a layer: its input, until the gradient of its output comes back."""

    def __init__(
        self, layer: Layer, a: Tensor, arena: Arena, contribute: Callable[[Call], Contribution]
    ) -> None:
        self.layer, self.arena, self._contribute = layer, arena, contribute
        self.used = vars(layer.module).pop("used", None)
        self.a, self.a_version = a, a._version
        self.y: Tensor | None = None
        self.y_version = 0
        self.contribution: Contribution | None = None

    def tap(self, output: Tensor, anchor: Tensor) -> Tensor:
        """The output of the call, with a Tap behind it."""
        tapped: Tensor = Tap.apply(output, anchor, self)  # type: ignore[no-untyped-call]
        if isinstance(self.layer.module, READS_OUTPUT):
            self.y, self.y_version = tapped.detach(), tapped._version
        return tapped

    def finish(self, b: Tensor) -> None:
        """Turn input and output gradient into a contribution at once, to free the rest."""
        if self.a._version != self.a_version:
            raise SpecError(
                f"{self.layer}: its input was changed in place after the call; give it its own tensor",
                field="layer",
                value=self.layer.name,
            )
        intact = self.y is not None and self.y._version == self.y_version
        call = Call(self.layer, self.a, self.y if intact else None, b, self.arena, self.used)
        self.contribution = self._contribute(call)
        del self.a, self.y, self.used


class Tap(torch.autograd.Function):
    """Identity that passes the gradient flowing back through it to a Use."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, anchor: Tensor, use: Use) -> Tensor:
        """`anchor` requires gradients, so that the result does even if nothing before it does."""
        ctx.use = use
        # In place, not a view: the model may continue with in-place activations.
        ctx.mark_dirty(output)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        """Pass the gradient on."""
        ctx.use.finish(gradients[0])
        return gradients[0], None, None


class Capture:
    """Hooks on the layers of a model, active only between `start` and `stop`."""

    def __init__(self, layers: list[Layer], contribute: Callable[[Call], Contribution]) -> None:
        self.layers, self._contribute = layers, contribute
        self._batch: int | None = None
        self._uses: list[list[Use]] = []
        self._arena = Arena()
        self._anchor = torch.zeros((), requires_grad=True)
        self._handles = [
            layer.module.register_forward_hook(partial(self._hear, index, layer))
            for index, layer in enumerate(layers)
        ]

    def start(self, batch: int) -> list[list[Use]]:
        """Capture the next forward and backward pass over `batch` examples; the uses of every layer."""
        self._batch, self._uses = batch, [[] for _ in self.layers]
        self._arena.reset()
        return self._uses

    def stop(self) -> None:
        """Stop capturing."""
        self._batch, self._uses = None, []

    def release(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()

    def _hear(
        self, index: int, layer: Layer, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> Tensor | None:
        if self._batch is None:
            return None
        a = inputs[0].detach()
        if a.shape[0] != self._batch or output.shape[0] != self._batch:
            raise SpecError(
                f"{layer} gets {a.shape[0]} rows for {self._batch} examples; keep one row per example in the "
                "first dimension, so that every gradient belongs to one example",
                field=str(layer),
                value=a.shape[0],
                allowed=self._batch,
            )
        use = Use(layer, a, self._arena, self._contribute)
        self._uses[index].append(use)
        return use.tap(output, self._anchor)
