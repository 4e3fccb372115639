"""selena: what the released model learns, its stats, and what its parameters refuse."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import ValidationError

from harness.jobs.run import Run
from methods.base import Problem, Released
from methods.selena.selena import SelenaParams, label_members, method, soft_cross_entropy
from methods.selena.split_ai import draw_absences
from workloads.base import Records
from workloads.errors import SpecError

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

    Runs = Callable[[int], SimplestRun]


def params(**given: Any) -> SelenaParams:
    return SelenaParams(**({"steps": 20, "batch_size": 10, "learning_rate": 0.5, "K": 5, "L": 2} | given))


def test_it_learns_and_has_no_guarantee(problem: Problem, members: Records, run: "SimplestRun") -> None:
    released = method.train(members, problem, params(steps=100), run)
    assert (released.predictor(members.x).argmax(1) == members.y).float().mean() > 0.9
    assert released.ledger == NonPrivateDpEvent()
    assert not released.predictor.training
    assert released.stats["split_ai_accuracy"] > 0.9
    assert released.stats["distil_agreement"] > 0.9
    assert 0 < released.stats["smallest_sub_model"] <= 36


def test_the_released_model_has_seen_soft_labels_only(
    problem: Problem, members: Records, run_of: "Runs"
) -> None:
    """Distilled by hand from the same soft labels: bit for bit the same model."""
    chosen = params(distil_steps=30)
    released = method.train(members, problem, chosen, run_of(0))
    run = run_of(0)
    absent = draw_absences(60, 5, 2, run.generator("absences"))
    answers = label_members(members, absent, problem, chosen, run)
    model = problem.model(run.seed("init"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    order = torch.empty(0, dtype=torch.int64)
    for _ in range(30):
        if len(order) == 0:
            order = torch.randperm(60, generator=run.generator("distil"))
        rows, order = order[:10], order[10:]
        optimizer.zero_grad()
        torch.autograd.backward(soft_cross_entropy(model(members.x[rows]), answers[rows]).mean())
        optimizer.step()
    weights = released.predictor.state_dict()
    assert all(torch.equal(weight, weights[name]) for name, weight in model.state_dict().items())


def test_the_loss_of_a_sure_soft_label_is_that_of_the_label(problem: Problem) -> None:
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 1, 0])
    torch.testing.assert_close(soft_cross_entropy(logits, torch.eye(3)[labels]), problem.loss(logits, labels))
    soft = torch.tensor([[0.5, 0.3, 0.2]]).expand(5, 3)
    by_hand = -(soft * logits.log_softmax(1)).sum(1)
    torch.testing.assert_close(soft_cross_entropy(logits, soft), by_hand)


@pytest.mark.parametrize("steps", [1, 19, 20, 21, 35])
def test_it_resumes_in_every_phase(
    steps: int,
    problem: Problem,
    members: Records,
    resume: Callable[[Callable[[Run], Released], int], Released],
) -> None:
    """Twenty steps of the sub-models, one of the soft labels, twenty of the distillation."""

    def train(run: Run) -> Released:
        return method.train(members, problem, params(optimizer="adam", learning_rate=0.02), run)

    whole, resumed = train(Run("seed", torch.device("cpu"))), resume(train, steps)
    one, other = whole.predictor.state_dict(), resumed.predictor.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert whole.stats == resumed.stats


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"L": 5}, r"L = 5 of K = 5 sub-models do not see a record.*give L < K"),
        ({"L": 0}, "L must be > 0, got 0"),
        ({"K": -1}, "K must be > 0, got -1"),
        ({"distil_steps": 0}, "distil_steps must be > 0, got 0"),
        ({"epsilon": 1.0}, "epsilon"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)


def test_a_batch_larger_than_the_members_is_refused(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(batch_size=61), run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batch_size", 61, (1, 60))
