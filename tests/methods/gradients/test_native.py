"""The engine of our own C code: one example at a time for every shape, and refusals where it cannot be."""

import math
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from methods.gradients import make_engine
from methods.gradients.contributions import Arena, Call
from methods.gradients.layers import Layer
from methods.gradients.native import library
from methods.gradients.native.chained import ENTRIES
from methods.gradients.native.convolved import last
from methods.gradients.native.native_engine import NativeEngine
from methods.gradients.native.normalised import normalise
from methods.gradients.native.pooled import find_pools, max_pool, pooling
from tests.methods.gradients.test_engines import ARCHITECTURES, batch, cross_entropy
from workloads.errors import SpecError
from workloads.models.init import seeded
from workloads.models.mlp import mlp
from workloads.models.wrn import StandardisedConv2d

if TYPE_CHECKING:
    from tests.methods.gradients.conftest import Truth

    Ask = Callable[[nn.Module, Callable[[Tensor, Tensor], Tensor], Tensor, Tensor], Truth]
    Apart = Callable[[list[Tensor], list[Tensor]], float]

SIDE = 9
CONVOLUTIONS: dict[str, Callable[[], nn.Conv2d]] = {
    "one input": lambda: nn.Conv2d(1, 16, 8, 2, 2),
    "one entry": lambda: nn.Conv2d(3, 5, 1),
    "outputs of no whole vector": lambda: nn.Conv2d(3, 37, 3),
    "many outputs": lambda: nn.Conv2d(2, 80, 2),
    "unlike sides": lambda: nn.Conv2d(2, 4, (2, 5), (3, 1), (0, 2)),
    "dilated": lambda: nn.Conv2d(2, 4, 3, dilation=(1, 2)),
    "dilated rows": lambda: nn.Conv2d(2, 4, 3, padding=2, dilation=(3, 1)),
    "reflected": lambda: nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
    "same": lambda: nn.Conv2d(2, 4, (3, 5), padding="same"),
    "without bias": lambda: nn.Conv2d(2, 4, 3, bias=False),
    "groups": lambda: nn.Conv2d(4, 8, 3, groups=2),
    "standardised": lambda: StandardisedConv2d(3, 37, 3, padding=1),
    "standardised, many outputs": lambda: StandardisedConv2d(5, 80, 3, 2, bias=False),
    "standardised, unlike sides": lambda: StandardisedConv2d(2, 4, (2, 5), (3, 1), (0, 2)),
    "standardised, dilated": lambda: StandardisedConv2d(2, 4, 3, dilation=(1, 2)),
    "standardised, reflected": lambda: StandardisedConv2d(2, 4, 3, padding=1, padding_mode="reflect"),
    "standardised groups": lambda: StandardisedConv2d(4, 8, 3, groups=2),
    "at the floor": lambda: shrunk(StandardisedConv2d(3, 6, 3), 1e-3),
}


def shrunk(convolution: nn.Conv2d, share: float) -> nn.Conv2d:
    """The kernels of the first four outputs, made so small that standardisation no longer scales them up."""
    convolution.weight.data[:4] *= share
    return convolution


def network(convolution: Callable[[], nn.Conv2d]) -> tuple[nn.Module, int]:
    with seeded(5):
        first = convolution()
        places = first(torch.zeros(1, first.in_channels, SIDE, SIDE)).numel()
        return nn.Sequential(first, nn.Tanh(), nn.Flatten(), nn.Linear(places, 3)), first.in_channels


@pytest.mark.parametrize("shape", CONVOLUTIONS)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_every_shape_agrees_with_one_example_at_a_time(
    shape: str, dtype: torch.dtype, near: float, truth: "Ask", apart: "Apart"
) -> None:
    model, channels = network(CONVOLUTIONS[shape])
    model, (x, y) = model.to(dtype), batch(7, channels, SIDE, SIDE, dtype=dtype)
    expected = truth(model, cross_entropy, x, y)
    engine = make_engine(model, cross_entropy, "native")
    for clip in (math.inf, 1.001 * float(expected.norms().median())):
        clipped = engine.clipped_sum(x, y, clip)
        assert apart([clipped.norms], [expected.norms()]) < near
        assert apart(clipped.sums, expected.sums(clip)) < near
    assert apart(engine.per_example(x, y), expected.gradients) < near


