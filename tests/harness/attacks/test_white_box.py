"""White-box: the gradient's factors against autograd, and what partial knowledge may and may not use."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from harness.attacks.base import Bools, Evidence
from harness.attacks.white_box import WhiteBox, WhiteBoxParams, last_layer
from harness.leakage.figures import evaluate
from tests.harness.simulated import known
from workloads.base import Records
from workloads.errors import BenchError
from workloads.models.cnn import mnist_cnn
from workloads.models.mlp import mlp

MODELS, RECORDS = 3, 400


class Sure(nn.Module):
    """A network that is more confident of some records: of its members, if they are given."""

    def __init__(self, base: nn.Sequential, members: Tensor, by: float) -> None:
        super().__init__()
        self.base, self.members, self.by = base, members, by
        self.last = base[-1]

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.base[:-1](x[:, 1:])
        logits: Tensor = self.last(hidden * (1 + self.by * self.members[x[:, 0].long(), None]))
        return logits


@pytest.fixture
def sure(masks: Callable[..., Bools]) -> Evidence:
    """Networks that are more confident of their members; a record's first column is its number."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(RECORDS, 10, generator=random)
    members = masks(np.random.default_rng(0), MODELS, RECORDS, RECORDS // 2)
    models = [
        Sure(mlp((10, 80, 3), seed), torch.from_numpy(own).float(), 1.0) for seed, own in enumerate(members)
    ]
    numbered = torch.cat([torch.arange(float(RECORDS))[:, None], x], dim=1)
    pool = Records(numbered, models[0].base(x).argmax(1))
    with torch.no_grad():
        logits = torch.stack([model(numbered) for model in models]).numpy()
    labels = pool.y.numpy()
    return Evidence(logits, labels, members, logits[:, :1], labels[:1], pool, released=models.__getitem__)


@pytest.mark.parametrize(
    ("model", "shape"), [(mlp((7, 5, 3), 0), (7,)), (mlp((7, 3), 0), (7,)), (mnist_cnn(0), (1, 28, 28))]
)
def test_the_factors_make_the_gradient_of_autograd(model: nn.Sequential, shape: tuple[int, ...]) -> None:
    random = torch.Generator().manual_seed(1)
    x, y = torch.randn(6, *shape, generator=random), torch.randint(3, (6,), generator=random)
    found = last_layer(model, x, y)
    layer = model[-1]
    weights = list(layer.parameters())
    for i in range(6):
        loss = cross_entropy(model(x[i : i + 1]), y[i : i + 1])
        by_weight, by_bias = torch.autograd.grad(loss, weights)
        torch.testing.assert_close(found.gradient[i], by_weight, rtol=0, atol=1e-6)
        torch.testing.assert_close(found.error[i], by_bias, rtol=0, atol=1e-6)
    assert not layer._forward_hooks


@pytest.mark.parametrize("model", [nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(dim=1)), nn.Flatten()])
def test_a_model_without_a_final_linear_layer_is_refused(model: nn.Module) -> None:
    with pytest.raises(BenchError) as caught:
        last_layer(model, torch.randn(2, 4), torch.zeros(2, dtype=torch.int64))
    assert caught.value.field == "model"


@pytest.mark.parametrize("knowledge", ["partial", "shadow"])
def test_it_finds_the_records_the_models_are_confident_of(knowledge: str, sure: Evidence) -> None:
    params = WhiteBoxParams.model_validate({"knowledge": knowledge, "trees": 30})
    assert known(evaluate(WhiteBox().scores(sure, params), sure.members, "learned").auc) > 0.75


def test_shadow_knowledge_does_not_look_at_the_target(sure: Evidence) -> None:
    params = WhiteBoxParams(knowledge="shadow", trees=5)
    members = sure.members.copy()
    members[0] = members[0, ::-1]
    changed = WhiteBox().scores(replace(sure, members=members), params)
    np.testing.assert_array_equal(changed[0], WhiteBox().scores(sure, params)[0])


def test_partial_knowledge_is_of_the_other_half_of_the_records(sure: Evidence) -> None:
    """Flipping one record's membership changes scores of the other half only."""
    params = WhiteBoxParams(trees=5)
    before = WhiteBox().scores(sure, params)[0]
    members = sure.members.copy()
    members[0, 7] = not members[0, 7]
    changed = WhiteBox().scores(replace(sure, members=members), params)[0] != before
    assert not changed[7]
    assert 0 < changed.sum() <= RECORDS / 2


def test_a_lone_model_has_no_shadows_to_learn_from(sure: Evidence) -> None:
    alone = replace(sure, members=sure.members[:1], logits=sure.logits[:1])
    with pytest.raises(BenchError) as caught:
        WhiteBox().scores(alone, WhiteBoxParams(knowledge="shadow"))
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("models", 1, 2)
