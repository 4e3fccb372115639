"""The engine with compiled passes: the sums of the plain one, whatever the batch and its history."""

import math
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from methods.gradients import Engine, make_engine
from tests.methods.gradients.test_engines import batch, cross_entropy
from workloads.errors import SpecError
from workloads.models.init import seeded
from workloads.models.mlp import mlp
from workloads.models.wrn import StandardisedConv2d

if TYPE_CHECKING:
    from tests.methods.gradients.conftest import Truth

    Ask = Callable[[nn.Module, Callable[[Tensor, Tensor], Tensor], Tensor, Tensor], Truth]
    Apart = Callable[[list[Tensor], list[Tensor]], float]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs g++ on a CPU"),
    # Torch's own compiler imports modules that Python is about to drop.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
]

SIDE = 6


class Forked(nn.Module):
    """A layer of every kind that images meet, one of them called twice, one frozen and one never reached."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.again = StandardisedConv2d(4, 4, 3, padding=1, bias=True)
        self.frozen = nn.Conv2d(4, 4, 1).requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(4 * SIDE * SIDE, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu_(self.norm(self.first(x)))
        x = self.frozen(torch.tanh_(self.again(torch.tanh_(self.again(x)))))
        logits: Tensor = self.head(x.flatten(1))
        return logits


def forked() -> nn.Module:
    with seeded(2):
        return Forked().double()


def images(count: int) -> tuple[Tensor, Tensor]:
    return batch(count, 2, SIDE, SIDE, dtype=torch.float64)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = make_engine(forked(), cross_entropy, "compiled")
    yield made
    made.release()


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 3, 1, 4])
def test_it_agrees_with_one_example_at_a_time(
    count: int, engine: Engine, truth: "Ask", apart: "Apart"
) -> None:
    x, y = images(count)
    expected = truth(forked(), cross_entropy, x, y)
    for clip in (math.inf, 1.001 * float(expected.norms().median())):
        clipped = engine.clipped_sum(x, y, clip)
        assert apart([clipped.norms], [expected.norms()]) < 1e-9
        assert apart(clipped.sums, expected.sums(clip)) < 1e-9
    torch.testing.assert_close(clipped.losses, cross_entropy(forked()(x), y).detach())


def test_a_spoilt_example_counts_as_zero(engine: Engine, apart: "Apart") -> None:
    x, y = images(5)
    good = engine.clipped_sum(x[:4], y[:4], 1.0)
    x[4, 0, 0, 0] = math.nan
    spoilt = engine.clipped_sum(x, y, 1.0)
    assert spoilt.nonfinite == 1
    assert apart(spoilt.sums, good.sums) < 1e-9


def test_bits_do_not_depend_on_the_batches_before(engine: Engine) -> None:
    """A resumed training starts with another batch, and must give the same bits."""
    for count in (5, 2, 1, 4):
        engine.clipped_sum(*images(count), 1.0)
    later = engine.clipped_sum(*images(3), 1.0)
    fresh = make_engine(forked(), cross_entropy, "compiled").clipped_sum(*images(3), 1.0)
    assert all(map(torch.equal, [*later.sums, later.norms], [*fresh.sums, fresh.norms]))


def test_the_model_is_left_clean() -> None:
    model = forked()
    computes = make_engine(model, cross_entropy, "compiled")
    computes.clipped_sum(*images(2), 1.0)
    computes.release()
    assert not any(module._forward_hooks for module in model.modules())
    assert all(weight.grad is None for weight in model.parameters())
    assert [name for name, weight in model.named_parameters() if not weight.requires_grad] == [
        "frozen.weight",
        "frozen.bias",
    ]


class Looking(nn.Module):
    """A model with a data-dependent branch."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(x if float(x.sum()) > 0 else -x)
        return logits


def test_a_model_the_compiler_cannot_take_is_refused() -> None:
    engine = make_engine(Looking(), cross_entropy, "compiled")
    with pytest.raises(
        SpecError, match=r"torch\.compile does not support this model.*engine = 'bookkeeping'"
    ):
        engine.clipped_sum(*batch(4, 16), 1.0)


def test_without_a_compiler_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SpecError) as caught:
        make_engine(mlp((16, 3), 1), cross_entropy, "compiled")
    assert (caught.value.field, caught.value.value, caught.value.allowed) == (
        "engine",
        "compiled",
        ("bookkeeping",),
    )
