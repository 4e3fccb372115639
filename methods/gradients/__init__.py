"""Per-example clipped gradients. Methods ask here and do not know which engine answers."""

from torch import nn

from methods.gradients.base import Clipped, Engine, Loss
from methods.gradients.opacus import OpacusEngine

__all__ = ["Clipped", "Engine", "Loss", "make_engine"]


def make_engine(model: nn.Module, loss: Loss) -> Engine:
    """The engine for this model. It puts hooks on the model until its `release`."""
    return OpacusEngine(model, loss)
