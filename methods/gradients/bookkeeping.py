"""Clipped sums from one forward and one backward pass, by book-keeping of every layer."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from methods.gradients.base import BatchEngine, Clipped, Clipping, Loss, all_finite, clip_factors
from methods.gradients.capture import Capture
from methods.gradients.chain import Slope, find_chain
from methods.gradients.contributions import Absent, Call, Contribution, joined
from methods.gradients.layers import Layer, by_layer, refuse_mixing_layers, tied_weights, trainable_layers
from methods.gradients.rules import contribute, find_problem, stores, sum_uses
from workloads.errors import SpecError

# Maximum bytes of stored gradients: on a CPU close to the cache size, elsewhere many examples per call.
STORED_ON_CPU = 128 * 2**20
# Fixed, not relative to the card's memory: the order of sums, and so the bits, depends on it.
STORED_ELSEWHERE = 512 * 2**20
# Allowed deviation of the first batch from autograd, relative to the sum of the gradients' norms.
TOLERANCE = 0.01


class BookkeepingEngine(BatchEngine):
    """Book-keeping (Bu et al. 2023): layer inputs and output gradients give norms, then the weighted sum.

    Autograd computes no weight gradients, so the cost is that of a plain step plus the norms. Layers whose
    per-example gradients are formed (convolutions) store them for as many examples as fit into a fixed number
    of bytes, which sets the physical batch size unless one is given. The first batch is compared with
    autograd. Chains of linear layers need neither hooks nor autograd (methods.gradients.chain).
    """

    name = "bookkeeping"

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        clipping: Clipping = "flat",
        physical_batch_size: int | None = None,
        why: str = "requested",
    ) -> None:
        """Put hooks on `model`; SpecError for models that the engine does not support."""
        problems = find_problems(model)
        if problems:
            raise SpecError(problems, field="engine", value=self.name, allowed=("opacus",))
        self.layers = trainable_layers(model)
        weights = [weight for layer in self.layers for weight in layer.weights.values()]
        physical = physical_batch_size or affordable_batch(self.layers)
        super().__init__(weights, clipping, physical)
        self.why, self._model, self._loss = why, model, loss
        self._chain, self._slope = find_chain(model), Slope(loss)
        self._capture = Capture(self.layers, self._contribute)
        self._checked = False

    def _clip(self, x: Tensor, y: Tensor, clip: float, onto: list[Tensor], share: float) -> Clipped:
        losses, parts = self._contributions(x, y)
        return self._sum(losses, parts, clip, onto, share)

    def _sum(
        self, losses: Tensor, parts: Sequence[Contribution], clip: float, onto: list[Tensor], share: float
    ) -> Clipped:
        """`clipped_sum` from the contributions of every layer."""
        factors = clip_factors([part.norms() for part in parts], clip, self.clipping, share)
        weights = factors.layers
        if factors.good is not None:
            parts, weights = leave_out(parts, weights, factors.good)
        for part, own, factor in zip(parts, by_layer(onto, self.layers), weights, strict=True):
            part.add_to(own, factor)
        return Clipped(onto, factors.norms, losses, factors.longer, factors.nonfinite)

    def _norms(self, x: Tensor, y: Tensor) -> Tensor:
        return joined([part.norms() for part in self._contributions(x, y)[1]])

    def _per_example(self, x: Tensor, y: Tensor) -> list[Tensor]:
        return [each for part in self._contributions(x, y)[1] for each in part.examples()]

    def release(self) -> None:
        """See Engine."""
        self._capture.release()

    def _contributions(self, x: Tensor, y: Tensor) -> tuple[Tensor, Sequence[Contribution]]:
        """The losses and every layer's contribution, from one pass each way."""
        by_hand = self._chain.contributions(x, y, self._slope) if self._chain else None
        return by_hand or self._captured(x, y)

    def _captured(self, x: Tensor, y: Tensor) -> tuple[Tensor, list[Contribution]]:
        """The losses and contributions of any model, by hooks on autograd."""
        uses = self._capture.start(x.shape[0])
        try:
            losses, expected = self._pass(x, y)
        finally:
            self._capture.stop()
        captured = [[use.contribution for use in each] for each in uses]
        parts = self._summed([[part for part in each if part is not None] for each in captured], x.shape[0])
        if not self._checked:
            self._checked = self._check(parts, expected)
        return losses.detach(), parts

    @staticmethod
    def _contribute(call: Call) -> Contribution:
        """The contribution of one call of a layer."""
        return contribute(call)

    def _summed(self, uses: Sequence[list[Contribution]], batch: int) -> list[Contribution]:
        """The contribution of every layer, summed over its calls."""
        return [
            sum_uses(each) if each else Absent(batch, list(layer.weights.values()))
            for each, layer in zip(uses, self.layers, strict=True)
        ]

    def _pass(self, x: Tensor, y: Tensor) -> tuple[Tensor, Sequence[Tensor | None]]:
        """The losses after both passes, with autograd's weight gradients for the first batch."""
        if not self._checked:
            losses = self._loss(self._model(x), y)
            return losses, torch.autograd.grad(losses.sum(), self.weights, allow_unused=True)
        set_trainable(self.weights, False)
        try:
            losses = self._loss(self._model(x), y)
            torch.autograd.backward(losses, torch.ones_like(losses))
        finally:
            set_trainable(self.weights, True)
        return losses, ()

    def _check(self, parts: Sequence[Contribution], expected: Sequence[Tensor | None]) -> bool:
        """Compare the unclipped sum with autograd's gradient; False if that is not finite.

        The hooks would silently miss a weight that is used outside its layer's call.
        """
        norms = joined([part.norms() for part in parts])
        if not all_finite(norms):
            return False
        # Gradients that are only rounding errors differ by as much as they are large.
        rounding = len(norms) * torch.finfo(norms.dtype).eps ** 0.5
        allowed = TOLERANCE * float(norms.sum()) + rounding
        gradients = iter(expected)
        wrong: dict[str, str] = {}
        for layer, part in zip(self.layers, parts, strict=True):
            sums = [weight.detach().new_zeros(weight.shape) for weight in layer.weights.values()]
            part.add_to(sums, torch.ones_like(norms))
            for summed in sums:
                gradient = next(gradients)
                missing = summed if gradient is None else summed - gradient
                if not float(torch.linalg.vector_norm(missing)) <= allowed:
                    wrong[layer.name] = (
                        f"{layer}: its gradient is not autograd's; call the layer itself wherever its "
                        "weights are used"
                    )
        if wrong:
            raise SpecError(list(wrong.values()), field="layer", value=tuple(wrong))
        return True


