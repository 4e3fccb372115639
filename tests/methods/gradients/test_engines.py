"""Every engine against one example at a time, on every architecture."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

import pytest
import torch
from torch import Tensor, nn

from methods.gradients import ENGINES, Clipped, Engine, EngineName, make_engine
from workloads.errors import SpecError
from workloads.models.cnn import cifar_cnn, mnist_cnn
from workloads.models.init import seeded
from workloads.models.lenet import lenet
from workloads.models.mlp import mlp
from workloads.models.wrn import wrn

if TYPE_CHECKING:
    from tests.methods.gradients.conftest import Truth

    Ask = Callable[[nn.Module, Callable[[Tensor, Tensor], Tensor], Tensor, Tensor], Truth]
    Apart = Callable[[list[Tensor], list[Tensor]], float]

NAMES: tuple[EngineName, ...] = ("bookkeeping", "native", "opacus", "opacus-ghost")

every_engine = pytest.mark.parametrize("name", NAMES)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, labels, reduction="none")


def batch(*shape: int, classes: int = 3, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(*shape, generator=generator, dtype=dtype)
    return x, torch.randint(classes, (shape[0],), generator=generator)


ARCHITECTURES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: mlp((16, 3), 1), (9, 16)),
    "mlp": (lambda: mlp((16, 12, 3), 1), (9, 16)),
    "mnist cnn": (lambda: mnist_cnn(1), (5, 1, 28, 28)),
    "cifar cnn": (lambda: cifar_cnn(1, "relu"), (3, 3, 32, 32)),
    "lenet": (lambda: lenet(1, 3, 32, 10), (5, 3, 32, 32)),
    "wrn16-4": (lambda: wrn(1, 16, 4, 10), (2, 3, 8, 8)),
    "wrn28-2": (lambda: wrn(1, 28, 2, 100), (2, 3, 8, 8)),
}


@pytest.mark.slow
@every_engine
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
def test_it_agrees_with_one_example_at_a_time(
    name: EngineName, architecture: str, dtype: torch.dtype, near: float, truth: "Ask", apart: "Apart"
) -> None:
    make, shape = ARCHITECTURES[architecture]
    model = make().to(dtype)
    x, y = batch(*shape, dtype=dtype)
    expected = truth(model, cross_entropy, x, y)
    norms, losses = expected.norms(), cross_entropy(model(x), y).detach()
    engine = make_engine(model, cross_entropy, name)
    # The first batch is checked and the second is not; just above the median some are clipped, some not.
    for clip in (math.inf, 1.001 * float(norms.median())):
        clipped = engine.clipped_sum(x, y, clip)
        assert apart([clipped.norms], [norms]) < near
        assert apart(clipped.sums, expected.sums(clip)) < near
        assert clipped.clipped == int((norms > clip).sum())
        assert clipped.nonfinite == 0
    torch.testing.assert_close(clipped.losses, losses)
    assert apart([engine.norms(x, y)], [norms]) < near


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_checked_first_batch_has_the_same_bits_as_a_later_one(architecture: str) -> None:
    """A resumed training checks its own first batch, and must give the same bits."""
    make, shape = ARCHITECTURES[architecture]
    engine = make_engine(make(), cross_entropy, "bookkeeping")
    first, later = (engine.clipped_sum(*batch(*shape), 1.0) for _ in range(2))
    assert all(map(torch.equal, [*first.sums, first.norms], [*later.sums, later.norms]))


def small_cnn() -> nn.Module:
    with seeded(3):
        return nn.Sequential(
            nn.Unflatten(1, (1, 4, 4)),
            nn.Conv2d(1, 4, 3),
            nn.GroupNorm(2, 4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16, 3),
        )


@pytest.fixture(params=["mlp", "cnn"])
def model(request: pytest.FixtureRequest) -> nn.Module:
    return mlp((16, 5, 3), 3) if request.param == "mlp" else small_cnn()


@every_engine
@pytest.mark.parametrize("physical", [None, 4])
def test_the_share_is_added_to_what_is_there(
    name: EngineName, model: nn.Module, physical: int | None, apart: "Apart"
) -> None:
    x, y = batch(9, 16)
    x[4, 0] = math.nan
    engine = make_engine(model, cross_entropy, name, physical_batch_size=physical)
    for clip in (0.5, math.inf):
        alone = engine.clipped_sum(x, y, clip).sums
        onto = [torch.full_like(each, 0.25) for each in alone]
        clipped = engine.clipped_sum(x, y, clip, onto, 1 / 8)
        assert all(ours is given for ours, given in zip(clipped.sums, onto, strict=True))
        assert apart(onto, [0.25 + each / 8 for each in alone]) < 1e-6
    nobody = torch.zeros(0, 16), torch.zeros(0, dtype=torch.int64)
    before = [each.clone() for each in onto]
    assert all(map(torch.equal, engine.clipped_sum(*nobody, 0.5, onto, 1 / 8).sums, before))


@every_engine
def test_an_empty_batch_sums_to_zero(name: EngineName, model: nn.Module) -> None:
    engine = make_engine(model, cross_entropy, name)
    nobody = torch.zeros(0, 16), torch.zeros(0, dtype=torch.int64)
    clipped = engine.clipped_sum(*nobody, 1.0)
    assert [s.shape for s in clipped.sums] == [w.shape for w in engine.weights]
    assert not any(s.any() or s.requires_grad for s in clipped.sums)
    assert len(clipped.norms) == len(clipped.losses) == len(engine.norms(*nobody)) == 0
    assert clipped.nonfinite == clipped.clipped == clipped.mean_loss() == 0


@every_engine
def test_one_example_is_at_most_the_clip(name: EngineName, model: nn.Module) -> None:
    """And the clip to 1e-6 where the gradient was longer."""
    engine = make_engine(model, cross_entropy, name)
    x, y = batch(9, 16)
    norms = engine.norms(x, y)
    clip = float(norms.median())
    for i in range(len(x)):
        sums = engine.clipped_sum(x[i : i + 1], y[i : i + 1], clip).sums
        after = float(torch.cat([s.flatten() for s in sums]).norm())
        assert after <= clip * (1 + 1e-6)
        assert after == pytest.approx(min(clip, float(norms[i])), rel=1e-5, abs=2e-6)


@every_engine
def test_duplicates_count_as_often_as_they_come(name: EngineName, model: nn.Module, apart: "Apart") -> None:
    engine = make_engine(model, cross_entropy, name)
    x, y = batch(4, 16)
    once = engine.clipped_sum(x, y, 0.5)
    thrice = engine.clipped_sum(x.repeat(3, 1), y.repeat(3), 0.5)
    assert apart(thrice.sums, [3 * s for s in once.sums]) < 1e-5
    torch.testing.assert_close(thrice.norms, once.norms.repeat(3))


@every_engine
def test_zero_gradients_sum_to_zero(name: EngineName, model: nn.Module) -> None:
    def nothing(logits: Tensor, labels: Tensor) -> Tensor:
        return 0.0 * logits.sum(1)

    engine = make_engine(model, nothing, name)
    for _ in range(2):
        clipped = engine.clipped_sum(*batch(3, 16), 1.0)
        assert not any(s.any() for s in clipped.sums)
        assert not clipped.norms.any()
        assert clipped.clipped == 0


@every_engine
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("spoilt_first", [True, False])
def test_a_non_finite_gradient_counts_as_zero(
    name: EngineName, model: nn.Module, bad: float, spoilt_first: bool, apart: "Apart"
) -> None:
    engine = make_engine(model, cross_entropy, name)
    x, y = batch(9, 16)
    spoilt = x.clone()
    spoilt[2, 3] = bad
    if spoilt_first:
        clipped = engine.clipped_sum(spoilt, y, 1.0)
    others = torch.tensor([0, 1, 3, 4, 5, 6, 7, 8])
    rest = engine.clipped_sum(x[others], y[others], 1.0)
    if not spoilt_first:
        clipped = engine.clipped_sum(spoilt, y, 1.0)
    assert clipped.nonfinite == 1
    assert clipped.clipped == rest.clipped
    assert not torch.isfinite(clipped.norms[2])
    assert apart(clipped.sums, rest.sums) < 1e-5
    torch.testing.assert_close(clipped.mean_loss(), rest.mean_loss())


def test_a_batch_without_any_finite_gradient_has_no_finite_loss() -> None:
    norms, losses = torch.tensor([math.nan, math.inf]), torch.tensor([1.0, 2.0])
    nobody = torch.zeros(2, dtype=torch.bool)
    assert not torch.isfinite(Clipped([], norms, losses, longer=nobody, nonfinite=2).mean_loss())


@every_engine
def test_frozen_parameters_are_left_out(name: EngineName, truth: "Ask", apart: "Apart") -> None:
    model = mlp((16, 6, 5, 3), 3)
    model[0].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    model[4].weight.requires_grad_(False)
    x, y = batch(6, 16)
    expected = truth(model, cross_entropy, x, y)
    engine = make_engine(model, cross_entropy, name)
    assert [id(w) for w in engine.weights] == [id(model[2].weight), id(model[4].bias)]
    for _ in range(2):
        clipped = engine.clipped_sum(x, y, 0.3)
        assert apart(clipped.sums, expected.sums(0.3)) < 1e-5
        assert apart([clipped.norms], [expected.norms()]) < 1e-5
    assert [w.requires_grad for w in model.parameters()] == [False, False, True, False, False, True]


@every_engine
@pytest.mark.parametrize("physical", [1, 4, 9, 100])
def test_physical_batches_change_nothing(
    name: EngineName, model: nn.Module, physical: int, apart: "Apart"
) -> None:
    x, y = batch(9, 16)
    x[4, 0] = math.nan
    whole = make_engine(model, cross_entropy, name)
    expected, norms = whole.clipped_sum(x, y, 0.5), whole.norms(x, y)
    whole.release()
    engine = make_engine(model, cross_entropy, name, physical_batch_size=physical)
    clipped = engine.clipped_sum(x, y, 0.5)
    assert apart(clipped.sums, expected.sums) < 1e-6
    torch.testing.assert_close(clipped.norms, expected.norms, equal_nan=True)
    torch.testing.assert_close(engine.norms(x, y), norms, equal_nan=True)
    torch.testing.assert_close(clipped.losses, expected.losses, equal_nan=True)
    assert (clipped.clipped, clipped.nonfinite) == (expected.clipped, 1)


@pytest.mark.parametrize("name", ["bookkeeping", "opacus"])
def test_per_layer_clipping_bounds_every_layer(
    name: EngineName, model: nn.Module, truth: "Ask", apart: "Apart"
) -> None:
    x, y = batch(9, 16)
    expected = truth(model, cross_entropy, x, y)
    engine = make_engine(model, cross_entropy, name, clipping="per_layer")
    clip = float(expected.norms().median())
    clipped = engine.clipped_sum(x, y, clip)
    assert apart(clipped.sums, expected.sums_per_layer(clip)) < 1e-5
    assert apart([clipped.norms], [expected.norms()]) < 1e-5
    assert clipped.clipped > 0
    for i in range(len(x)):
        one = engine.clipped_sum(x[i : i + 1], y[i : i + 1], clip).sums
        assert float(torch.cat([s.flatten() for s in one]).norm()) <= clip * (1 + 1e-6)


@pytest.mark.parametrize("name", ["bookkeeping", "opacus"])
def test_it_gives_the_gradients_themselves(
    name: EngineName, model: nn.Module, truth: "Ask", apart: "Apart"
) -> None:
    x, y = batch(7, 16)
    expected = truth(model, cross_entropy, x, y)
    engine = make_engine(model, cross_entropy, name, physical_batch_size=3)
    assert apart(engine.per_example(x, y), expected.gradients) < 1e-5
    assert [g.shape for g in engine.per_example(x[:0], y[:0])] == [(0, *w.shape) for w in engine.weights]


def test_ghost_refuses_what_it_does_not_support() -> None:
    engine = make_engine(mlp((16, 3), 1), cross_entropy, "opacus-ghost")
    with pytest.raises(SpecError) as caught:
        engine.per_example(*batch(2, 16))
    assert (caught.value.field, caught.value.value, caught.value.allowed) == (
        "engine",
        "opacus-ghost",
        ("opacus",),
    )
    with pytest.raises(SpecError) as caught:
        make_engine(mlp((16, 3), 1), cross_entropy, "opacus-ghost", "per_layer")
    assert (caught.value.field, caught.value.value, caught.value.allowed) == (
        "engine",
        "opacus-ghost",
        ("auto", "opacus"),
    )


@every_engine
def test_the_model_is_left_clean(name: EngineName, model: nn.Module) -> None:
    names, attributes = list(model.state_dict()), {type(m): set(vars(m)) for m in model.modules()}
    engine = make_engine(model, cross_entropy, name)
    for _ in range(2):
        engine.clipped_sum(*batch(4, 16), 1.0)
    assert all(w.grad is None for w in model.parameters())
    engine.release()
    assert list(model.state_dict()) == names
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._backward_hooks
        assert set(vars(module)) == attributes[type(module)]
    for weight in model.parameters():
        assert weight.requires_grad
        assert not any(hasattr(weight, each) for each in ("grad_sample", "_forward_counter", "_norm_sample"))


@every_engine
def test_a_gradient_left_behind_does_not_matter(name: EngineName, model: nn.Module) -> None:
    x, y = batch(4, 16)
    engine = make_engine(model, cross_entropy, name)
    expected = engine.clipped_sum(x, y, 1.0).sums
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    assert all(map(torch.equal, engine.clipped_sum(x, y, 1.0).sums, expected))


@every_engine
@pytest.mark.parametrize(
    ("layer", "word"),
    [
        (nn.BatchNorm1d(16), "GroupNorm"),
        (nn.BatchNorm1d(16, affine=False, track_running_stats=False), "GroupNorm"),
        (nn.MultiheadAttention(16, 2), "MultiheadAttention"),
    ],
)
def test_layers_that_mix_or_hide_examples_are_refused(name: EngineName, layer: nn.Module, word: str) -> None:
    engines: tuple[EngineName, ...] = (name, "auto")
    for engine in engines:
        with pytest.raises(SpecError, match=rf"layer '0' \({type(layer).__name__}\).*{word}"):
            make_engine(nn.Sequential(layer, nn.Linear(16, 3)), cross_entropy, engine)


class Scaled(nn.Module):
    """A layer without a rule, and a weight the loss does not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


