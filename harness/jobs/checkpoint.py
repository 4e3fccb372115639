"""Checkpoints of a training: one safetensors file per phase, with a checksum, never pickled."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from harness.store.files import write_atomic


def write_checkpoint(file: Path, content: Mapping[str, Any]) -> None:
    """Save nested dicts, lists, tuples, tensors and plain values, atomically."""
    tensors: dict[str, Tensor] = {}
    tree = json.dumps(_fold(dict(content), tensors))
    metadata = {"tree": tree, "sha256": _digest(tree, tensors)}
    write_atomic(file, save(tensors, metadata))


def read_checkpoint(file: Path) -> dict[str, Any] | None:
    """Read a checkpoint; None if it is missing or damaged, and the phase restarts."""
    try:
        raw = file.read_bytes()
        tensors = load(raw)
        header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        tree = header["__metadata__"]["tree"]
        if header["__metadata__"]["sha256"] != _digest(tree, tensors):
            return None
        content = _unfold(json.loads(tree), tensors)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None
    return content if isinstance(content, dict) else None


def state_of(thing: Any) -> Any:
    """The state dict of an entry of a phase's `state`, or the entry itself."""
    return thing.state_dict() if hasattr(thing, "state_dict") else thing


def check_state(state: Mapping[str, Any]) -> None:
    """Reject a phase's state that cannot be saved or restored, before any work depends on it.

    Raises:
        TypeError: Names the entry, its type and the allowed types.
    """
    for name, thing in state.items():
        both = hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")
        if not both and not isinstance(thing, Tensor | dict | list):
            raise TypeError(
                f"state {name!r} is a {type(thing).__name__}; allowed are objects with state_dict and "
                "load_state_dict, tensors, dicts and lists: only these can be restored in place"
            )
        try:
            json.dumps(_fold(state_of(thing), {}))
        except (TypeError, ValueError) as error:
            raise TypeError(f"state {name!r} cannot be saved: {error}") from error


def restore(thing: Any, saved: Any) -> None:
    """Restore an entry accepted by `check_state`, in place, since the method holds references to it."""
    if hasattr(thing, "load_state_dict"):
        thing.load_state_dict(saved)
    elif isinstance(thing, Tensor):
        with torch.no_grad():
            thing.copy_(saved)
    elif isinstance(thing, dict):
        thing.clear()
        thing.update(saved)
    else:
        thing[:] = saved


def _digest(tree: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(tree.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _fold(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Encode a value as JSON and move its tensors to `tensors`. Dicts become pairs: keys may be numbers."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"dict": [[_plain(key), _fold(each, tensors)] for key, each in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_fold(each, tensors) for each in value]}
    if isinstance(value, list):
        return [_fold(each, tensors) for each in value]
    return _plain(value)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a checkpoint cannot contain a {type(value).__name__}: {value!r}")


def _unfold(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unfold(each, tensors) for each in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "tuple" in value:
        return tuple(_unfold(each, tensors) for each in value["tuple"])
    return {key: _unfold(each, tensors) for key, each in value["dict"]}
