"""Networks come from their seed alone."""

import pytest
import torch

from workloads.models.mlp import mlp


def test_the_same_seed_gives_the_same_bits() -> None:
    one, same, other = (mlp((3, 4, 2), seed).state_dict() for seed in (7, 7, 8))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_building_a_model_leaves_the_global_stream_alone() -> None:
    before = torch.random.get_rng_state()
    mlp((3, 4, 2), 7)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_layers() -> None:
    kinds = [type(layer).__name__ for layer in mlp((3, 4, 5, 2), 0)]
    assert kinds == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert [type(layer).__name__ for layer in mlp((3, 2), 0)] == ["Linear"]


def test_one_width_is_no_network() -> None:
    with pytest.raises(ValueError, match="input and an output"):
        mlp((3,), 0)
