"""Two losses from one pass are the losses of two passes."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from methods.dpsur.paired_loss import PairedLoss
from methods.gradients import make_engine
from workloads.base import Records
from workloads.models.cnn import mnist_cnn
from workloads.models.lstm import review_lstm
from workloads.models.mlp import mlp
from workloads.models.wrn import wrn


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(logits, labels, reduction="none")


def pairs_of(model: nn.Module) -> list[Tensor]:
    random = torch.Generator().manual_seed(1)
    return [
        torch.stack([weight.detach(), weight.detach() + 0.1 * torch.randn(weight.shape, generator=random)])
        for weight in model.parameters()
    ]


def paired(model: nn.Module, records: Records) -> tuple[PairedLoss, list[Tensor]]:
    weights, pairs = list(model.parameters()), pairs_of(model)
    return PairedLoss(model, loss, weights, pairs, records.take(torch.zeros(1, dtype=torch.int64))), pairs


def plainly(model: nn.Module, pairs: list[Tensor], records: Records) -> Tensor:
    """The slow way: one forward pass for each set of weights."""
    found = []
    for index in (0, 1):
        with torch.no_grad():
            for weight, pair in zip(model.parameters(), pairs, strict=True):
                weight.copy_(pair[index])
            found.append(loss(model(records.x), records.y).double().mean())
    return torch.stack(found)


def features(count: int) -> Records:
    random = torch.Generator().manual_seed(0)
    return Records(torch.randn(count, 6, generator=random), torch.arange(count) % 3)


class Branching(nn.Module):
    """A model with a data-dependent branch, which vmap does not support."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = mlp((6, 3), 0)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layer(x)
        return logits if float(logits.sum()) > 0 else 2 * logits


def test_a_perceptron() -> None:
    model, records = mlp((6, 5, 3), 0), features(20)
    both, pairs = paired(model, records)
    assert both.batched
    torch.testing.assert_close(both(records), plainly(model, pairs, records), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("make", [mnist_cnn, partial(wrn, depth=10, width=1, classes=10)])
def test_a_convolution_takes_two_passes_in_any_layout(make: Callable[[int], nn.Module]) -> None:
    random = torch.Generator().manual_seed(0)
    model, planes = make(0), 1 if make is mnist_cnn else 3
    records = Records(torch.randn(8, planes, 28, 28, generator=random), torch.arange(8)).channels_last()
    both, pairs = paired(model, records)
    assert not both.batched
    torch.testing.assert_close(both(records), plainly(model, pairs, records), rtol=1e-5, atol=1e-6)


def test_weights_that_a_module_lists_twice() -> None:
    """Opacus's LSTM: its inner layers hold the weights, and it lists them as its own."""
    random = torch.Generator().manual_seed(0)
    model = review_lstm(0, words=30)
    records = Records(torch.randint(30, (5, 7), generator=random), torch.arange(5) % 2)
    both, pairs = paired(model, records)
    torch.testing.assert_close(both(records), plainly(model, pairs, records), rtol=1e-5, atol=1e-6)


def test_two_passes_where_one_cannot_be_had() -> None:
    model, records = Branching(), features(20)
    both, pairs = paired(model, records)
    assert not both.batched
    torch.testing.assert_close(both(records), plainly(model, pairs, records), rtol=1e-6, atol=1e-7)


def test_a_broken_model_is_not_taken_for_one_that_vmap_cannot_follow() -> None:
    model = mlp((5, 3), 0)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        paired(model, features(20))


def test_dropout_is_off_and_comes_back() -> None:
    model = nn.Sequential(nn.Dropout(0.5), *mlp((6, 3), 0)).train()
    records = features(20)
    both, _ = paired(model, records)
    assert torch.equal(both(records), both(records))
    assert model.training
    assert model[0].training


@pytest.mark.parametrize("engine", ["bookkeeping", "opacus", "opacus-ghost"])
def test_the_hooks_of_an_engine_do_not_mind(engine: str) -> None:
    model, records = mlp((6, 5, 3), 0), features(20)
    expected = paired(model, records)[0](records)
    hooked = make_engine(model, loss, engine)  # type: ignore[arg-type]
    before = hooked.clipped_sum(records.x, records.y, 1.0).sums
    torch.testing.assert_close(paired(model, records)[0](records), expected)
    torch.testing.assert_close(hooked.clipped_sum(records.x, records.y, 1.0).sums, before)


def test_no_records_have_no_loss() -> None:
    model, records = mlp((6, 3), 0), features(4)
    both, _ = paired(model, records)
    assert both(records.take(torch.zeros(0, dtype=torch.int64))).tolist() == [0.0, 0.0]
