"""Every engine on the second device: the sums of the CPU, without asking for a number."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from methods.gradients import EngineName, Loss, make_engine
from methods.gradients.contributions import gram_norms
from methods.gradients.tally import Tally
from methods.pd_sgd.batch_gradient import BatchGradient
from tests.methods.gradients.conftest import distance
from tests.methods.gradients.test_engines import ARCHITECTURES, batch, cross_entropy, small_cnn
from tests.second_device.budgets import ENGINES
from tests.second_device.device import lines, listening
from tests.second_device.fixtures import on_second
from workloads.errors import SpecError
from workloads.models.lstm import review_lstm
from workloads.models.mlp import mlp

pytestmark = on_second
every_engine = pytest.mark.parametrize("name", ENGINES)
HOST = torch.device("cpu")


def on_host(tensors: list[Tensor]) -> list[Tensor]:
    return [each.cpu() for each in tensors]


@every_engine
@pytest.mark.parametrize("architecture", ["mlp", "mnist cnn", "lenet", "wrn16-4"])
def test_it_sums_and_weighs_as_on_the_cpu(name: EngineName, architecture: str, device: torch.device) -> None:
    make, shape = ARCHITECTURES[architecture]
    (x, y), found = batch(*shape), []
    for each in (HOST, device):
        engine = make_engine(make().to(each), cross_entropy, name)
        for _ in range(2):  # the first batch is checked against autograd
            clipped = engine.clipped_sum(x.to(each), y.to(each), 0.5)
        found.append([clipped.norms.cpu(), clipped.mean_loss().cpu(), *on_host(clipped.sums)])
    assert distance(found[1][:1], found[0][:1]) < 1e-5
    assert distance(found[1][1:2], found[0][1:2]) < 1e-6
    assert distance(found[1][2:], found[0][2:]) < 1e-5


@every_engine
@pytest.mark.parametrize("architecture", ["mlp", "lenet", "wrn16-4"])
def test_a_clipped_sum_waits_no_more_than_its_budget(
    name: EngineName, architecture: str, device: torch.device
) -> None:
    make, shape = ARCHITECTURES[architecture]
    x, y = (each.to(device) for each in batch(*shape))
    engine, tally = make_engine(make().to(device), cross_entropy, name), Tally()
    engine.clipped_sum(x, y, 0.5)
    with listening() as waits:
        clipped = engine.clipped_sum(x, y, 0.5)
        tally.add(clipped)
        clipped.mean_loss()
    assert len(waits) <= ENGINES[name], lines(waits)


def test_norms_of_sequences_are_right_where_terms_cancel(device: torch.device) -> None:
    """Two places of an example see the same and pull nearly opposite ways; nobody asks for which examples."""
    random = torch.Generator().manual_seed(1)
    a, b = torch.randn(3, 2, 40, generator=random), torch.randn(3, 2, 30, generator=random)
    a[1, 1], b[1, 1] = a[1, 0], -b[1, 0] * (1 + 1e-5)
    expected = torch.bmm(b.double().mT, a.double()).flatten(1).norm(dim=1)
    there = a.to(device), b.to(device)
    with listening() as waits:
        norms = gram_norms(*there)
    assert not waits, lines(waits)
    torch.testing.assert_close(norms.cpu().double(), expected, rtol=1e-5, atol=0.0)


@every_engine
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_non_finite_gradient_counts_as_zero(
    name: EngineName, kind: str, bad: float, device: torch.device
) -> None:
    model = (mlp((16, 5, 3), 3) if kind == "mlp" else small_cnn()).to(device)
    engine = make_engine(model, cross_entropy, name)
    x, y = (each.to(device) for each in batch(9, 16))
    spoilt = x.clone()
    spoilt[2, 3] = bad
    others = torch.tensor([0, 1, 3, 4, 5, 6, 7, 8], device=device)
    rest = engine.clipped_sum(x[others], y[others], 1.0)
    clipped = engine.clipped_sum(spoilt, y, 1.0)
    tally = Tally()
    tally.add(clipped)
    assert tally.state_dict()["nonfinite"] == 1
    assert clipped.clipped == rest.clipped
    assert distance(on_host(clipped.sums), on_host(rest.sums)) < 1e-5
    torch.testing.assert_close(clipped.mean_loss().cpu(), rest.mean_loss().cpu())


def test_a_batch_without_any_finite_gradient_has_no_finite_loss(device: torch.device) -> None:
    x, y = (each.to(device) for each in batch(3, 16))
    clipped = make_engine(mlp((16, 3), 1).to(device), cross_entropy).clipped_sum(x * math.nan, y, 1.0)
    assert not bool(torch.isfinite(clipped.mean_loss()))
    assert all(bool((each == 0).all()) for each in clipped.sums)


@pytest.fixture
def moved_in_place() -> Iterator[None]:
    """Weights stay the same objects when a model moves, as on CUDA: an LSTM has names for the same ones."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.mark.usefixtures("moved_in_place")
@pytest.mark.parametrize("name", ["bookkeeping", "opacus"])
def test_words_are_clipped_as_on_the_cpu(name: EngineName, device: torch.device) -> None:
    words = torch.randint(1, 50, (4, 6), generator=torch.Generator().manual_seed(0))
    y, found = torch.tensor([0, 1, 1, 0]), []
    for each in (HOST, device):
        engine = make_engine(review_lstm(1, 50).to(each), cross_entropy, name)
        found.append(on_host(engine.clipped_sum(words.to(each), y.to(each), 0.1).sums))
    assert distance(found[1], found[0]) < 1e-5


def with_pool(size: int | tuple[int, int]) -> nn.Module:
    parts = [nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(size), nn.Flatten()]
    return nn.Sequential(*parts, nn.LazyLinear(3))


@pytest.mark.parametrize("make", [make_engine, BatchGradient])
def test_a_layer_without_an_order_of_sums_is_named_on_a_device_only(
    make: Callable[[nn.Module, Loss], object], device: torch.device
) -> None:
    model = with_pool(2)
    model(torch.zeros(1, 16))  # the lazy layer finds its size
    make(model, cross_entropy)
    with pytest.raises(SpecError) as refused:
        make(model.to(device), cross_entropy)
    assert "layer '2' (AdaptiveAvgPool2d)" in str(refused.value)
    assert "x.mean(dim=(2, 3))" in str(refused.value)


@pytest.mark.parametrize("size", [1, (1, 1)])
def test_a_pool_that_is_a_mean_is_taken(size: int | tuple[int, int], device: torch.device) -> None:
    model = with_pool(size)
    model(torch.zeros(1, 16))
    x, y = (each.to(device) for each in batch(5, 16))
    assert len(make_engine(model.to(device), cross_entropy).clipped_sum(x, y, 1.0).norms) == 5
