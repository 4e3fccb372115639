"""Gradients of the mean loss by an engine's own passes: no norms of examples, no clipping, no noise."""

import torch
from torch import Tensor, nn

from methods.base import Loss
from methods.gradients.chain import FEW_OUTPUTS, Slope, find_chain


class MeanGradient:
    """The gradient of a batch's mean loss, computed as the engines do.

    Chains of linear layers are computed by hand, without autograd (methods.gradients.chain). Elsewhere the
    engines use autograd themselves, and a sum without clipping is its gradient: `weights` is then empty.
    """

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        self._chain, self._slope = find_chain(model), Slope(loss)
        links = self._chain.links if self._chain else []
        self.weights: list[nn.Parameter] = [
            weight
            for link in links
            for weight, trains in zip((link.weight, link.bias), link.trains, strict=True)
            if trains and isinstance(weight, nn.Parameter)
        ]

    @torch.no_grad()
    def __call__(self, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]] | None:
        """The mean loss and its gradient, one for each of `weights`; None: by autograd."""
        if self._chain is None:
            return None
        for module in self._chain.before:
            x = module(x)
        if x.dim() != 2 or x.shape[0] != y.shape[0]:
            return None
        links, inputs = self._chain.links, [x]
        for link in links[:-1]:
            inputs.append(link.forward(inputs[-1]))
        output = links[-1].forward(inputs[-1], by_columns=links[-1].weight.shape[0] < FEW_OUTPUTS)
        losses, slope, _ = self._slope(output, y)
        slope = slope / x.shape[0]
        found: list[Tensor] = []
        for place in range(len(links) - 1, -1, -1):
            link, a = links[place], inputs[place]
            b = link.backward(slope, output)
            weight, bias = link.trains
            found = [*([b.t() @ a] if weight else []), *([b.sum(dim=0)] if bias else []), *found]
            if place > 0:
                slope, output = b @ link.weight, a
        return losses.mean(), found
