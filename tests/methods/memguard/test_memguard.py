"""memguard: plain training inside, a surrogate that learns, and attacks on confidence that it weakens."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import ValidationError
from torch import Tensor

from harness.jobs.run import Run
from methods import sgd
from methods.base import Problem, Released
from methods.memguard.guard import Guarded
from methods.memguard.memguard import MemguardParams, gather, method
from workloads.base import Records
from workloads.errors import SpecError
from workloads.models.mlp import mlp

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

    Runs = Callable[[int], SimplestRun]


def params(**given: Any) -> MemguardParams:
    return MemguardParams(**({"steps": 20, "batch_size": 10, "learning_rate": 0.2, "iterations": 20} | given))


def guarded(released: Released) -> Guarded:
    assert isinstance(released.predictor, Guarded)
    return released.predictor


def test_inside_is_what_sgd_releases(problem: Problem, members: Records, run_of: "Runs") -> None:
    training = {"steps": 30, "batch_size": 8, "learning_rate": 0.1, "momentum": 0.9, "schedule": "cosine"}
    released = method.train(members, problem, params(**training), run_of(1))
    plain = sgd.method.train(members, problem, sgd.SgdParams(**training), run_of(1))  # type: ignore[arg-type]
    inside, weights = guarded(released).predictor.state_dict(), plain.predictor.state_dict()
    assert all(torch.equal(inside[name], weights[name]) for name in weights)
    assert torch.equal(released.predictor(members.x).argmax(1), plain.predictor(members.x).argmax(1))
    assert released.ledger == NonPrivateDpEvent()
    assert not released.predictor.training


def strangers(seed: int) -> Records:
    """A hundred records in ten overlapping classes: members are memorised."""
    random = torch.Generator().manual_seed(seed)
    y = torch.arange(100) % 10
    return Records(torch.randn(100, 20, generator=random) + 2 * torch.eye(10, 20)[y], y)


def confidence_auc(predictor: Callable[[Tensor], Tensor], inside: Records, outside: Records) -> float:
    """The AUC of an attack that scores records by confidence."""
    with torch.no_grad():
        first, second = (predictor(each.x).log_softmax(1).amax(1).double() for each in (inside, outside))
    higher, equal = first[:, None] > second, first[:, None] == second
    return float(higher.double().mean() + equal.double().mean() / 2)


@pytest.mark.slow
def test_it_weakens_an_attack_on_confidence_and_changes_no_label(
    problem: Problem, run: "SimplestRun"
) -> None:
    inside, outside = strangers(0), strangers(1)
    learner = Problem(10, lambda seed: mlp((20, 30, 10), seed), problem.loss)
    chosen = params(steps=200, batch_size=20, learning_rate=0.3, iterations=100, distortion=2.0)
    released = method.train(inside, learner, chosen, run)
    assert released.stats["surrogate_accuracy"] > 0.7
    predictor = guarded(released).predictor
    before, after = (confidence_auc(each, inside, outside) for each in (predictor, released.predictor))
    assert before > 0.7
    assert abs(after - 0.5) < abs(before - 0.5) - 0.1
    for people in (inside, outside):
        assert torch.equal(released.predictor(people.x).argmax(1), predictor(people.x).argmax(1))


def test_the_surrogate_learns_from_sorted_probabilities_of_both_halves(
    problem: Problem, members: Records
) -> None:
    rows = torch.arange(60)
    evidence = gather(problem.model(0), members.take(rows[:30]), members.take(rows[30:]))
    assert evidence.y.tolist() == [1.0] * 30 + [0.0] * 30
    assert (evidence.x.diff(dim=1) >= 0).all()
    torch.testing.assert_close(evidence.x.sum(1), torch.ones(60, dtype=torch.float64))


@pytest.mark.parametrize("steps", [1, 20, 25, 40, 55])
def test_it_resumes_in_every_phase(
    steps: int,
    problem: Problem,
    members: Records,
    resume: Callable[[Callable[[Run], Released], int], Released],
) -> None:
    """Twenty steps each of the classifier, the shadow and the surrogate."""

    def train(run: Run) -> Released:
        return method.train(members, problem, params(momentum=0.9), run)

    whole, resumed = train(Run("seed", torch.device("cpu"))), resume(train, steps)
    one, other = whole.predictor.state_dict(), resumed.predictor.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert whole.stats == resumed.stats


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"distortion": -0.1}, "distortion must be >= 0, got -0.1"),
        ({"iterations": 0}, "iterations must be > 0, got 0"),
        ({"surrogate_rate": 0.0}, "surrogate_rate must be > 0, got 0.0"),
        ({"epsilon": 1.0}, "epsilon"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)


def test_one_member_cannot_be_halved(problem: Problem, members: Records, run: "SimplestRun") -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members.take(torch.tensor([0])), problem, params(batch_size=1), run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("share", 0.5, 0.0)
