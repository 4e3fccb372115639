"""The generator: shapes, ranges, and whose gradients flow."""

import pytest
import torch

from methods.dp_gan.generator import Generator


def make(shape: tuple[int, ...] = (2, 3), seed: int = 0) -> Generator:
    return Generator(shape, classes=4, latent=5, width=16, bounds=(-1.0, 3.0), seed=seed)


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("shape", [(6,), (1, 4, 4)])
def test_examples_have_the_shape_and_the_range(shape: tuple[int, ...]) -> None:
    labels = torch.arange(50) % 4
    records = make(shape).fake(labels, stream())
    assert records.x.shape == (50, *shape)
    assert torch.equal(records.y, labels)
    assert not records.x.requires_grad
    extreme = make(shape)
    for weight in extreme.parameters():
        weight.data.mul_(100)
    assert extreme.fake(labels, stream()).x.min() == -1.0
    assert extreme.fake(labels, stream()).x.max() == 3.0


def test_the_label_and_the_numbers_decide_the_example() -> None:
    generator = make()
    ones, twos = torch.full((8,), 1), torch.full((8,), 2)
    same = [generator.fake(labels, stream(seed)).x for labels, seed in ((ones, 0), (ones, 0))]
    assert torch.equal(*same)
    assert not torch.equal(generator.fake(ones, stream(0)).x, generator.fake(twos, stream(0)).x)
    assert not torch.equal(generator.fake(ones, stream(0)).x, generator.fake(ones, stream(1)).x)


def test_the_seed_decides_the_weights_and_nothing_else() -> None:
    before = torch.get_rng_state()
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    assert torch.equal(before, torch.get_rng_state())
    assert all(map(torch.equal, one.parameters(), same.parameters()))
    assert not all(map(torch.equal, one.parameters(), other.parameters()))


def test_gradients_flow_through_drawn_examples() -> None:
    generator = make()
    torch.autograd.backward(generator.draw(torch.arange(8) % 4, stream()).sum())
    assert all(weight.grad is not None and weight.grad.any() for weight in generator.parameters())
