"""Doubts about a user's training, from its predictions: does it use its seed, and its members?"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from harness.store import Store
from workloads.errors import StoreError

SAME_SEED = (
    "two trainings on the same members with different seeds give the same predictions: the training is "
    "deterministic, or ignores its seed. If it draws random numbers, seed them with `seed`; else the models "
    "differ by their members only, which is what an adversary faces as well"
)
SAME_MEMBERS = (
    "models {first} and {second} were trained on different members and give the same predictions: the "
    "training does not use the records that it is given, and the figures below say nothing about it"
)


def find_doubts(store: Store, models: Sequence[str], repeated: str) -> Iterator[str]:
    """A warning if the seed, or one if the members, make no difference.

    Args:
        store: The store.
        models: The keys of the trainings of a cell.
        repeated: The key of a training with the members of the first and another seed.
    """
    found = {index: logits for index, key in enumerate(models) if (logits := _logits(store, key)) is not None}
    other = _logits(store, repeated)
    alike = next(_same(found), None)
    if alike is not None:
        yield SAME_MEMBERS.format(first=alike[0], second=alike[1])
    elif other is not None and 0 in found and np.array_equal(found[0], other):
        yield SAME_SEED


def _same(found: dict[int, NDArray[np.float32]]) -> Iterator[tuple[int, int]]:
    """Pairs of models with the same predictions."""
    seen: dict[bytes, int] = {}
    for index, logits in found.items():
        first = seen.setdefault(logits.tobytes(), index)
        if first != index:
            yield first, index


def _logits(store: Store, key: str) -> NDArray[np.float32] | None:
    """The predictions of a model on the pool; None if it failed or they were purged."""
    result = store.result(key)
    if result is None or not result.done:
        return None
    try:
        signals: dict[str, NDArray[np.float32]] = load(store.read_artefact(result, "signals"))
    except StoreError:
        return None
    return signals["logits"]
