"""Shared parts of gradient inversion, against plain differentiation."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from harness.attacks.parts import inversion
from harness.attacks.parts.inversion import (
    Intercepted,
    Pixels,
    cosine_distance,
    read_labels,
    record_gradients,
    squared_distance,
    together,
    total_variation,
)
from workloads.base import Records
from workloads.features.pixels import IMAGENET
from workloads.models.cnn import mnist_cnn
from workloads.models.lenet import lenet


def pictures(count: int, planes: int = 3, side: int = 12, seed: int = 0) -> Tensor:
    return torch.rand(count, planes, side, side, generator=torch.Generator().manual_seed(seed))


def one_at_a_time(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    """By plain differentiation of each record's loss."""
    weights = list(model.parameters())
    each = [
        torch.autograd.grad(cross_entropy(model(x[i : i + 1]), y[i : i + 1]), weights) for i in range(len(x))
    ]
    return [torch.stack(parts) for parts in zip(*each, strict=True)]


@pytest.mark.parametrize("model", [lenet(0, 3, 12, 4), mnist_cnn(0)], ids=["lenet", "max-pooling"])
def test_gradients_of_many_records_are_those_of_each(model: nn.Module) -> None:
    planes, side = (3, 12) if model[0].in_channels == 3 else (1, 28)  # type: ignore[index]
    x, y = pictures(5, planes, side), torch.tensor([0, 1, 2, 3, 1])
    for found, wanted in zip(record_gradients(model)(x, y), one_at_a_time(model, x, y), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_frozen_weight_shares_nothing() -> None:
    model = lenet(0, 3, 12, 4)
    next(model.parameters()).requires_grad_(False)
    found = record_gradients(model)(pictures(2), torch.tensor([0, 1]))
    assert [each.shape[1:] for each in found] == [w.shape for w in model.parameters() if w.requires_grad]


def test_a_label_may_be_a_probability() -> None:
    gradients, x = record_gradients(lenet(0, 3, 12, 4)), pictures(4)
    sure = gradients(x, torch.eye(4))
    for found, wanted in zip(sure, gradients(x, torch.arange(4)), strict=True):
        torch.testing.assert_close(found, wanted)


def test_the_truth_matches_and_another_picture_does_not() -> None:
    gradients, y = record_gradients(lenet(0, 3, 12, 4)), torch.tensor([0, 1, 2])
    shared, others = gradients(pictures(3), y), gradients(pictures(3, seed=1), y)
    assert squared_distance(shared, shared).tolist() == [0, 0, 0]
    assert cosine_distance(shared, shared).abs().max() < 1e-6
    assert squared_distance(others, shared).min() > 0
    assert cosine_distance(others, shared).min() > 1e-4


def test_the_angle_ignores_lengths_and_the_distance_does_not() -> None:
    gradients, y = record_gradients(lenet(0, 3, 12, 4)), torch.tensor([0, 1, 2])
    shared, others = gradients(pictures(3), y), gradients(pictures(3, seed=1), y)
    longer = [1000 * each for each in shared]
    torch.testing.assert_close(
        cosine_distance(others, longer), cosine_distance(others, shared), rtol=1e-4, atol=1e-6
    )
    assert (squared_distance(others, longer) > 10 * squared_distance(others, shared)).all()


def test_no_gradient_matches_nothing() -> None:
    shared = record_gradients(lenet(0, 3, 12, 4))(pictures(2), torch.tensor([0, 1]))
    assert cosine_distance([torch.zeros_like(each) for each in shared], shared).tolist() == [1, 1]


def test_total_variation() -> None:
    flat, step = torch.full((1, 3, 4, 4), 0.7), torch.zeros(1, 1, 4, 4)
    step[..., 2:] = 1  # one of three horizontal differences is 1
    assert total_variation(flat).item() == 0
    assert total_variation(step).item() == pytest.approx(1 / 3)
    assert total_variation(step.transpose(2, 3)).item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("bias", [True, False])
def test_a_single_gradient_reveals_the_label(bias: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(432, 20), nn.Sigmoid(), nn.Linear(20, 7, bias=bias))
    y = torch.arange(7)
    assert read_labels(record_gradients(model)(pictures(7), y)).tolist() == y.tolist()


def test_a_first_linear_layer_shares_the_record_itself() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(432, 20), nn.Tanh(), nn.Linear(20, 4))
    x = pictures(3).double()
    weight, bias, *_ = record_gradients(model.double())(x, torch.tensor([0, 1, 2]))
    for unit in (0, 7, 19):
        torch.testing.assert_close(weight[:, unit] / bias[:, unit, None], x.flatten(1))


def test_pixels_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = pictures(50) * torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1) - 1
    monkeypatch.setattr(inversion, "READ_AT_ONCE", 7)
    pixels = Pixels.of(Records(x, torch.zeros(50)))
    planes = x.transpose(0, 1).flatten(1)
    torch.testing.assert_close(pixels.mean.flatten(), planes.mean(1))
    torch.testing.assert_close(pixels.deviation.flatten(), planes.std(1, correction=0), rtol=1e-5, atol=1e-6)
    z = pixels.standardised(x)
    torch.testing.assert_close(z.transpose(0, 1).flatten(1).std(1, correction=0), torch.ones(3))
    torch.testing.assert_close(pixels.original(z), x)


def test_unit_pixels_undo_a_workloads_scale() -> None:
    images = torch.randint(256, (20, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    images[0, :, 0, 0], images[0, :, 0, 1] = 0, 255
    x = IMAGENET(images.numpy())
    pixels = Pixels.of(Records(x, torch.zeros(20)))
    torch.testing.assert_close(pixels.unit(x), images.float() / 255)
    assert pixels.unit(x + 9).max() == 1 and pixels.unit(x - 9).min() == 0


def test_a_plane_that_never_changes_is_left_alone() -> None:
    pixels = Pixels.of(Records(torch.full((4, 1, 3, 3), 0.5), torch.zeros(4)))
    assert pixels.deviation.item() == 1


def test_large_models_are_attacked_in_parts() -> None:
    small, large = [torch.zeros(2, 1000)], [torch.zeros(2, 10**7)]
    assert together(small) > 1000 and together(large) == 1


def test_some_of_the_intercepted() -> None:
    model = lenet(0, 3, 12, 4)
    x, y = pictures(4), torch.arange(4)
    pixels = Pixels.of(Records(x, y))
    seen = Intercepted(model, record_gradients(model)(x, y), y, x.shape[1:], pixels)
    part = seen.take(torch.tensor([3, 1]))
    assert len(part) == 2 and part.labels is not None and part.labels.tolist() == [3, 1]
    torch.testing.assert_close(part.gradients[0], seen.gradients[0][[3, 1]])
