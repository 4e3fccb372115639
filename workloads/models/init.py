"""Seeded initialisation: the same seed gives the same weights, and global random streams stay untouched."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A context to build a model in: its weights depend on `seed` only, and global streams are restored.

    Layers initialise themselves from torch's global CPU stream; build on the CPU, move afterwards.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def keras_defaults(model: nn.Sequential) -> nn.Sequential:
    """The same model with Keras's default weights: Glorot and Bengio's uniform ones, and biases of zero.

    The width of PyTorch's depends on the inputs of a layer alone, and its biases are drawn as well. Call it
    inside `seeded`.
    """
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model
