"""Outputs of a simulated model and its shadows, which lean towards the labels of their members."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

Sets = tuple[dict[str, Any], dict[str, Any]]
"""Members and others, by the names of harness/audit/given.py."""


def simulate(
    members: int = 600, others: int = 600, shadows: int = 0, gap: float = 1.0, seed: int = 0
) -> Sets:
    """Five classes; the members' own logits are higher by `gap`, in the model and in every shadow."""
    random = np.random.default_rng(seed)
    records = members + others
    labels = random.integers(0, 5, records)
    own = np.arange(records), labels
    base = random.normal(size=(records, 5))
    base[own] += 1
    trained = np.vstack([np.arange(records) < members, random.random((shadows, records)) < 0.5])
    logits = base + 0.7 * random.normal(size=(1 + shadows, records, 5))
    logits[:, own[0], own[1]] += gap * trained
    features = random.normal(size=(records, 6))
    made: dict[str, NDArray[Any]] = {"labels": labels, "features": features}
    made["logits"] = logits[0].astype(np.float32)
    if shadows:
        made["shadow_logits"] = logits[1:].astype(np.float32)
        made["shadow_members"] = trained[1:]

    def part(kept: slice) -> dict[str, Any]:
        return {name: each[:, kept] if "shadow" in name else each[kept] for name, each in made.items()}

    return part(slice(0, members)), part(slice(members, records))


@pytest.fixture(scope="session")
def simulated() -> Callable[..., Sets]:
    return simulate
