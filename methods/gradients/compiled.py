"""Book-keeping with both passes compiled by torch.compile, for GPUs, where many small kernels are slow."""

import shutil
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from methods.gradients.base import Clipping, Loss
from methods.gradients.bookkeeping import BookkeepingEngine, set_trainable
from methods.gradients.contributions import Arena, Call, Contribution
from methods.gradients.layers import Layer
from methods.gradients.rules import READS_OUTPUT, contribute
from workloads.errors import SpecError


class FunctionalModel:
    """A model as a function without side effects, as a compiler requires.

    Zeros are added to every layer's output. Their gradients are those of the outputs, which autograd computes
    without our code in the middle of the backward pass (as in methods.gradients.capture).
    """

    def __init__(self, model: nn.Module, layers: list[Layer]) -> None:
        self._model = model
        self._zeros: list[Tensor] | None = None
        self._calls: list[tuple[int, Tensor, Tensor]] | None = None
        self._handles = [
            layer.module.register_forward_hook(partial(self._record, index))
            for index, layer in enumerate(layers)
        ]

    def __call__(
        self, x: Tensor, zeros: list[Tensor] | None
    ) -> tuple[Tensor, list[tuple[int, Tensor, Tensor]]]:
        """The model's output, and the number, input and output of every layer call, in order."""
        self._zeros, self._calls = zeros, []
        output = self._model(x)
        calls, self._zeros, self._calls = self._calls, None, None
        return output, calls

    def release(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()

    def _record(
        self, index: int, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> Tensor | None:
        if self._calls is None:
            return None
        # The model continues with a copy, so that it cannot change the kept output.
        onward = output if self._zeros is None else output + self._zeros[len(self._calls)]
        self._calls.append((index, inputs[0].detach(), output.detach()))
        return onward


class CompiledEngine(BookkeepingEngine):
    """Book-keeping with passes fused by torch.compile; rules and sums are the same.

    Which code runs depends on the batch alone, never on what ran before: the first batch is checked against
    autograd by the plain passes and then computed like all others, so a resumed run has the same bits.
    Compiling takes a minute of the first step. Chains of linear layers have nothing to compile.
    """

    name = "compiled"

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        clipping: Clipping = "flat",
        physical_batch_size: int | None = None,
        why: str = "requested",
    ) -> None:
        """Put hooks on `model`; SpecError for models that the engine does not support."""
        super().__init__(model, loss, clipping, physical_batch_size, why)
        host = self.weights[0].device.type == "cpu"
        wanted = ("c++", "g++") if host else ("cc", "gcc")  # Triton compiles what starts a GPU's kernels
        if not any(map(shutil.which, wanted)):
            raise SpecError(
                f"engine 'compiled' needs a {'C++' if host else 'C'} compiler, but found neither "
                f"{' nor '.join(wanted)}; install one, or use engine = 'bookkeeping'",
                field="engine",
                value=self.name,
                allowed=("bookkeeping",),
            )
        self._tap = FunctionalModel(model, self.layers)
        self._compiled: Any = torch.compile(self._tap.__call__, fullgraph=True)
        self._arena = Arena()
        self._seen: dict[torch.Size, list[Tensor]] = {}

    def release(self) -> None:
        """See Engine."""
        super().release()
        self._tap.release()

    def _captured(self, x: Tensor, y: Tensor) -> tuple[Tensor, list[Contribution]]:
        if not self._checked:
            super()._captured(x, y)
        set_trainable(self.weights, False)
        try:
            losses, calls = self._traced(x, y)
        finally:
            set_trainable(self.weights, True)
        uses: list[list[Contribution]] = [[] for _ in self.layers]
        for index, call in calls:
            uses[index].append(contribute(call))
        return losses, self._summed(uses, x.shape[0])

    def _traced(self, x: Tensor, y: Tensor) -> tuple[Tensor, list[tuple[int, Call]]]:
        """The losses, and every layer call that they depend on with the layer's number."""
        zeros = [zeros_like(output, x.shape[0]) for output in self._outputs(x)]
        if x.shape[0] > 1:  # the compiler specialises on sizes 0 and 1
            for tensor in (x, *zeros):
                torch._dynamo.mark_dynamic(tensor, 0)
        try:
            logits, recorded = self._compiled(x, zeros)
        except torch._dynamo.exc.TorchDynamoException as error:
            reason = str(error).strip().splitlines()[0]
            raise SpecError(
                f"torch.compile does not support this model ({reason}); use engine = 'bookkeeping'",
                field="engine",
                value=self.name,
                allowed=("bookkeeping",),
            ) from error
        losses = self._loss(logits, y)
        gradients = torch.autograd.grad(losses, zeros, torch.ones_like(losses), allow_unused=True)
        self._arena.reset()
        calls = [
            (index, self._call(self.layers[index], a, output, b))
            for (index, a, output), b in zip(recorded, gradients, strict=True)
            if b is not None
        ]
        return losses.detach(), calls

    def _call(self, layer: Layer, a: Tensor, output: Tensor, b: Tensor) -> Call:
        return Call(layer, a, output if isinstance(layer.module, READS_OUTPUT) else None, b, self._arena)

    def _outputs(self, x: Tensor) -> list[Tensor]:
        """One example's output of every layer call, for its shape; cached by the shape of x."""
        shape = x.shape[1:]
        if shape not in self._seen:
            with torch.no_grad():
                _, calls = self._tap(x[:1], None)
            self._seen[shape] = [output for _, _, output in calls]
        return self._seen[shape]


def zeros_like(output: Tensor, batch: int) -> Tensor:
    """Zeros for a batch of such outputs, in the same layout."""
    last = output.dim() == 4 and output.stride(1) == 1
    layout = torch.channels_last if last else torch.contiguous_format
    zeros = output.new_zeros(batch, *output.shape[1:])
    return zeros.contiguous(memory_format=layout).requires_grad_()