@pytest.mark.parametrize("shape", ["one input", "standardised", "at the floor"])
def test_every_layer_is_clipped_alone_as_well(shape: str, truth: "Ask", apart: "Apart") -> None:
    model, channels = network(CONVOLUTIONS[shape])
    x, y = batch(7, channels, SIDE, SIDE)
    expected = truth(model, cross_entropy, x, y)
    clip = 1.001 * float(expected.norms().median())
    clipped = make_engine(model, cross_entropy, "native", "per_layer").clipped_sum(x, y, clip)
    assert apart(clipped.sums, expected.sums_per_layer(clip)) < 1e-5


@pytest.mark.parametrize("left", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("removed", ["mean", "direction"])
def test_the_norm_of_what_standardisation_leaves(removed: str, left: float, truth: "Ask") -> None:
    """Too small a norm would clip too little; squares of what is left must not come from differences."""
    with seeded(4):
        first = StandardisedConv2d(3, 1, 8, bias=False)
        model = nn.Sequential(first, nn.Flatten(), nn.Linear(1, 3))
        x, y = torch.randn(6, 3, 8, 8).mul_(left), torch.arange(6) % 3
        x += 1.0 if removed == "mean" else first.standardisation().kernel.detach()
    for weight in model[2].parameters():
        weight.requires_grad_(False)
    norms = make_engine(model, cross_entropy, "native").norms(x, y)
    expected = truth(model.double(), cross_entropy, x.double(), y).norms()
    torch.testing.assert_close(norms.double(), expected, rtol=1e-4, atol=0.0)


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("frozen", ["weight", "bias"])
@pytest.mark.parametrize("shape", ["outputs of no whole vector", "standardised"])
def test_what_is_frozen_has_no_sum(shape: str, frozen: str, last: bool, truth: "Ask", apart: "Apart") -> None:
    model, channels = network(CONVOLUTIONS[shape])
    getattr(model[3 if last else 0], frozen).requires_grad_(False)  # type: ignore[index]
    x, y = batch(5, channels, SIDE, SIDE)
    expected = truth(model, cross_entropy, x, y)
    clip = 1.001 * float(expected.norms().median())
    clipped = make_engine(model, cross_entropy, "native").clipped_sum(x, y, clip)
    assert [s.shape for s in clipped.sums] == [w.shape for w in model.parameters() if w.requires_grad]
    assert apart(clipped.sums, expected.sums(clip)) < 1e-5


@pytest.mark.parametrize(("groups", "channels"), [(1, 6), (6, 6), (3, 6), (4, 80)])
@pytest.mark.parametrize("frozen", [None, "weight", "bias"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_group_norms_agree_with_one_example_at_a_time(
    groups: int, channels: int, frozen: str | None, dtype: torch.dtype, truth: "Ask", apart: "Apart"
) -> None:
    with seeded(6):
        norm = nn.GroupNorm(groups, channels)
        model = nn.Sequential(norm, nn.Tanh(), nn.Flatten(), nn.Linear(channels * 63, 3)).to(dtype)
    for name, weight in norm.named_parameters():
        weight.data += torch.linspace(-1, 1, channels)
        weight.requires_grad_(name != frozen)
    x, y = batch(7, channels, 7, 9, dtype=dtype)
    expected = truth(model, cross_entropy, x, y)
    near, clip = 1e-5 if dtype == torch.float32 else 1e-12, 1.001 * float(expected.norms().median())
    clipped = make_engine(model, cross_entropy, "native").clipped_sum(x, y, clip)
    assert apart([clipped.norms], [expected.norms()]) < near
    assert apart(clipped.sums, expected.sums(clip)) < near


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e6])
def test_the_scale_of_a_group_norm_survives_a_large_mean(mean: float, apart: "Apart") -> None:
    with seeded(8):
        norm, x, b = nn.GroupNorm(2, 4), torch.randn(3, 4, 40, 50) + mean, torch.randn(3, 4, 40, 50)
    call = Call(Layer("norm", norm, dict(norm.named_parameters())), x, None, b, Arena())
    normal = nn.functional.group_norm(x.double(), 2, eps=norm.eps)
    expected = [(normal * b).sum(dim=(2, 3)), b.double().sum(dim=(2, 3))]
    assert apart([each.double() for each in normalise(norm, call).examples()], expected) < 1e-6


def test_a_group_norm_of_no_image_is_left_to_its_rule(truth: "Ask", apart: "Apart") -> None:
    model = nn.Sequential(nn.Unflatten(1, (4, 9)), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(36, 3))
    x, y = batch(5, 36)
    clipped = make_engine(model, cross_entropy, "native").clipped_sum(x, y, 1.0)
    assert apart(clipped.sums, truth(model, cross_entropy, x, y).sums(1.0)) < 1e-5


@pytest.mark.parametrize("channels", [1, 5, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(2, 1), (2, 2), (3, 2), (2, 3), ((2, 3), (3, 1)), ((3, 1), (1, 2))])
def test_max_pools_are_those_of_the_library(
    sizes: tuple[Any, Any], dtype: torch.dtype, channels: int, apart: "Apart"
) -> None:
    """Also of equal values, of which the first gets the gradient."""
    module, (x, _) = nn.MaxPool2d(*sizes), batch(3, channels, 8, 9, dtype=dtype)
    x = last(x.mul(2).round()).requires_grad_()
    expected = module(x)
    slope = torch.randn_like(expected)
    before = torch.autograd.grad(expected, x, slope)
    assert find_pools(module) == [module]
    with pooling([module]):
        pooled = module(x)
        y = pooled.mul(1)
    assert torch.equal(pooled, expected) and type(pooled.grad_fn).__name__ == "MaxPoolBackward"
    assert "forward" not in vars(module)
    pooled.relu_()  # what follows may be in place
    assert apart(list(torch.autograd.grad(y, x, slope)), list(before)) < 1e-6


def test_a_max_pool_shows_what_is_not_finite() -> None:
    x = torch.tensor([[1.0, 2.0, math.nan], [math.inf, 0.0, -math.inf]]).view(1, 1, 2, 3)
    x = x.expand(1, 2, 2, 3).contiguous(memory_format=torch.channels_last).requires_grad_()
    y = max_pool(nn.MaxPool2d(2, 1), x)
    assert torch.equal(torch.isnan(y).flatten(), torch.tensor([False, True] * 2))
    (gradient,) = torch.autograd.grad(y, x, torch.full_like(y, math.nan))
    assert torch.isnan(gradient[..., 0, :]).any()


@pytest.mark.parametrize(
    "settings", [{"padding": 1}, {"dilation": 2}, {"ceil_mode": True}, {"return_indices": True}]
)
def test_other_max_pools_are_left_to_the_library(settings: dict[str, Any]) -> None:
    assert find_pools(nn.Sequential(nn.MaxPool2d(3, **settings), nn.AvgPool2d(2))) == []


def test_a_pass_that_fails_leaves_the_pools_as_they_were() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3))
    engine = make_engine(model, cross_entropy, "native")
    with pytest.raises(RuntimeError):
        engine.clipped_sum(*batch(2, 1, 20, 20), 1.0)
    assert "forward" not in vars(model[1])


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid])
@pytest.mark.parametrize("frozen", [None, "0.weight", "0.bias", "2.weight", "2.bias"])
def test_chains_agree_with_one_example_at_a_time(
    activation: type[nn.Module], frozen: str | None, truth: "Ask", apart: "Apart"
) -> None:
    with seeded(2):
        model = nn.Sequential(
            nn.Linear(37, 21), activation(), nn.Linear(21, 32), activation(), nn.Linear(32, 3)
        )
    for name, weight in model.named_parameters():
        weight.requires_grad_(name != frozen)
    x, y = batch(19, 37)
    expected = truth(model, cross_entropy, x, y)
    clip = 1.001 * float(expected.norms().median())
    clipped = make_engine(model, cross_entropy, "native").clipped_sum(x, y, clip)
    assert apart([clipped.norms], [expected.norms()]) < 1e-5
    assert apart(clipped.sums, expected.sums(clip)) < 1e-5


