"""The input of classifier-based attacks: posteriors, and models whose members are known."""

import numpy as np
from numpy.typing import NDArray

from harness.attacks.base import Floats
from workloads.errors import BenchError


def posteriors(logits: NDArray[np.float32]) -> Floats:
    """(n, C): softmax in float64; a logit of -inf is a probability of 0."""
    highest = logits.max(axis=1, keepdims=True)
    bad = int((~np.isfinite(highest)).sum())
    if bad:
        raise BenchError(
            f"a model gives NaN, +inf or only -inf logits on {bad} of {len(logits)} records; attacks need "
            "finite logits: look for a diverged training or a broken predictor",
            field="logits",
            value=int(bad),
            allowed=0,
        )
    chances = np.exp(logits.astype(np.float64) - highest)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def shadows_of(target: int, models: int, most: int) -> list[int]:
    """The models after the target, in a circle: at most `most`, and never the target."""
    return [(target + step) % models for step in range(1, min(most, models - 1) + 1)]


def log_odds(chances: Floats) -> Floats:
    """log p / (1 - p), finite at 0 and 1."""
    bounded = np.clip(chances, 1e-12, 1 - 1e-12)
    return np.asarray(np.log(bounded) - np.log1p(-bounded))
