"""Rules by type of layer: from its input and the gradient of its output to a Contribution."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from methods.gradients.contributions import Call, Contribution, Outer, Sequences, Stored, gram_is_cheaper
from methods.gradients.convolution import convolve
from methods.gradients.embedding import Lookup
from methods.gradients.layers import Layer
from workloads.models.wrn import StandardisedConv2d

Rule = Callable[[Call], Contribution]


def linear(call: Call) -> Contribution:
    """Rank one for plain inputs; for sequences the cheaper of Gram matrices and stored gradients."""
    a, b = call.a, call.b
    weight, bias = trains(call.layer)
    if a.dim() == 2:
        return Outer(a, b, weight, bias)
    a, b = a.reshape(len(a), -1, a.shape[-1]), b.reshape(len(b), -1, b.shape[-1])
    if not weight:
        return Stored([b.sum(dim=1)])
    sequences = Sequences(a, b, bias)
    cheaper = gram_is_cheaper(a.shape[1], a.shape[2], b.shape[2])
    return sequences if cheaper else Stored(sequences.examples())


def conv2d(call: Call) -> Contribution:
    """See methods.gradients.convolution."""
    return convolve(call, *trains(call.layer))


def group_norm(call: Call) -> Contribution:
    """The scale's gradient is the sum over places of b times the normalised input."""
    module: Any = call.layer.module
    weight, bias = trains(call.layer)
    b = call.b.reshape(*call.b.shape[:2], -1)
    gradients = []
    if weight:
        normal = F.group_norm(call.a, module.num_groups, eps=module.eps).view_as(b)
        gradients.append(normal.mul_(b).sum(dim=2))
    return Stored([*gradients, b.sum(dim=2)] if bias else gradients)


def layer_norm(call: Call) -> Contribution:
    """As group_norm, summed over all places the layer is applied to."""
    module: Any = call.layer.module
    weight, bias = trains(call.layer)
    shape = (len(call.b), -1, *module.normalized_shape)
    gradients = []
    if weight:
        normal = F.layer_norm(call.a, module.normalized_shape, eps=module.eps)
        gradients.append(normal.mul_(call.b).reshape(shape).sum(dim=1))
    return Stored([*gradients, call.b.reshape(shape).sum(dim=1)] if bias else gradients)


def embedding(call: Call) -> Contribution:
    """See methods.gradients.embedding."""
    return Lookup.of(call.layer.module, call.a, call.b)  # type: ignore[arg-type]


def by_opacus(call: Call) -> Contribution:
    """Stored gradients from Opacus's sampler for the layer's type."""
    from opacus.grad_sample import GradSampleModule  # a second of imports that few models need

    layer = call.layer
    # The samplers skip weights that do not require gradients, which the engine has switched off.
    for weight in layer.weights.values():
        weight.requires_grad_(True)
    try:
        sampled = GradSampleModule.GRAD_SAMPLERS[type(layer.module)](layer.module, [call.a], call.b)
    finally:
        for weight in layer.weights.values():
            weight.requires_grad_(False)
    return Stored([sampled[weight].detach() for weight in layer.weights.values()])


RULES: dict[type[nn.Module], Rule] = {
    nn.Linear: linear,
    nn.Conv2d: conv2d,
    StandardisedConv2d: conv2d,
    nn.GroupNorm: group_norm,
    nn.LayerNorm: layer_norm,
    nn.Embedding: embedding,
    nn.Conv1d: by_opacus,
    nn.Conv3d: by_opacus,
    nn.InstanceNorm1d: by_opacus,
    nn.InstanceNorm2d: by_opacus,
    nn.InstanceNorm3d: by_opacus,
    nn.RMSNorm: by_opacus,
}
"""By exact type: a subclass may do anything in its forward. `find_rule` adds the linear layers of Opacus's
DPLSTM."""

RNN_LINEAR = "opacus.layers.dp_rnn.RNNLinear"
"""By name: only a model that has one has loaded Opacus."""


READS_OUTPUT = (StandardisedConv2d,)
"""Types whose rules read the output as well."""


def find_rule(module: nn.Module) -> Rule | None:
    """The rule of a layer, by its exact type; None if it has none."""
    return by_opacus if _is_rnn_linear(module) else RULES.get(type(module))


def contribute(call: Call) -> Contribution:
    """The contribution of one call of a layer, by its rule; `find_problem` has refused layers without."""
    rule = find_rule(call.layer.module)
    if rule is None:
        raise ValueError(f"{call.layer} has no rule")
    return rule(call)


def stores(module: nn.Module) -> bool:
    """Whether the layer's rule may store a gradient per example."""
    return isinstance(module, nn.Conv2d | nn.Conv1d | nn.Conv3d) or _is_rnn_linear(module)


def _is_rnn_linear(module: nn.Module) -> bool:
    return f"{type(module).__module__}.{type(module).__qualname__}" == RNN_LINEAR


def trains(layer: Layer) -> tuple[bool, bool]:
    """Whether the weight and the bias of a layer are trained."""
    return "weight" in layer.weights, "bias" in layer.weights


def find_problem(layer: Layer) -> str | None:
    """Why the layer has no rule; None if it has."""
    module = layer.module
    if find_rule(module) is None:
        known = ", ".join(sorted([*(each.__name__ for each in RULES), "RNNLinear"]))
        return f"{layer} has no rule in engine 'bookkeeping'; use engine = 'opacus', or one of: {known}"
    if isinstance(module, nn.Embedding):
        if module.scale_grad_by_freq:
            # Frequencies of the whole batch: one example's gradient would depend on the others.
            return f"{layer}: scale_grad_by_freq mixes the examples of a batch; set it to False"
        if module.max_norm is not None or module.sparse:
            return f"{layer}: max_norm and sparse are not supported; leave them at their defaults"
    return None


def sum_uses(uses: list[Contribution]) -> Contribution:
    """One contribution of a layer that was called several times: its gradients add up."""
    if len(uses) == 1:
        return uses[0]
    return Stored([torch.stack(each).sum(dim=0) for each in zip(*(u.examples() for u in uses), strict=True)])