def test_a_wide_chain_is_left_to_the_library() -> None:
    """In large products the library is quicker; the model alone decides."""
    x, y = batch(4, ENTRIES // 8)
    plain, ours = (
        make_engine(mlp((ENTRIES // 8, 16, 3), 1), cross_entropy, name).clipped_sum(x, y, 1.0)
        for name in ("bookkeeping", "native")
    )
    assert all(map(torch.equal, ours.sums, plain.sums))


@pytest.mark.parametrize("architecture", ["mlp", "mnist cnn", "lenet", "wrn16-4"])
def test_spoilt_examples_count_as_zero(architecture: str, apart: "Apart") -> None:
    make, (_, *shape) = ARCHITECTURES[architecture]
    x, y = batch(6, *shape)
    good = make_engine(make(), cross_entropy, "native").clipped_sum(x[:4], y[:4], 1.0)
    x[4].view(-1)[0], x[5].view(-1)[0] = math.nan, math.inf
    spoilt = make_engine(make(), cross_entropy, "native").clipped_sum(x, y, 1.0)
    assert spoilt.nonfinite == 2
    assert spoilt.clipped == good.clipped
    assert apart(spoilt.sums, good.sums) < 1e-6


@pytest.mark.parametrize("architecture", ["mlp", "mnist cnn", "lenet", "wrn16-4"])
def test_bits_depend_on_the_batch_alone(architecture: str) -> None:
    """A resumed training starts with another batch, and must give the same bits."""
    make, (_, *shape) = ARCHITECTURES[architecture]
    used = make_engine(make(), cross_entropy, "native")
    for count in (5, 1, 4):
        used.clipped_sum(*batch(count, *shape), 1.0)
    later, fresh = (
        engine.clipped_sum(*batch(3, *shape), 1.0)
        for engine in (used, make_engine(make(), cross_entropy, "native"))
    )
    assert all(map(torch.equal, [*later.sums, later.norms], [*fresh.sums, fresh.norms]))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A machine where nothing has been compiled, with an empty folder as its path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(library, "user_folder", lambda: tmp_path / "cache")
    library.load.cache_clear()
    yield folder
    library.load.cache_clear()


def refusal() -> SpecError:
    with pytest.raises(SpecError) as caught:
        NativeEngine(mlp((16, 3), 1), cross_entropy)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == (
        "engine",
        "native",
        ("bookkeeping",),
    )
    return caught.value


def test_without_a_compiler_it_is_refused(elsewhere: Path) -> None:
    assert "cc, gcc, clang" in str(refusal())


def test_the_compiler_is_quoted_if_it_fails(elsewhere: Path) -> None:
    broken = elsewhere / "cc"
    broken.write_text("#!/bin/sh\necho 'cc: no such option' >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    assert "cc: no such option" in str(refusal())


@pytest.mark.skipif(os.name != "posix", reason="paths of a device")
def test_a_cache_that_cannot_be_written_is_refused(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "cc").symlink_to("/bin/true")
    monkeypatch.setattr(library, "user_folder", lambda: Path("/dev/null"))
    assert "/dev/null" in str(refusal())


def test_it_is_compiled_once_for_a_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "user_folder", lambda: tmp_path)
    library.load.cache_clear()
    library.load(torch.float32)
    (made,) = (tmp_path / "native").iterdir()
    before = made.stat().st_mtime_ns
    library.load.cache_clear()
    library.load(torch.float32)
    assert [made] == list((tmp_path / "native").iterdir())
    assert made.stat().st_mtime_ns == before
    library.load.cache_clear()
