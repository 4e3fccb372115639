"""Which layers have per-example gradients at all, and which weights belong to which layer."""

from dataclasses import dataclass

from opacus.validators import ModuleValidator
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from workloads.errors import SpecError


@dataclass(frozen=True)
class Layer:
    """A module with trainable parameters of its own."""

    name: str
    module: nn.Module
    weights: dict[str, nn.Parameter]
    """The trainable ones by name, in the module's order; each parameter belongs to one layer."""

    def __str__(self) -> str:
        return f"layer '{self.name}' ({type(self.module).__name__})"


def trainable_layers(model: nn.Module) -> list[Layer]:
    """Every layer that trains, in the order of `model.parameters()`; a model without one is a SpecError."""
    seen: set[nn.Parameter] = set()
    layers = []
    for name, module in model.named_modules():
        own = {
            key: weight
            for key, weight in module.named_parameters(recurse=False)
            if weight.requires_grad and weight not in seen
        }
        seen.update(own.values())
        if own:
            layers.append(Layer(name, module, own))
    if not layers:
        raise SpecError("the model has no trainable parameters; let at least one require gradients")
    return layers


def tied_weights(model: nn.Module) -> list[str]:
    """Trainable parameters that several modules share, each with all its names."""
    owners: dict[nn.Parameter, list[str]] = {}
    for name, module in model.named_modules():
        for key, weight in module.named_parameters(recurse=False):
            if weight.requires_grad:
                owners.setdefault(weight, []).append(f"'{name}.{key}'".replace("'.", "'"))
    return [" = ".join(names) for names in owners.values() if len(names) > 1]


def refuse_mixing_layers(model: nn.Module) -> None:
    """A layer that lets one example touch another's gradient is a SpecError that names it.

    Clipping bounds one person's influence only where each gradient depends on one example.
    """
    problems = [
        f"layer '{name}' ({type(layer).__name__}): {problem}"
        for name, layer in model.named_modules()
        for problem in _problems(layer)
    ]
    if problems:
        raise SpecError(problems)


def _problems(layer: nn.Module) -> list[str]:
    # Opacus looks only at exact types with trainable weights; a BatchNorm without weights mixes as well.
    if isinstance(layer, _BatchNorm):
        return [
            "batch normalisation mixes the examples of a batch, so no single person's gradient "
            "can be clipped; use GroupNorm instead"
        ]
    validate = ModuleValidator.VALIDATORS.get(type(layer))
    return [str(error) for error in validate(layer)] if validate else []