def find_problems(model: nn.Module) -> list[str]:
    """Why the engine does not support a model; empty if it does. SpecError if a layer mixes examples."""
    refuse_mixing_layers(model)
    unknown = [problem for layer in trainable_layers(model) if (problem := find_problem(layer)) is not None]
    tied = [
        f"tied weights {names}: engine 'bookkeeping' needs one layer per weight; use engine = 'opacus'"
        for names in tied_weights(model)
    ]
    return [*unknown, *tied]


def leave_out(
    parts: Sequence[Contribution], weights: list[Tensor], good: Tensor
) -> tuple[list[Contribution], list[Tensor]]:
    """Contributions and factors without the examples that are not good.

    A factor of 0 does not remove NaN or infinity in a weighted sum.
    """
    if good.device.type != "cpu":  # how many are left is not known without waiting
        return [part.mask(good) for part in parts], weights
    rows = good.nonzero().flatten()
    return [part.take(rows) for part in parts], [factor[rows] for factor in weights]


def affordable_batch(layers: list[Layer]) -> int | None:
    """The number of examples whose stored gradients fit into memory; None if nothing is stored."""
    weights = [w for layer in layers if stores(layer.module) for w in layer.weights.values()]
    if not weights:
        return None
    limit = STORED_ON_CPU if weights[0].device.type == "cpu" else STORED_ELSEWHERE
    return max(1, limit // sum(weight.numel() * weight.element_size() for weight in weights))


def set_trainable(weights: list[nn.Parameter], trainable: bool) -> None:
    """Set whether autograd computes gradients of these weights."""
    for weight in weights:
        weight.requires_grad_(trainable)
