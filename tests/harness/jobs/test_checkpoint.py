import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from harness.jobs.checkpoint import check_state, read_checkpoint, restore, state_of, write_checkpoint

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
keys = st.text(max_size=3) | st.integers()
trees = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(st.sampled_from(["tensor", "tuple", "dict"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(tree=trees)
def test_a_checkpoint_round_trips(tmp_path_factory: pytest.TempPathFactory, tree: Any) -> None:
    file = tmp_path_factory.mktemp("tree") / "file"
    write_checkpoint(file, {"tree": tree})
    read = read_checkpoint(file)
    assert read == {"tree": tree}
    assert repr(read) == repr({"tree": tree})  # 1 is not 1.0 and a tuple is not a list


TENSORS = [
    torch.arange(6, dtype=torch.float32).reshape(2, 3).t(),
    torch.tensor(2.5, dtype=torch.float64),
    torch.empty(0, dtype=torch.int64),
    torch.tensor([True, False]),
    torch.tensor([1.5], dtype=torch.bfloat16),
    torch.tensor([float("nan"), float("inf")]),
]


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda tensor: f"{tensor.dtype}{list(tensor.shape)}")
def test_tensors_come_back_bit_for_bit(tmp_path: Path, tensor: torch.Tensor) -> None:
    write_checkpoint(tmp_path / "file", {"a": [tensor], "same": tensor})
    read = read_checkpoint(tmp_path / "file")
    assert read is not None
    for found in (read["a"][0], read["same"]):
        assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found.nan_to_num(7), tensor.nan_to_num(7))


def test_any_flipped_bit_and_any_missing_end_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_checkpoint(file, {"weights": torch.randn(5, 3), "step": torch.tensor(3), "tally": {"n": 12}})
    whole = file.read_bytes()
    for place in range(len(whole)):
        harmed = bytearray(whole)
        harmed[place] ^= 1 << (place % 8)
        file.write_bytes(bytes(harmed))
        assert read_checkpoint(file) is None, f"bit {place % 8} of byte {place}"
        file.write_bytes(whole[:place])
        assert read_checkpoint(file) is None, f"only {place} bytes"
    file.write_bytes(whole)
    assert read_checkpoint(file) is not None


def test_a_tensor_of_another_shape_or_type_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_checkpoint(file, {"weights": torch.ones(2, 3)})
    raw = file.read_bytes()
    tensors = load(raw)
    metadata = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    file.write_bytes(save({name: each.reshape(3, 2) for name, each in tensors.items()}, metadata))
    assert read_checkpoint(file) is None
    file.write_bytes(save({name: each.view(torch.int32) for name, each in tensors.items()}, metadata))
    assert read_checkpoint(file) is None
    file.write_bytes(save(tensors, metadata))
    assert read_checkpoint(file) is not None


def test_nothing_there_reads_as_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path / "absent") is None


def test_state_is_put_back_in_place() -> None:
    layer = torch.nn.Linear(2, 2)
    tensor, tally, history = torch.zeros(2), {"a": 0, "gone": 1}, [1, 2, 3]
    held = (layer.weight, tensor, tally, history)
    restore(layer, {"weight": torch.ones(2, 2), "bias": torch.ones(2)})
    restore(tensor, torch.ones(2))
    restore(tally, {"a": 5})
    restore(history, [9])
    assert torch.equal(held[0], torch.ones(2, 2))
    assert torch.equal(held[1], torch.ones(2))
    assert held[2] == {"a": 5}
    assert held[3] == [9]


def test_optimizers_schedulers_and_models_pass_the_check() -> None:
    layer = torch.nn.Linear(2, 2)
    adam = torch.optim.Adam(layer.parameters())
    adam.step()
    schedule = torch.optim.lr_scheduler.StepLR(adam, 3)
    state = {"layer": layer, "adam": adam, "schedule": schedule, "list": [1, (2, None)]}
    check_state(state)
    assert state_of(state["list"]) == [1, (2, None)]


def test_a_leaf_that_wants_gradients_is_put_back(tmp_path: Path) -> None:
    weight = torch.zeros(3, requires_grad=True)
    write_checkpoint(tmp_path / "file", {"weight": torch.ones(3, requires_grad=True)})
    saved = read_checkpoint(tmp_path / "file")
    assert saved is not None
    restore(weight, saved["weight"])
    assert weight.requires_grad
    assert weight.tolist() == [1, 1, 1]
