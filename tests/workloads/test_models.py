"""The architectures: their sizes, their seeds and what standardisation does."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from workloads.models.cnn import cifar_cnn, keras_mnist_cnn, mnist_cnn, plain_mnist_cnn
from workloads.models.lenet import lenet
from workloads.models.wrn import StandardisedConv2d, wrn

# Sizes the sources state; those of the wide ResNets are the usual ones, with GroupNorm for BatchNorm.
SIZES: dict[str, tuple[Callable[[int], nn.Module], int, tuple[int, ...], int]] = {
    "mnist cnn": (mnist_cnn, 26_010, (1, 28, 28), 10),
    "mnist cnn of keras": (keras_mnist_cnn, 26_010, (1, 28, 28), 10),
    "mnist cnn of dp-kfc": (plain_mnist_cnn, 206_922, (1, 28, 28), 10),
    "cifar cnn": (cifar_cnn, 550_570, (3, 32, 32), 10),
    "lenet cifar-10": (lambda seed: lenet(seed, 3, 32, 10), 15_826, (3, 32, 32), 10),
    "lenet fashion-mnist": (lambda seed: lenet(seed, 1, 28, 10), 13_426, (1, 28, 28), 10),
    "lenet cifar-100": (lambda seed: lenet(seed, 3, 32, 100), 85_036, (3, 32, 32), 100),
    "wrn16-4": (lambda seed: wrn(seed, 16, 4, 10), 2_748_890, (3, 32, 32), 10),
    "wrn28-2": (lambda seed: wrn(seed, 28, 2, 100), 1_479_220, (3, 32, 32), 100),
}

every_model = pytest.mark.parametrize("name", SIZES)


@every_model
def test_it_has_the_published_size(name: str) -> None:
    make, size, record, classes = SIZES[name]
    model = make(0)
    assert sum(weight.numel() for weight in model.parameters()) == size
    assert model(torch.zeros(2, *record)).shape == (2, classes)


@every_model
def test_the_seed_decides_the_weights_and_nothing_else(name: str) -> None:
    make = SIZES[name][0]
    before = torch.get_rng_state()
    one, same, other = (list(make(seed).parameters()) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert all(map(torch.equal, one, same))
    assert not all(map(torch.equal, one, other))


def test_the_activation_is_chosen() -> None:
    kinds = {type(layer) for layer in lenet(0, 3, 32, 10, "tanh")}
    assert nn.Tanh in kinds
    assert nn.Sigmoid not in kinds
    assert {type(layer) for layer in mnist_cnn(0, "relu")} >= {nn.ReLU, nn.Conv2d, nn.MaxPool2d}


def sides(model: nn.Sequential) -> list[int]:
    """The width of the maps after every layer that has maps."""
    x = torch.zeros(1, 1, 28, 28)
    found = []
    for layer in model:
        x = layer(x)
        found += [x.shape[-1]] if x.dim() == 4 and not isinstance(layer, nn.ReLU | nn.Tanh) else []
    return found


def test_the_padding_is_that_of_each_source() -> None:
    assert sides(mnist_cnn(0)) == [13, 12, 5, 4]
    assert sides(mnist_cnn(0, "relu", padding=3)) == [14, 13, 5, 4]
    assert sides(keras_mnist_cnn(0)) == [14, 13, 5, 4], "Keras pads 'same' by 3 before and 3 after"
    assert sides(plain_mnist_cnn(0)) == [28, 14, 14, 7]


def test_every_layer_of_the_wide_network_has_its_size() -> None:
    layers = [layer for layer in mnist_cnn(0, widths=(32, 64)) if list(layer.parameters())]
    counts = [sum(weight.numel() for weight in layer.parameters()) for layer in layers]
    assert counts == [2_080, 32_832, 32_800, 330]


def test_keras_draws_weights_by_both_widths_and_no_biases() -> None:
    limits = [6 / (64 + 16 * 64), 6 / (16 * 16 + 32 * 16), 6 / (512 + 32), 6 / (32 + 10)]
    layers = [layer for layer in keras_mnist_cnn(0) if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer, squared in zip(layers, limits, strict=True):
        assert 0.95 * squared**0.5 < layer.weight.abs().max() <= squared**0.5
        assert layer.bias is not None
        assert not layer.bias.any()


def test_lenet_starts_within_half_of_zero() -> None:
    weights = torch.cat([weight.detach().flatten() for weight in lenet(0, 3, 32, 10).parameters()])
    assert weights.abs().max() <= 0.5
    assert weights.std() == pytest.approx(12**-0.5, rel=0.02)


@pytest.mark.parametrize("depth", [4, 15, 17])
def test_an_impossible_depth_is_reported(depth: int) -> None:
    with pytest.raises(ValueError, match=f"6 n \\+ 4 with n >= 1, got {depth}"):
        wrn(0, depth, 4, 10)


def test_standardised_kernels_have_mean_zero_and_norm_one() -> None:
    layer = StandardisedConv2d(4, 6, 3)
    with torch.no_grad():
        layer.weight[2] = 3.0  # constant: nothing is left to scale
    kernel = layer.standardisation().kernel
    assert kernel.mean(dim=(1, 2, 3)).abs().max() < 1e-6
    norms = kernel.flatten(1).norm(dim=1)
    torch.testing.assert_close(norms, torch.tensor([1.0, 1, 0, 1, 1, 1]))
    x = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x), nn.functional.conv2d(x, kernel, layer.bias))


def test_pulling_back_is_the_gradient_of_standardising() -> None:
    layer = StandardisedConv2d(2, 3, 3).double()
    with torch.no_grad():
        layer.weight[1] *= 1e-4  # at the floor
    random = torch.Generator().manual_seed(0)
    gradients = torch.randn(4, *layer.weight.shape, generator=random, dtype=torch.float64)
    made = layer.standardisation()
    expected = [
        torch.autograd.grad(made.kernel, layer.weight, gradient, retain_graph=True)[0]
        for gradient in gradients
    ]
    with torch.no_grad():
        torch.testing.assert_close(layer.standardisation().pull_back(gradients), torch.stack(expected))
