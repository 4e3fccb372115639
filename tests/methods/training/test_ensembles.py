"""Teachers trained together against teachers trained one by one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

from harness.jobs.checkpoint import restore, state_of
from methods.base import Problem
from methods.training import ensembles
from methods.training.ensembles import Ensemble, Shards, Stack, group_size
from methods.training.optimizer import OptimizerParams, make_optimizer
from workloads.base import Records
from workloads.models.cnn import mnist_cnn
from workloads.models.mlp import mlp
from workloads.models.scatter import scatter_linear

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

QUESTIONS = torch.randn(9, 4, generator=torch.Generator().manual_seed(5))


def settings(**given: Any) -> OptimizerParams:
    return OptimizerParams(**({"steps": 12, "batch_size": 6, "learning_rate": 0.2, "momentum": 0.5} | given))


def dealt(members: Records, count: int, seed: int = 3) -> Shards:
    return Shards(members, count, torch.Generator().manual_seed(seed))


def ensemble(
    problem: Problem, members: Records, run: "SimplestRun", count: int = 7, **given: Any
) -> Ensemble:
    return Ensemble(problem.model, dealt(members, count), problem.loss, settings(**given), QUESTIONS, run)


def finish(teachers: Ensemble, begin: int = 0) -> Tensor:
    for number in range(begin, teachers.total):
        teachers.step(number)
    return teachers.predictions


# -- shards ----------------------------------------------------------------------------------------


def test_every_member_is_in_one_shard(members: Records) -> None:
    shards = dealt(members, 7)
    rows = [shards.rows(shard) for shard in range(7)]
    assert torch.cat(rows).sort().values.tolist() == list(range(len(members)))
    assert [len(each) for each in rows] == shards.sizes.tolist()


def test_one_member_more_changes_one_shard(members: Records) -> None:
    fewer = members.take(torch.arange(len(members) - 1))
    pairs = [(dealt(members, 7).rows(each), dealt(fewer, 7).rows(each)) for each in range(7)]
    changed = [(one, other) for one, other in pairs if one.tolist() != other.tolist()]
    assert len(changed) == 1
    assert changed[0][0].tolist() == [*changed[0][1].tolist(), len(members) - 1]


def test_a_batch_is_of_the_own_shard(members: Records) -> None:
    """Labels are row numbers here, so that a batch shows which records it drew."""
    named = Records(members.x, torch.arange(len(members)))
    shards = dealt(named, 7)
    drawn = shards.draw(slice(2, 5), 40, torch.Generator().manual_seed(0)).y.view(3, 40)
    for row, shard in zip(drawn, (2, 3, 4), strict=True):
        assert set(row.tolist()) == set(shards.rows(shard).tolist()), (
            "40 draws of about 9 contain every member"
        )


# -- together and one by one -----------------------------------------------------------------------


def test_a_stack_predicts_like_its_models() -> None:
    models: list[nn.Module] = [mlp((4, 5, 3), seed) for seed in range(6)]
    x = torch.randn(6, 8, 4, generator=torch.Generator().manual_seed(1))
    expected = torch.stack([model(each) for model, each in zip(models, x, strict=True)])
    torch.testing.assert_close(Stack(models)(x), expected)


def one_by_one(problem: Problem, shards: Shards, chosen: OptimizerParams, run: "SimplestRun") -> list[Tensor]:
    """A slow reference: every model trained alone, on the batches that the ensemble draws."""
    stream = torch.Generator().manual_seed(run.seed("teachers"))
    count = len(shards.sizes)
    batches = [shards.draw(slice(0, count), chosen.batch_size, stream) for _ in range(chosen.steps)]
    trained = []
    for number in range(count):
        model = problem.model(run.seed(f"teacher-{number}"))
        optimizer = make_optimizer(model.parameters(), chosen)
        for batch in batches if shards.sizes[number] else []:
            mine = torch.arange(chosen.batch_size) + number * chosen.batch_size
            optimizer.zero_grad()
            problem.loss(model(batch.x[mine]), batch.y[mine]).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        trained.append(torch.cat([weight.detach().flatten() for weight in model.parameters()]))
    return trained


@pytest.mark.parametrize("optimizer", [{}, {"optimizer": "adam", "momentum": 0.0, "learning_rate": 0.02}])
@pytest.mark.parametrize("count", [7, 80])
def test_together_they_learn_what_each_learns_alone(
    count: int,
    optimizer: dict[str, Any],
    problem: Problem,
    members: Records,
    run_of: "Callable[[int], SimplestRun]",
) -> None:
    """With 80 teachers of 60 members some have an empty shard: they must keep their initial weights."""
    teachers = ensemble(problem, members, run_of(0), count, **optimizer)
    assert teachers.size == count
    finish(teachers)
    stacked = torch.cat([weight.detach().flatten(1) for weight in teachers.stack.parameters()], dim=1)
    alone = one_by_one(problem, dealt(members, count), settings(**optimizer), run_of(0))
    torch.testing.assert_close(stacked, torch.stack(alone), rtol=1e-4, atol=1e-5)
    assert (teachers.shards.sizes == 0).any() == (count == 80)


def test_a_model_with_an_empty_shard_is_not_trained(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    spoilt = Records(torch.full_like(members.x, torch.inf), members.y)
    teachers = ensemble(problem, spoilt, run, count=80)
    finish(teachers)
    weights = torch.cat([weight.detach().flatten(1) for weight in teachers.stack.parameters()], dim=1)
    for number in (teachers.shards.sizes == 0).nonzero().flatten().tolist():
        fresh = problem.model(run.seed(f"teacher-{number}"))
        assert torch.equal(weights[number], nn.utils.parameters_to_vector(fresh.parameters()))
    assert weights.isnan().any()


def test_predictions_are_those_of_the_trained_models(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    teachers = ensemble(problem, members, run)
    answers = finish(teachers)
    for number in range(7):
        model = problem.model(0)
        weights = [stacked[number] for stacked in teachers.stack.parameters()]
        nn.utils.vector_to_parameters(torch.cat([each.flatten() for each in weights]), model.parameters())
        assert answers[number].tolist() == model(QUESTIONS).argmax(1).tolist()


# -- groups ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "count", "size"),
    [
        (mlp((64, 128, 10), 0), 250, 250),
        (scatter_linear(0, side=28), 250, 105),
        (mlp((784, 1024, 10), 0), 250, 1),
        (mnist_cnn(0), 250, 1),
        (nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)), 250, 1),
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False)), 250, 1),
        (nn.Bilinear(2, 2, 2), 250, 1),
    ],
)
def test_only_small_linear_layers_are_stacked(model: nn.Module, count: int, size: int) -> None:
    assert group_size(model, count) == size


@pytest.mark.parametrize("at_once", [30, 150, 10_000])
def test_groups_resume_to_the_same_predictions(
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
    problem: Problem,
    members: Records,
    run_of: "Callable[[int], SimplestRun]",
) -> None:
    """43 weights: groups of one, of three, of all seven. Saved within a group, at its end, in the last."""
    monkeypatch.setattr(ensembles, "WEIGHTS_AT_ONCE", at_once)
    whole = finish(ensemble(problem, members, run_of(0)))
    total = ensemble(problem, members, run_of(0)).total
    assert total == 12 * {30: 7, 150: 3, 10_000: 1}[at_once]
    for stop in sorted({5, 12, total - 1}):
        broken, run = ensemble(problem, members, run_of(0)), run_of(0)
        for number in range(stop):
            broken.step(number)
        resumed = ensemble(problem, members, run)
        restore(resumed, state_of(broken))
        run.generator("teachers").set_state(broken.generator.get_state())
        assert torch.equal(finish(resumed, begin=stop), whole)
