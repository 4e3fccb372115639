"""Gaussian noise on sums of clipped gradients, and its parameters."""

import math
from collections.abc import Sequence
from typing import Annotated

from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent
from pydantic import Field, model_validator
from torch import Tensor

from methods.base import Amount, Batches, Noise, Positive, PrivacyParams, Run
from methods.search import Search
from workloads.errors import SpecError


class GaussianParams(PrivacyParams):
    """Privacy of the sums. Give epsilon or noise_multiplier; a planned task has both."""

    noise_multiplier: Amount | None = Field(
        default=None, description="Noise standard deviation over clip; solved for from epsilon."
    )
    clip: Annotated[Positive, Search(0.1, 3, axis=3)] = Field(
        default=1.0, description="Largest L2 norm of one example's gradient."
    )

    @model_validator(mode="after")
    def _one_privacy_level(self) -> "GaussianParams":
        epsilon, noise = self.epsilon, self.noise_multiplier
        if epsilon is None and noise is None:
            raise ValueError("give epsilon (> 0, or inf) or noise_multiplier (>= 0); both are missing")
        if epsilon is not None and noise is not None and (epsilon == math.inf) != (noise == 0):
            raise ValueError(
                "epsilon = inf goes with noise_multiplier = 0 only, "
                f"got epsilon = {epsilon} and noise_multiplier = {noise}"
            )
        if self.clip == math.inf and (noise or epsilon not in (None, math.inf)):
            raise ValueError(
                "clip = inf does not bound the sensitivity, so no noise is enough; "
                "give a finite clip, or epsilon = inf"
            )
        return self


def resolved_noise(params: GaussianParams) -> float:
    """The noise multiplier of a planned task; no noise at epsilon = inf."""
    if params.noise_multiplier is not None:
        return params.noise_multiplier
    if params.epsilon == math.inf:
        return 0.0
    raise SpecError(
        f"noise_multiplier is not set: epsilon = {params.epsilon} must be calibrated before training",
        field="noise_multiplier",
    )


def gaussian_event(noise_multiplier: float) -> DpEvent:
    """One Gaussian sum with this noise; without noise there is no privacy."""
    return GaussianDpEvent(noise_multiplier) if noise_multiplier else NonPrivateDpEvent()


def make_noise(
    run: Run, weights: Sequence[Tensor], params: GaussianParams, secure: bool, batches: Batches
) -> Noise:
    """Gaussian noise of standard deviation noise_multiplier * clip for clipped sums over these batches.

    With `secure` from the system's cryptographic generator.
    """
    multiplier = resolved_noise(params)
    # 0 * inf is NaN if clip is infinite.
    scale = multiplier * params.clip if multiplier else 0.0
    event = batches.event(gaussian_event(multiplier))
    return run.noise("gradients", weights, scale, sensitivity=params.clip, event=event, secure=secure)
