"""Parameters of per-example clipping, shared by methods."""

from typing import Annotated

from pydantic import Field

from methods.base import Count, Params, Technical
from methods.gradients import Clipping, EngineName


class ClippingParams(Params):
    """Clipping, engine, physical batch size and source of noise."""

    clipping: Clipping = Field(
        default="flat",
        description="Clip the whole gradient, or each of L layers to clip / sqrt(L) ('per_layer').",
    )
    engine: Annotated[EngineName, Technical()] = Field(
        default="auto",
        description="What computes the gradients; 'auto': bookkeeping if it knows every layer, else opacus.",
    )
    physical_batch_size: Annotated[Count | None, Technical()] = Field(
        default=None,
        description="Examples processed at a time, to save memory; none leaves it to the engine.",
    )
    secure: Annotated[bool, Technical()] = Field(
        default=False,
        description="Draw noise from the system's cryptographic generator: not reproducible. Sampling stays "
        "seeded.",
    )
