"""Trainable layers and their weights, and layers without per-example gradients."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from workloads.errors import SpecError


@dataclass(frozen=True)
class Layer:
    """A module with its own trainable parameters."""

    name: str
    module: nn.Module
    weights: dict[str, nn.Parameter]
    """The trainable ones by name; each belongs to one layer."""

    def __str__(self) -> str:
        return f"layer '{self.name}' ({type(self.module).__name__})"


def trainable_layers(model: nn.Module) -> list[Layer]:
    """The trainable layers; a shared weight belongs to the first. SpecError if there are none."""
    layers: dict[str, Layer] = {}
    for weight, (first, *_) in _homes(model).items():
        name, _, key = first.rpartition(".")
        layer = layers.setdefault(name, Layer(name, model.get_submodule(name), {}))
        layer.weights[key] = weight
    if not layers:
        raise SpecError(
            "the model has no trainable parameters; let at least one require gradients", field="workload"
        )
    return list(layers.values())


def by_layer(tensors: Iterable[Tensor], layers: Sequence[Layer]) -> list[list[Tensor]]:
    """Group tensors, one per weight, by layer."""
    rest = iter(tensors)
    return [list(islice(rest, len(layer.weights))) for layer in layers]


def tied_weights(model: nn.Module) -> list[str]:
    """Trainable parameters that several layers share, each with all its names."""
    return [" = ".join(f"'{name}'" for name in names) for names in _homes(model).values() if len(names) > 1]


def _homes(model: nn.Module) -> dict[nn.Parameter, list[str]]:
    """Every trainable parameter with its names, one for each module that has it."""
    names: dict[nn.Parameter, list[str]] = {}
    for module_name, module in model.named_modules():
        for key, weight in module.named_parameters(prefix=module_name, recurse=False):
            if weight.requires_grad:
                names.setdefault(weight, []).append(key)
    return {weight: _innermost(each) for weight, each in names.items()}


def _innermost(names: list[str]) -> list[str]:
    """Drop the names on enclosing modules: Opacus's DPLSTM lists the weights of its inner layers."""
    homes = [name.rpartition(".")[0] for name in names]
    return [
        name
        for name, home in zip(names, homes, strict=True)
        if not any(other != home and f"{other}.".startswith(f"{home}." if home else "") for other in homes)
    ]


MEAN = "use x.mean(dim=(2, 3)), or output_size = 1, which is the same"
PAD = "pad with zeros, or pad the records before they reach the model"
UNORDERED: dict[type[nn.Module], str] = {
    nn.AdaptiveAvgPool2d: MEAN,
    nn.AdaptiveAvgPool3d: "use x.mean(dim=(2, 3, 4)), or output_size = 1, which is the same",
    nn.AdaptiveMaxPool2d: "use x.amax(dim=(2, 3)), or MaxPool2d",
    nn.AvgPool3d: "use MaxPool3d, or a convolution with stride",
    nn.FractionalMaxPool2d: "use MaxPool2d",
    nn.FractionalMaxPool3d: "use MaxPool3d",
    nn.ReflectionPad1d: PAD,
    nn.ReflectionPad2d: PAD,
    nn.ReflectionPad3d: PAD,
}
"""Layers with a non-deterministic gradient on CUDA, and their replacements: from torch's list of what raises
under `torch.use_deterministic_algorithms(True)`."""


def refuse_unordered_layers(model: nn.Module) -> None:
    """SpecError for layers whose gradient is non-deterministic on a GPU.

    Torch rejects them too, but in the first backward pass and without naming the layer. Allowed on a CPU.
    """
    if all(weight.device.type == "cpu" for weight in model.parameters()):
        return
    problems = {
        name: f"layer '{name}' ({type(layer).__name__}): its gradient is non-deterministic on a GPU, so the "
        f"same task would not give the same bits; {UNORDERED[type(layer)]}"
        for name, layer in model.named_modules()
        if type(layer) in UNORDERED and not _is_mean(layer)
    }
    if problems:
        raise SpecError(list(problems.values()), field="layer", value=tuple(problems))


def _is_mean(layer: nn.Module) -> bool:
    """Whether it is adaptive pooling to size 1, which torch computes as a mean."""
    pools = isinstance(layer, nn.AdaptiveAvgPool2d | nn.AdaptiveAvgPool3d)
    size = getattr(layer, "output_size", None)
    return pools and all(each == 1 for each in (size if isinstance(size, tuple) else (size,)))


def refuse_mixing_layers(model: nn.Module) -> None:
    """SpecError for layers that mix the examples of a batch.

    Clipping bounds the sensitivity only if each gradient depends on one example.
    """
    refuse_unordered_layers(model)
    found = [
        (name, f"layer '{name}' ({type(layer).__name__}): {problem}")
        for name, layer in model.named_modules()
        for problem in _problems(layer)
    ]
    if found:
        names, problems = zip(*found, strict=True)
        raise SpecError(problems, field="layer", value=names)


def _problems(layer: nn.Module) -> list[str]:
    # Opacus checks only exact types with trainable weights; a BatchNorm without weights mixes as well.
    if isinstance(layer, _BatchNorm):
        return [
            "batch normalisation mixes the examples of a batch, so per-example gradients "
            "cannot be clipped; use GroupNorm instead"
        ]
    if type(layer) in UNCHECKED or _unknown_to_opacus(type(layer)):
        return []
    from opacus.validators import ModuleValidator  # a second of imports that few models need

    validate = ModuleValidator.VALIDATORS.get(type(layer))
    return [str(error) for error in validate(layer)] if validate else []


UNCHECKED = frozenset(
    {
        *(nn.Linear, nn.Conv2d, nn.Embedding, nn.GroupNorm, nn.LayerNorm),
        *(nn.Sequential, nn.ModuleList, nn.Identity, nn.Flatten),
        *(nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.SELU, nn.LeakyReLU, nn.Softplus),
        *(nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Dropout, nn.Dropout2d),
    }
)
"""Types without a validator of Opacus, whose gradients need none of its samplers: models of these alone do
not load it."""


def _unknown_to_opacus(kind: type[nn.Module]) -> bool:
    """Whether it is not torch's own, and Opacus, which a plug-in may have told of it, is not loaded."""
    return "opacus" not in sys.modules and not kind.__module__.startswith("torch.")


def forget_activations(model: nn.Module) -> None:
    """Delete what Opacus's hooks leave on the modules when they are removed."""
    for module in model.modules():
        vars(module).pop("activations", None)
