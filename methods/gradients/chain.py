"""Models that end in a chain of linear layers: both passes are explicit, without hooks or autograd."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from methods.base import Differentiated, Loss
from methods.gradients.contributions import Outer, row_norms
from methods.gradients.graph import WithoutGraph
from workloads.errors import SpecError

# Fewer outputs than these are quicker by columns: in their product, their losses and their sums (measured).
FEW_OUTPUTS = 64
# Allowed deviation of a declared gradient from autograd, relative to its norm and absolute.
TOLERANCE = 0.01
ROUNDING = 1e-5


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

    weight: Tensor
    """The parameter itself: asking the module for it takes microseconds of every step (measured)."""
    bias: Tensor | None
    trains: tuple[bool, bool]
    """Whether the weight and the bias are trained."""
    activation: Activation | None = None

    def forward(self, a: Tensor, by_columns: bool = False) -> Tensor:
        """The output, in its own memory, laid out by rows or by columns."""
        weight, bias = self.weight, self.bias
        if by_columns:
            z = (weight @ a.t() if bias is None else torch.addmm(bias.unsqueeze(1), weight, a.t())).t()
        else:
            z = functional.linear(a, weight, bias)
        return z if self.activation is None else self.activation.apply_(z)

    def backward(self, gradient: Tensor, output: Tensor) -> Tensor:
        """From the gradient of the output to that of the linear layer's output."""
        return gradient if self.activation is None else self.activation.backward(gradient, output)


class Slope:
    """Losses of a batch and their gradient by the outputs, declared by the loss or by autograd.

    The declared gradient of the first batch is compared with autograd's: a wrong one would train another
    model, and one that mixes examples would not bound the sensitivity. Off the CPU, where reading a batch
    would wait for the device, made-up examples are compared.
    """

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self._declared = loss.with_gradient if isinstance(loss, Differentiated) else None
        self._checked = False

    def __call__(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor, bool]:
        """The losses, the gradient, and whether the caller may overwrite it."""
        found = None if self._declared is None else self._declared(output, y)
        if found is None:
            return *self._by_autograd(output, y), False
        if not self._checked:
            self._check(*(output, y) if output.device.type == "cpu" else made_up(output, y))
        return *found, True

    def _by_autograd(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient may be shared, or one row for all."""
        with torch.enable_grad():
            output = output.detach().requires_grad_()
            losses = self._loss(output, y)
            # Of the sum: a gradient that is given loads sympy, to compare its shape.
            (gradient,) = torch.autograd.grad(losses.sum(), output)
        return losses.detach(), gradient

    def _check(self, output: Tensor, y: Tensor) -> None:
        found = None if self._declared is None else self._declared(output, y)
        if found is None:
            return
        declared, expected = found[1], self._by_autograd(output, y)[1]
        size = float(torch.linalg.vector_norm(expected))
        if not math.isfinite(size):
            return  # the next batch
        if not float(torch.linalg.vector_norm(declared - expected)) <= TOLERANCE * size + ROUNDING:
            raise SpecError(
                f"the gradient that {type(self._loss).__name__} declares is not autograd's: correct its "
                "`with_gradient`, or leave it out",
                field="loss",
                value=type(self._loss).__name__,
            )
        self._checked = True


def made_up(output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs and labels of the same kind on the CPU, as many as there are outputs."""
    classes = output.shape[1]
    outputs = torch.randn(classes, classes, generator=torch.Generator().manual_seed(0), dtype=output.dtype)
    return outputs, torch.arange(classes).to(y.dtype).view(-1, *[1] * (y.dim() - 1))


@dataclass(frozen=True)
class Chain:
    """The modules before the first trainable layer, and the links from there to the end."""

    before: list[nn.Module]
    links: list[Link]

    def contributions(self, x: Tensor, y: Tensor, slope: Slope) -> tuple[Tensor, list[Outer]] | None:
        """The losses and every layer's contribution; None if the chain gets several rows per example."""
        with WithoutGraph():
            norms: list[Tensor] = []
            values = self.forward(x, y, norms)
            if values is None:
                return None
            output = values.pop()
            losses, gradient, own = slope(output, y)
            return losses, self._backward(values, norms, output, gradient, own)

    def forward(self, x: Tensor, y: Tensor, norms: list[Tensor] | None = None) -> list[Tensor] | None:
        """The inputs of all links, whose norms are added to `norms`, and the output.

        None if the chain gets several rows per example.
        """
        for module in self.before:
            x = module(x)
        if x.dim() != 2 or x.shape[0] != y.shape[0]:
            return None
        values = [x]
        for link in self.links:
            if norms is not None:  # now, while the input is cached
                norms.append(row_norms(values[-1]))
            by_columns = link is self.links[-1] and link.weight.shape[0] < FEW_OUTPUTS
            values.append(link.forward(values[-1], by_columns))
        return values

    def _backward(
        self, inputs: list[Tensor], norms: list[Tensor], output: Tensor, gradient: Tensor, own: bool
    ) -> list[Outer]:
        """Every trained layer's contribution, from the inputs of all links and the end of the chain.

        `own`: whether the gradient may be overwritten.
        """
        parts = []
        last = len(self.links) - 1
        for place in range(last, -1, -1):
            link, a = self.links[place], inputs[place]
            b = link.backward(gradient, output)
            if any(link.trains):
                parts.append(Outer(a, b, *link.trains, norms[place], spare=own or place < last))
            if place > 0:
                gradient, output = b @ link.weight, a
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
            bias = module.bias is not None and module.bias.requires_grad
            links.append(Link(module.weight, module.bias, (module.weight.requires_grad, bias)))
        elif links and links[-1].activation is None and type(module) in ACTIVATIONS:
            links[-1] = replace(links[-1], activation=ACTIVATIONS[type(module)])
        else:
            return None
    # The gradients of a layer that is used twice would have to be added.
    return Chain(before, links) if len({link.weight for link in links}) == len(links) else None


def in_order(module: nn.Module) -> list[nn.Module]:
    """The modules that a model calls in sequence, as far as known."""
    if type(module) is nn.Sequential and not is_changed(module):
        return [each for child in module for each in in_order(child)]
    return [module]


def is_changed(module: nn.Module) -> bool:
    """Whether a call of the module does more than its type suggests."""
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return any(hooks) or bool(module._backward_pre_hooks) or "forward" in vars(module)
