"""Engines of per-example clipped gradients; methods are independent of the engine."""

from typing import Literal

from torch import nn

from methods.gradients.base import Clipped, Clipping, Engine, Loss
from methods.gradients.bookkeeping import BookkeepingEngine, find_problems
from methods.gradients.compiled import CompiledEngine
from methods.gradients.native import NativeEngine
from methods.gradients.opacus import OpacusEngine
from methods.gradients.opacus_ghost import OpacusGhostEngine
from workloads.errors import UnknownName

__all__ = ["Clipped", "Clipping", "Engine", "EngineName", "Loss", "make_engine"]

EngineName = Literal["auto", "bookkeeping", "compiled", "native", "opacus", "opacus-ghost"]

ENGINES: dict[str, type[BookkeepingEngine] | type[OpacusEngine] | type[OpacusGhostEngine]] = {
    each.name: each
    for each in (BookkeepingEngine, CompiledEngine, NativeEngine, OpacusEngine, OpacusGhostEngine)
}


def make_engine(
    model: nn.Module,
    loss: Loss,
    name: EngineName = "auto",
    clipping: Clipping = "flat",
    physical_batch_size: int | None = None,
) -> Engine:
    """Create the engine of a model; it has hooks on the model until `release`.

    "auto" is bookkeeping if it has a rule for every layer, else opacus: decided by the model alone, never by
    timing, so that a task computes the same everywhere. With `physical_batch_size` None the engine decides.
    """
    if name != "auto":
        if name not in ENGINES:
            raise UnknownName("engine", name, ["auto", *ENGINES])
        return ENGINES[name](model, loss, clipping, physical_batch_size)
    problems = find_problems(model)
    if problems:
        return OpacusEngine(model, loss, clipping, physical_batch_size, why=f"auto: {problems[0]}")
    why = "auto: bookkeeping has a rule for every layer"
    return BookkeepingEngine(model, loss, clipping, physical_batch_size, why)
