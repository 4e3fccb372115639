"""Models that end in a chain of linear layers: both passes by hand, without hooks and without a graph."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from methods.gradients.contributions import Outer, row_norms


@dataclass(frozen=True)
class Activation:
    """A function of every entry by itself, whose slope follows from its value."""

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
        """The output, in memory of its own."""
        weight, bias = self.layer.weight, self.layer.bias
        z = a @ weight.t() if bias is None else torch.addmm(bias, a, weight.t())
        return z if self.activation is None else self.activation.apply_(z)

    def backward(self, gradient: Tensor, output: Tensor) -> Tensor:
        """From the gradient of the output to the gradient of what the layer itself gives."""
        return gradient if self.activation is None else self.activation.backward(gradient, output)

    def trains(self) -> tuple[bool, bool]:
        """Whether the weight and the bias are trained."""
        bias = self.layer.bias
        return self.layer.weight.requires_grad, bias is not None and bias.requires_grad


@dataclass(frozen=True)
class Chain:
    """What the model does before its first trainable layer, and the links from there to its end."""

    before: list[nn.Module]
    links: list[Link]

    def contributions(
        self, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
    ) -> tuple[Tensor, list[Outer]] | None:
        """The losses and every layer's contribution; None where the chain gets more than a row an example."""
        with torch.no_grad():
            for module in self.before:
                x = module(x)
            if x.dim() != 2 or x.shape[0] != y.shape[0]:
                return None
            values, norms = [x], []
            for link in self.links:
                # Now, while the input is in the caches.
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
                # The loss may have given a gradient that is somebody else's, or one row for all.
                parts.append(Outer(a, b, *link.trains(), norms[place], spare=place < last))
            if place > 0:
                gradient, output = b @ link.layer.weight, a
        return parts[::-1]


def find_chain(model: nn.Module) -> Chain | None:
    """The chain a model ends in; None where its trainable part is anything else.

    By exact types and only where nobody listens: a subclass or a hook may do anything.
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
    # A layer that comes twice has two gradients to add up.
    return Chain(before, links) if len({link.layer for link in links}) == len(links) else None


def in_order(module: nn.Module) -> list[nn.Module]:
    """The modules that a model calls one after the other, as far as that can be told."""
    if type(module) is nn.Sequential and not is_changed(module):
        return [each for child in module for each in in_order(child)]
    return [module]


def is_changed(module: nn.Module) -> bool:
    """Whether a call of the module does more than its type says."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return any(hooks) or bool(module._backward_pre_hooks) or "forward" in vars(module)