@pytest.mark.slow
def test_auto_is_the_fastest_that_knows_every_layer(truth: "Ask", apart: "Apart") -> None:
    assert make_engine(mlp((16, 3), 1), cross_entropy).name == "bookkeeping"
    model = nn.Sequential(mlp((16, 3), 1), Scaled())
    x, y = batch(5, 16)
    expected = truth(model, cross_entropy, x, y).sums(0.5)
    engine = make_engine(model, cross_entropy)
    assert engine.name == "opacus"
    assert "layer '1' (Scaled) has no rule" in engine.why
    assert apart(engine.clipped_sum(x, y, 0.5).sums, expected) < 1e-5
    with pytest.raises(SpecError, match=r"layer '1' \(Scaled\).*use engine = 'opacus'.*Conv2d.*Linear"):
        make_engine(model, cross_entropy, "bookkeeping")


class Tied(nn.Module):
    """A code whose inverse is its transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(16, 16, bias=False), nn.Linear(16, 16)
        self.outward.weight = self.inward.weight

    def forward(self, x: Tensor) -> Tensor:
        coded: Tensor = self.outward(torch.tanh(self.inward(x)))
        return coded


def test_tied_weights_are_refused_or_added_up(truth: "Ask", apart: "Apart") -> None:
    names: list[EngineName] = ["bookkeeping", "opacus-ghost"]
    for name in names:
        with pytest.raises(SpecError, match=r"tied weights 'inward.weight' = 'outward.weight'.*'opacus'"):
            make_engine(Tied(), cross_entropy, name)
    with seeded(1):
        model = Tied()
    x, y = batch(5, 16)
    expected = truth(model, cross_entropy, x, y).sums(0.5)
    engine: Engine = make_engine(model, cross_entropy)
    assert engine.name == "opacus"
    assert apart(engine.clipped_sum(x, y, 0.5).sums, expected) < 1e-5


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SpecError) as caught:
        make_engine(mlp((16, 3), 1), cross_entropy, "bookeeping")  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.value, caught.value.allowed) == (
        "engine",
        "bookeeping",
        tuple(sorted(["auto", *ENGINES])),
    )
    assert {"auto", *ENGINES} == set(get_args(EngineName))


def test_a_model_without_trainable_weights_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        make_engine(mlp((16, 3), 1).requires_grad_(False), cross_entropy)
    assert (caught.value.field, caught.value.value) == ("workload", None)
