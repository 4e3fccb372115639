"""The engine against a naive loop over single examples."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from methods.gradients import Clipped, Engine, make_engine
from workloads.errors import SpecError
from workloads.models.init import seeded


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, labels, reduction="none")


class Scaled(nn.Module):
    """A layer Opacus has no hand-written rule for, and a weight the loss does not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)),
        nn.Conv2d(1, 4, 3),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(16, 3),
    "mlp": lambda: nn.Sequential(nn.Linear(16, 5), nn.ReLU(), nn.Linear(5, 3)),
    "convolution": convolution,
    "own layer": lambda: nn.Sequential(nn.Linear(16, 3), Scaled()),
    "frozen layer": lambda: nn.Sequential(nn.Linear(16, 5).requires_grad_(False), nn.Linear(5, 3)),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> nn.Module:
    with seeded(3):
        return MODELS[request.param]()


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(9, 16, generator=generator), torch.randint(3, (9,), generator=generator)


def naive(model: nn.Module, x: Tensor, y: Tensor, clip: float) -> tuple[list[Tensor], Tensor]:
    """One backward pass per example."""
    weights = [w for w in model.parameters() if w.requires_grad]
    sums, norms = [torch.zeros_like(w) for w in weights], []
    for i in range(len(x)):
        loss = cross_entropy(model(x[i : i + 1]), y[i : i + 1]).sum()
        gradients = torch.autograd.grad(loss, weights, materialize_grads=True)
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients))
        norms.append(norm)
        factor = min(1.0, clip / (norm + 1e-6))
        sums = [total + factor * g for total, g in zip(sums, gradients, strict=True)]
    return sums, torch.tensor(norms)


@pytest.mark.parametrize("clip", [0.1, 1.5, math.inf])
def test_it_agrees_with_one_example_at_a_time(
    model: nn.Module, batch: tuple[Tensor, Tensor], clip: float
) -> None:
    expected, norms = naive(model, *batch, clip)
    engine = make_engine(model, cross_entropy)
    for _ in range(2):
        clipped = engine.clipped_sum(*batch, clip)
        for ours, theirs in zip(clipped.sums, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(clipped.norms, norms, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(clipped.losses, cross_entropy(model(batch[0]), batch[1]).detach())
    assert clipped.nonfinite == 0


def one_norm(engine: Engine, x: Tensor, y: Tensor, clip: float) -> float:
    return float(torch.cat([s.flatten() for s in engine.clipped_sum(x, y, clip).sums]).norm())


def test_no_example_counts_for_more_than_the_clip(model: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    """The norm after clipping is at most C, and C to 1e-6 where the gradient was longer."""
    engine = make_engine(model, cross_entropy)
    x, y = batch
    norms = engine.clipped_sum(x, y, 1.0).norms
    clip = float(norms.median())
    for i in range(len(x)):
        after = one_norm(engine, x[i : i + 1], y[i : i + 1], clip)
        assert after <= clip * (1 + 1e-6)
        assert after == pytest.approx(min(clip, float(norms[i])), rel=1e-5, abs=2e-6)


def test_an_empty_batch_sums_to_zero(model: nn.Module) -> None:
    engine = make_engine(model, cross_entropy)
    clipped = engine.clipped_sum(torch.zeros(0, 16), torch.zeros(0, dtype=torch.int64), 1.0)
    assert [s.shape for s in clipped.sums] == [w.shape for w in engine.weights]
    assert all(not s.any() for s in clipped.sums)
    assert len(clipped.norms) == len(clipped.losses) == clipped.nonfinite == 0
    assert clipped.mean_loss() == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_non_finite_gradient_counts_as_zero(batch: tuple[Tensor, Tensor], bad: float) -> None:
    with seeded(3):
        model = MODELS["mlp"]()
    engine = make_engine(model, cross_entropy)
    x, y = batch
    rest = engine.clipped_sum(x[1:], y[1:], 1.0)
    spoilt = x.clone()
    spoilt[0] = bad
    clipped = engine.clipped_sum(spoilt, y, 1.0)
    assert clipped.nonfinite == 1
    for ours, theirs in zip(clipped.sums, rest.sums, strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(clipped.mean_loss(), rest.mean_loss())


def test_a_batch_without_any_finite_gradient_has_no_finite_loss() -> None:
    clipped = Clipped([], norms=torch.tensor([math.nan, math.inf]), losses=torch.tensor([1.0, 2.0]))
    assert clipped.nonfinite == 2
    assert not torch.isfinite(clipped.mean_loss())


def test_the_model_is_left_clean(model: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    names, attributes = list(model.state_dict()), {type(m): set(vars(m)) for m in model.modules()}
    engine = make_engine(model, cross_entropy)
    engine.clipped_sum(*batch, 1.0)
    assert all(w.grad is None for w in model.parameters())
    engine.release()
    assert list(model.state_dict()) == names
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._backward_hooks
        assert set(vars(module)) == attributes[type(module)]
    for weight in model.parameters():
        assert not hasattr(weight, "grad_sample")
        assert not hasattr(weight, "_forward_counter")


@pytest.mark.parametrize(
    ("layer", "word"),
    [
        (nn.BatchNorm1d(16), "GroupNorm"),
        (nn.BatchNorm1d(16, affine=False, track_running_stats=False), "GroupNorm"),
        (nn.MultiheadAttention(16, 2), "MultiheadAttention"),
    ],
)
def test_layers_that_mix_or_hide_examples_are_refused(layer: nn.Module, word: str) -> None:
    with pytest.raises(SpecError, match=rf"layer '0' \({type(layer).__name__}\).*{word}"):
        make_engine(nn.Sequential(layer, nn.Linear(16, 3)), cross_entropy)
