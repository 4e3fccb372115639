"""Which layers have per-example gradients at all."""

from opacus.validators import ModuleValidator
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from workloads.errors import SpecError


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
