"""Split-AI against sub-models trained one by one, and the facts that the defence rests on."""

import math
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn

from methods.base import Problem
from methods.selena.split_ai import SplitAi, draw_absences
from methods.training.descent import DescentParams
from methods.training.optimizer import make_optimizer, set_rate
from methods.training.sampling import ShuffleSampler
from workloads.base import Records
from workloads.models.init import seeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.methods.conftest import SimplestRun

PARAMS = DescentParams(steps=25, batch_size=8, learning_rate=0.2, momentum=0.9, schedule="cosine")


def small_convolution(seed: int) -> nn.Module:
    with seeded(seed):
        return nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(6, 3))


def train(members: Records, absent: Tensor, problem: Problem, run: "SimplestRun") -> SplitAi:
    sub_models = SplitAi(problem.model, members, absent, problem.loss, PARAMS, run)
    for step in range(PARAMS.steps):
        sub_models.step(step, PARAMS.steps)
    return sub_models


def answers(sub_models: SplitAi, classes: int = 3) -> Tensor:
    said = torch.zeros(len(sub_models.members), classes)
    for group in range(len(sub_models.groups)):
        sub_models.add_predictions(group, said)
    return said


def one_by_one(members: Records, absent: Tensor, problem: Problem, run: "SimplestRun") -> Tensor:
    """Every sub-model by itself, its rows drawn according to the definition, and a mean for every member."""
    random, count = torch.Generator().manual_seed(run.seed("sub-models")), absent.shape[1]
    seen = [[i for i in range(len(members)) if not absent[i, k]] for k in range(count)]
    samplers = [ShuffleSampler(len(rows), min(8, len(rows)), random) for rows in seen]
    # The streams of all are one, so that step by step each takes its turn.
    batches = [
        [torch.tensor(seen[k])[samplers[k].draw()] if seen[k] else None for k in range(count)]
        for _ in range(PARAMS.steps)
    ]
    probabilities = []
    for k in range(count):
        model = problem.model(run.seed(f"sub-model-{k}"))
        optimizer = make_optimizer(model.parameters(), PARAMS)
        for step, drawn in enumerate(batches):
            if (rows := drawn[k]) is None:
                continue
            optimizer.zero_grad()
            torch.autograd.backward(problem.loss(model(members.x[rows]), members.y[rows]).mean())
            set_rate(optimizer, PARAMS.schedule, PARAMS.learning_rate, step, PARAMS.steps)
            optimizer.step()
        probabilities.append(model(members.x).softmax(1).detach())
    means = [
        torch.stack([probabilities[k][i] for k in range(count) if absent[i, k]]).mean(0)
        for i in range(len(members))
    ]
    return torch.stack(means)


@pytest.mark.parametrize("kind", ["stacked", "one at a time"])
def test_predictions_are_those_of_sub_models_trained_one_by_one(
    kind: str, problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    if kind == "one at a time":
        problem = Problem(3, small_convolution, problem.loss)
    absent = draw_absences(60, 6, 2, torch.Generator().manual_seed(0))
    sub_models = train(members, absent, problem, run)
    assert len(sub_models.groups) == (1 if kind == "stacked" else 6)
    torch.testing.assert_close(
        answers(sub_models), one_by_one(members, absent, problem, run), rtol=1e-4, atol=1e-5
    )


def test_a_sub_model_without_members_keeps_its_initial_weights(problem: Problem, run: "SimplestRun") -> None:
    members = Records(torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2]))
    absent = torch.tensor([[True, False], [True, False], [True, False]])
    said = answers(train(members, absent, problem, run))
    fresh = problem.model(run.seed("sub-model-0"))
    torch.testing.assert_close(said, fresh(members.x).softmax(1).detach())


def test_every_member_is_kept_from_exactly_so_many_and_all_sets_are_as_likely() -> None:
    absent = draw_absences(6000, 4, 2, torch.Generator().manual_seed(0))
    assert (absent.sum(1) == 2).all()
    sets = torch.bincount(absent.long() @ torch.tensor([1, 2, 4, 8]), minlength=16)
    assert sorted(sets.nonzero().flatten().tolist()) == [3, 5, 6, 9, 10, 12]
    # Each of the six has 1,000 +- 29.
    assert (sets[sets > 0] - 1000).abs().max() < 5 * math.sqrt(6000 * 5 / 36)


def test_a_sub_model_sees_the_expected_share() -> None:
    """Binomial(n, 1 - L / K): 60 % for K = 25 and L = 10."""
    seen = (~draw_absences(5000, 25, 10, torch.Generator().manual_seed(0))).sum(0)
    assert (seen - 3000).abs().max() < 5 * math.sqrt(5000 * 0.6 * 0.4)


def test_soft_labels_are_probabilities(problem: Problem, members: Records, run: "SimplestRun") -> None:
    absent = draw_absences(60, 5, 3, torch.Generator().manual_seed(0))
    said = answers(train(members, absent, problem, run))
    assert (said >= 0).all()
    torch.testing.assert_close(said.sum(1), torch.ones(60))


def test_the_soft_label_of_a_member_does_not_depend_on_it(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    """Another label and another x for member 7: the sub-models that label it never saw it, others did."""
    absent = draw_absences(60, 6, 2, torch.Generator().manual_seed(0))
    x, y = members.x.clone(), members.y.clone()
    x[7], y[7] = 5.0, (y[7] + 1) % 3
    one = train(members, absent, problem, run_of(0))
    other = train(Records(x, y), absent, problem, run_of(0))
    other.members = members
    assert torch.equal(answers(one)[7], answers(other)[7])
    assert not torch.equal(answers(one), answers(other))
