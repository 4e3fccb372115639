"""Models that end in a chain of linear layers: both passes are explicit, without hooks or autograd."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from methods.gradients.contributions import Outer, row_norms


@dataclass(frozen=True)
class Activation:
    """An element-wise function whose derivative follows from its value."""

    apply_: Callable[[Tensor], Tensor]
    """In place."""
    backward: Callable[[Tensor, Tensor], Tensor]
    """From the gradient of the output and the output to the gradient of the input."""


def _relu_backward(gradient: Tensor, output: Tensor) -> Tensor:
    pulled: Tensor = torch.ops.aten.threshold_backward(gradient, output, 0)
    return pulled


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.ReLU: Activation(torch.relu_, _relu_backward),
    nn.Tanh: Activation(torch.tanh_, torch.ops.aten.tanh_backward),
    nn.Sigmoid: Activation(torch.sigmoid_, torch.ops.aten.sigmoid_backward),
}


@dataclass(frozen=True)
class Link:
    """A linear layer and the activation behind it."""

    layer: nn.Linear
    activation: Activation | None = None

    def forward(self, a: Tensor) -> Tensor:
        """The output, in its own memory."""
        weight, bias = self.layer.weight, self.layer.bias
        z = a @ weight.t() if bias is None else torch.addmm(bias, a, weight.t())
        return z if self.activation is None else self.activation.apply_(z)

    def backward(self, gradient: Tensor, output: Tensor) -> Tensor:
        """From the gradient of the output to that of the linear layer's output."""
        return gradient if self.activation is None else self.activation.backward(gradient, output)

    def trains(self) -> tuple[bool, bool]:
        """Whether the weight and the bias are trained."""
        bias = self.layer.bias
        return self.layer.weight.requires_grad, bias is not None and bias.requires_grad


@dataclass(frozen=True)
class Chain:
    """The modules before the first trainable layer, and the links from there to the end."""

    before: list[nn.Module]
    links: list[Link]

    def contributions(
        self, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
    ) -> tuple[Tensor, list[Outer]] | None:
        """The losses and every layer's contribution; None if the chain gets several rows per example."""
        with torch.no_grad():
            for module in self.before:
                x = module(x)
            if x.dim() != 2 or x.shape[0] != y.shape[0]:
                return None
            values, norms = [x], []
            for link in self.links:
                # Now, while the input is cached.
                norms.append(row_norms(values[-1]))
                values.append(link.forward(values[-1]))
        output = values.pop().requires_grad_()
        losses = loss(output, y)
        (gradient,) = torch.autograd.grad(losses, output, torch.ones_like(losses))
        return losses.detach(), self._backward(values, norms, output.detach(), gradient)

    @torch.no_grad()
    def _backward(
        self, inputs: list[Tensor], norms: list[Tensor], output: Tensor, gradient: Tensor
    ) -> list[Outer]:
        """Every trained layer's contribution, from the inputs of all links and the end of the chain."""
        parts = []
        last = len(self.links) - 1
        for place in range(last, -1, -1):
            link, a = self.links[place], inputs[place]
            b = link.backward(gradient, output)
            if any(link.trains()):
                # The loss may return a gradient that is shared, or one row for all.
                parts.append(Outer(a, b, *link.trains(), norms[place], spare=place < last))
            if place > 0:
                gradient, output = b @ link.layer.weight, a
        return parts[::-1]


def find_chain(model: nn.Module) -> Chain | None:
    """The chain a model ends in; None if its trainable part is anything else.

    By exact types and only without hooks: a subclass or a hook may do anything.
    """
    modules = in_order(model)
    trains = [any(weight.requires_grad for weight in module.parameters()) for module in modules]
    before, rest = modules[: trains.index(True)], modules[trains.index(True) :]
    links: list[Link] = []
    for module in rest:
        if is_changed(module):
            return None
        if type(module) is nn.Linear:
            links.append(Link(module))
        elif links and links[-1].activation is None and type(module) in ACTIVATIONS:
            links[-1] = replace(links[-1], activation=ACTIVATIONS[type(module)])
        else:
            return None
    # The gradients of a layer that is used twice would have to be added.
    return Chain(before, links) if len({link.layer for link in links}) == len(links) else None


def in_order(module: nn.Module) -> list[nn.Module]:
    """The modules that a model calls in sequence, as far as known."""
    if type(module) is nn.Sequential and not is_changed(module):
        return [each for child in module for each in in_order(child)]
    return [module]


def is_changed(module: nn.Module) -> bool:
    """Whether a call of the module does more than its type suggests."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return any(hooks) or bool(module._backward_pre_hooks) or "forward" in vars(module)
