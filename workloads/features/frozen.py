"""Shared by encoders from other packages: availability, weights, forward pass."""

import hashlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from workloads.devices import best_device
from workloads.errors import BenchError
from workloads.features.bank import Features


def lacking(packages: Iterable[str], extra: str) -> str | None:
    """The missing packages, and the extra that installs them; None if there are none."""
    absent = [name for name in packages if find_spec(name) is None]
    if not absent:
        return None
    return f"it needs {' and '.join(absent)}: run `pip install 'privbench[{extra}]'`"


def trusted(weights: Path, sha256: str) -> Path:
    """The file of weights; BenchError if it is not the one behind our numbers."""
    with weights.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != sha256:
        message = f"{weights}: expected weights with SHA-256 {sha256}, found {found}; reinstall the package"
        raise BenchError(message, field=str(weights), value=found, allowed=sha256)
    return weights


def through(network: nn.Module, batches: Iterable[Tensor]) -> Features:
    """One row of features for every record of the batches, in half precision."""
    device = best_device()
    network = network.to(device).eval()
    with torch.inference_mode():
        rows = [network(batch.to(device)).half().cpu() for batch in batches]
    features: Features = torch.cat(rows).numpy()
    return features
