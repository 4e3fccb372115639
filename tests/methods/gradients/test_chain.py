"""Chains of linear layers by hand: which models have one, and that the other way gives the same."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from methods.gradients import Clipping
from methods.gradients.bookkeeping import BookkeepingEngine
from methods.gradients.chain import FEW_OUTPUTS, find_chain
from methods.training.cross_entropy import CrossEntropy
from workloads.errors import SpecError
from workloads.models.init import seeded

if TYPE_CHECKING:
    from tests.methods.gradients.conftest import Truth

    Ask = Callable[[nn.Module, Callable[[Tensor, Tensor], Tensor], Tensor, Tensor], Truth]
    Apart = Callable[[list[Tensor], list[Tensor]], float]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, labels, reduction="none")


def total(outputs: Tensor, labels: Tensor) -> Tensor:
    """A loss whose gradient is one number for all: autograd gives it without memory of its own."""
    return outputs.sum(dim=1)


def frozen(layer: nn.Module) -> nn.Module:
    return layer.requires_grad_(False)


def listened(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda module, inputs, output: 2 * output)
    return layer


def replaced(layer: nn.Module) -> nn.Module:
    layer.forward = lambda x: 2 * x
    return layer


class Half(nn.ReLU):
    """Another function than its base."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 2


CHAINS: dict[str, Callable[[], nn.Module]] = {
    "one layer": lambda: nn.Linear(6, 3),
    "many outputs": lambda: nn.Linear(6, FEW_OUTPUTS),
    "many outputs, no bias": lambda: nn.Sequential(
        nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, FEW_OUTPUTS + 6, bias=False)
    ),
    "no bias": lambda: nn.Sequential(nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 3, bias=False)),
    "activations": lambda: nn.Sequential(
        nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Sigmoid(), nn.Linear(4, 4), nn.Linear(4, 3), nn.Tanh()
    ),
    "in place": lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)),
    "nested": lambda: nn.Sequential(
        nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Sequential(nn.Linear(5, 3))
    ),
    "behind frozen layers": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), frozen(nn.Conv2d(1, 4, 2)), nn.Flatten(), nn.ReLU(), nn.Linear(8, 3)
    ),
    "frozen between": lambda: nn.Sequential(
        nn.Linear(6, 5), nn.ReLU(), frozen(nn.Linear(5, 4)), nn.Linear(4, 3)
    ),
    "frozen end": lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), frozen(nn.Linear(5, 3))),
}

OTHERS: dict[str, Callable[[], nn.Module]] = {
    "a layer twice": lambda: nn.Sequential(*([nn.Linear(6, 6)] * 2)),
    "two activations": lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Tanh(), nn.Linear(5, 3)),
    "another activation": lambda: nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 3)),
    "another layer": lambda: nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.Linear(5, 3)),
    "a subclass": lambda: nn.Sequential(nn.Linear(6, 5), Half(), nn.Linear(5, 3)),
    "a hook": lambda: nn.Sequential(nn.Linear(6, 5), listened(nn.ReLU()), nn.Linear(5, 3)),
    "a hook around": lambda: listened(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))),
    "another forward": lambda: nn.Sequential(nn.Linear(6, 5), replaced(nn.ReLU()), nn.Linear(5, 3)),
}


def build(make: Callable[[], nn.Module]) -> nn.Module:
    with seeded(2):
        return make().double()


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(7, 6, generator=generator, dtype=torch.float64)
    return x, torch.randint(3, (7,), generator=generator)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("loss", [cross_entropy, CrossEntropy(), total])
@pytest.mark.parametrize("clipping", ["flat", "per_layer"])
def test_a_chain_agrees_with_one_example_at_a_time(
    name: str,
    loss: Callable[[Tensor, Tensor], Tensor],
    clipping: Clipping,
    truth: "Ask",
    apart: "Apart",
) -> None:
    model = build(CHAINS[name])
    assert find_chain(model) is not None
    x, y = batch()
    expected = truth(model, loss, x, y)
    engine = BookkeepingEngine(model, loss, clipping)
    clip = 1.001 * float(expected.norms().median())
    sums = expected.sums(clip) if clipping == "flat" else expected.sums_per_layer(clip)
    for _ in range(2):
        clipped = engine.clipped_sum(x, y, clip)
        assert apart([clipped.norms], [expected.norms()]) < 1e-9
        assert apart(clipped.sums, sums) < 1e-9
    torch.testing.assert_close(clipped.losses, loss(model(x), y).detach())
    assert apart(engine.per_example(x, y), expected.gradients) < 1e-9
    x[1, 2] = math.nan
    others = torch.tensor([0, 2, 3, 4, 5, 6])
    left = engine.clipped_sum(x, y, clip)
    assert apart(left.sums, engine.clipped_sum(x[others], y[others], clip).sums) < 1e-9
    assert left.nonfinite == 1


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_looks_like_a_chain_goes_the_other_way(name: str, truth: "Ask", apart: "Apart") -> None:
    model = build(OTHERS[name])
    assert find_chain(model) is None
    x, y = batch()
    expected = truth(model, cross_entropy, x, y).sums(0.5)
    assert apart(BookkeepingEngine(model, cross_entropy).clipped_sum(x, y, 0.5).sums, expected) < 1e-9


def test_sequences_go_the_other_way(truth: "Ask", apart: "Apart") -> None:
    def energy(outputs: Tensor, labels: Tensor) -> Tensor:
        return outputs.tanh().sum(dim=(1, 2)) * labels

    model = build(CHAINS["nested"])
    assert find_chain(model) is not None
    x, y = batch()
    x = torch.stack([x, 2 * x, -x], dim=1)
    expected = truth(model, energy, x, y).sums(0.5)
    assert apart(BookkeepingEngine(model, energy).clipped_sum(x, y, 0.5).sums, expected) < 1e-9


class Wrong(CrossEntropy):
    """A loss whose declaration is another one's."""

    def with_gradient(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor] | None:
        found = super().with_gradient(logits, labels)
        return None if found is None else (found[0], 2 * found[1])


def test_a_declared_gradient_that_is_not_autograd_s_is_refused() -> None:
    x, y = batch()
    with pytest.raises(SpecError) as caught:
        BookkeepingEngine(build(CHAINS["nested"]), Wrong()).clipped_sum(x, y, 0.5)
    assert caught.value.field == "loss"
