"""What encoders share that are networks of other packages: whether they are here, their weights, a pass."""

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
    """Which packages are not installed, and the extra that brings them; None where all are."""
    absent = [name for name in packages if find_spec(name) is None]
    if not absent:
        return None
    return f"it needs {' and '.join(absent)}: run `pip install 'privbench[{extra}]'`"


def trusted(weights: Path, sha256: str) -> Path:
    """The file of weights, if it is the one that our numbers were made with."""
    with weights.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != sha256:
        raise BenchError(f"{weights}: expected weights with SHA-256 {sha256}, found {found}; install it anew")
    return weights


def through(network: nn.Module, batches: Iterable[Tensor]) -> Features:
    """One row of features for every record of the batches, in half precision."""
    device = best_device()
    network = network.to(device).eval()
    with torch.inference_mode():
        rows = [network(batch.to(device)).half().cpu() for batch in batches]
    features: Features = torch.cat(rows).numpy()
    return features
