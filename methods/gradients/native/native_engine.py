"""Engine 'native': book-keeping with convolutions, normalisations and short chains by C code of ours."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from methods.gradients.base import Clipped, Clipping, Loss, all_finite
from methods.gradients.bookkeeping import BookkeepingEngine, leave_out
from methods.gradients.contributions import Call, Contribution, joined
from methods.gradients.graph import WithoutGraph
from methods.gradients.layers import by_layer
from methods.gradients.native import library
from methods.gradients.native.chained import clip_chain, is_short
from methods.gradients.native.convolved import Convolved, convolve, fits, nothing, run
from methods.gradients.native.normalised import is_ours, normalise
from methods.gradients.native.pooled import find_pools, pooling
from methods.gradients.rules import contribute


class NativeEngine(BookkeepingEngine):
    """Book-keeping whose convolutions, group normalisations and chains of short linear layers are our code's.

    It forms an example's gradient of a convolution in the cache and adds it, clipped, to the sum: nothing is
    stored. It also computes the max pools of a pass, all on one thread. All else is as in book-keeping: other
    layers and devices, and clipping by layer. Which of the two depends on the model and its layout alone.
    """

    name = "native"

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        clipping: Clipping = "flat",
        physical_batch_size: int | None = None,
        why: str = "requested",
    ) -> None:
        """Put hooks on `model`; SpecError for models that the engine does not support, or if the code cannot
        be compiled here."""
        super().__init__(model, loss, clipping, physical_batch_size, why)
        if library.computes(self.weights[0]):
            library.load(self.weights[0].dtype)  # compiled now, or refused
        self._pools = find_pools(model)
        self._short = clipping == "flat" and self._chain is not None and is_short(self._chain)

    def _clip(self, x: Tensor, y: Tensor, clip: float, onto: list[Tensor], share: float) -> Clipped:
        if self._short and (found := self._by_chain(x, y, clip, onto, share)):
            return found
        return super()._clip(x, y, clip, onto, share)

    def _by_chain(
        self, x: Tensor, y: Tensor, clip: float, onto: list[Tensor], share: float
    ) -> Clipped | None:
        """`_clip` of a chain; None, and nothing is added, if a gradient is not finite."""
        assert self._chain is not None
        with WithoutGraph():
            values = self._chain.forward(x, y)
            if values is None:
                return None
            losses, gradient, _ = self._slope(values.pop(), y)
            norms = clip_chain(self._chain, values, gradient, clip, share, by_layer(onto, self.layers))
        return None if norms is None else Clipped(onto, norms, losses, clip, 0)

    def _pass(self, x: Tensor, y: Tensor) -> tuple[Tensor, Sequence[Tensor | None]]:
        with pooling(self._pools):
            return super()._pass(x, y)

    @staticmethod
    def _contribute(call: Call) -> Contribution:
        module = call.layer.module
        if fits(module) and "weight" in call.layer.weights:
            return convolve(module, call)
        if is_ours(module) and call.a.dim() == 4:
            return normalise(module, call)
        return contribute(call)

    def _sum(
        self, losses: Tensor, parts: Sequence[Contribution], clip: float, onto: list[Tensor], share: float
    ) -> Clipped:
        inside = [part for part in parts if isinstance(part, Convolved)]
        if not inside or self.clipping != "flat":
            return super()._sum(losses, parts, clip, onto, share)
        others = [part for part in parts if not isinstance(part, Convolved)]
        rest = joined([part.norms() for part in others]) if others else nothing(inside[0].b)
        found = run(inside, rest, clip=clip, share=share, sums=True)
        factors, nonfinite = [found.factors] * len(others), 0
        beyond: Tensor | float = clip
        if not all_finite(found.norms):
            good = torch.isfinite(found.norms)
            others, factors = leave_out(others, factors, good)
            beyond, nonfinite = (found.norms > clip) & good, int((~good).sum())
        sums, kept = iter(found.sums), zip(others, factors, strict=True)
        for part, own in zip(parts, by_layer(onto, self.layers), strict=True):
            if isinstance(part, Convolved):
                part.deliver(next(sums), own)
            else:
                other, factor = next(kept)
                other.add_to(own, factor)
        return Clipped(onto, found.norms, losses, beyond, nonfinite)
