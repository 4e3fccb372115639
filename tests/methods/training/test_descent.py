"""Plain descent against torch's own optimizers, and on the records it may see."""

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from methods.base import Problem
from methods.training.descent import Descent, DescentParams, predict
from methods.training.holdout import hold_out
from methods.training.optimizer import make_optimizer, set_rate
from methods.training.sampling import ShuffleSampler
from workloads.base import Records
from workloads.errors import SpecError
from workloads.models.mlp import mlp

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun


def flat(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


@pytest.mark.parametrize(
    "chosen", [{}, {"momentum": 0.9, "schedule": "cosine"}, {"optimizer": "adam", "weight_decay": 0.01}]
)
def test_it_is_the_loop_anybody_would_write(
    chosen: dict[str, Any], problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    params = DescentParams(steps=20, batch_size=16, learning_rate=0.1, **chosen)
    rows = torch.arange(0, 60, 2)
    descent = Descent(problem.model(3), members, problem.loss, params, run, "here", rows)
    trained = descent.descend("train", params.steps)

    model = problem.model(3)
    optimizer = make_optimizer(model.parameters(), params)
    sampler = ShuffleSampler(30, 16, torch.Generator().manual_seed(run.seed("here")))
    for step in range(params.steps):
        batch = members.take(rows[sampler.draw()])
        optimizer.zero_grad()
        torch.autograd.backward(problem.loss(model(batch.x), batch.y).mean())
        set_rate(optimizer, params.schedule, params.learning_rate, step, params.steps)
        optimizer.step()
    assert torch.equal(flat(trained), flat(model))
    assert not trained.training


def test_a_loss_that_leads_through_another_network_leaves_no_gradient_there(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    other = mlp((3, 1), 0)

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        value: Tensor = other(logits).squeeze(1)
        return value

    descent = Descent(problem.model(0), members, loss, DescentParams(batch_size=8), run, "here")
    before = flat(descent.model)
    descent.step(0, 1)
    assert all(weight.grad is None for weight in other.parameters())
    assert not torch.equal(flat(descent.model), before)


def test_without_records_a_step_changes_nothing(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    nobody = torch.empty(0, dtype=torch.int64)
    descent = Descent(problem.model(0), members, problem.loss, DescentParams(), run, "here", nobody)
    assert float(descent.step(0, 1)) == 0
    assert torch.equal(flat(descent.model), flat(problem.model(0)))


def test_predictions_are_of_the_model_in_evaluation_mode(members: Records) -> None:
    model = nn.Sequential(nn.Dropout(0.5), mlp((4, 3), 0))
    said = predict(model, Records(members.x.repeat(50, 1), members.y.repeat(50)))
    torch.testing.assert_close(said, model[1](members.x).detach().repeat(50, 1))
    assert not said.requires_grad


@pytest.mark.parametrize(("share", "aside"), [(0.25, 15), (0.001, 1), (0.5, 30)])
def test_held_out_records_are_the_others(share: float, aside: int) -> None:
    kept, held = hold_out(60, share, torch.Generator().manual_seed(0))
    assert len(held) == aside
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(60))
    other, _ = hold_out(60, share, torch.Generator().manual_seed(1))
    assert not torch.equal(kept, other)


def test_holding_out_every_member_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        hold_out(60, 0.999, torch.Generator())
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("share", 0.999, 1 - 1 / 60)
