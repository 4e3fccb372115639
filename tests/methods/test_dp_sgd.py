"""dp-sgd against its definition, step by step."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import ValidationError
from torch import Tensor, nn

from harness.accounting import price
from methods.base import Calibrated, Problem
from methods.dp_sgd import DpSgdParams, method
from methods.sgd import SgdParams
from methods.sgd import method as sgd
from workloads.base import Records
from workloads.errors import SpecError

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun


def params(**given: Any) -> DpSgdParams:
    return DpSgdParams(**({"noise_multiplier": 1.0, "steps": 5, "batch_size": 10} | given))


def test_without_noise_and_clipping_it_is_full_batch_sgd(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    everybody = len(members)
    private = method.train(
        members,
        problem,
        params(noise_multiplier=0.0, clip=math.inf, batch_size=everybody, steps=20, momentum=0.5),
        run_of(0),
    )
    plain = sgd.train(members, problem, SgdParams(batch_size=everybody, steps=20, momentum=0.5), run_of(0))
    for ours, theirs in zip(private.predictor.parameters(), plain.predictor.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert private.ledger == NonPrivateDpEvent()


def nothing(logits: Tensor, labels: Tensor) -> Tensor:
    return 0.0 * logits.sum(1)


@pytest.mark.parametrize(("noise", "clip", "batch_size"), [(2.0, 0.5, 4), (0.7, 3.0, 20)])
def test_noise_has_the_stated_size(
    noise: float, clip: float, batch_size: int, run_of: "Callable[[int], SimplestRun]"
) -> None:
    """With zero gradients one update has standard deviation rate * noise * clip / expected batch."""

    def model(seed: int) -> nn.Module:
        layer = nn.Linear(100, 100)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        return layer

    members = Records(torch.zeros(20, 100), torch.zeros(20, dtype=torch.int64))
    chosen = params(noise_multiplier=noise, clip=clip, batch_size=batch_size, steps=1, learning_rate=0.3)
    released = method.train(members, Problem(100, model, nothing), chosen, run_of(0))
    update = torch.cat([w.detach().flatten() for w in released.predictor.parameters()])
    expected = 0.3 * noise * clip / batch_size
    assert update.std() == pytest.approx(expected, rel=5 / math.sqrt(2 * len(update)))
    assert update.mean() == pytest.approx(0, abs=5 * expected / math.sqrt(len(update)))


def test_the_expected_batch_divides_and_not_the_realised_one(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    """One step moves the model by the clipped sum of the drawn records over batch_size, however many."""
    chosen = params(noise_multiplier=0.0, steps=1, batch_size=7, learning_rate=1.0, clip=1e-3)
    run = run_of(0)
    released = method.train(members, problem, chosen, run)
    start = problem.model(run.seed("init"))
    moved = torch.cat(
        [
            (old - new).detach().flatten()
            for old, new in zip(start.parameters(), released.predictor.parameters(), strict=True)
        ]
    )
    rows = torch.Generator().manual_seed(run.seed("sampling"))
    drawn = (torch.rand(len(members), generator=rows, dtype=torch.float64) < 7 / len(members)).nonzero()
    assert len(drawn) == released.stats["mean_batch"] != 7, "this seed draws another number than expected"
    expected = sum(
        (clipped_gradient(start, problem, members, int(row), 1e-3) for row in drawn), torch.zeros(len(moved))
    )
    torch.testing.assert_close(moved, expected / 7, rtol=1e-3, atol=1e-7)


def clipped_gradient(model: nn.Module, problem: Problem, members: Records, row: int, clip: float) -> Tensor:
    loss = problem.loss(model(members.x[row : row + 1]), members.y[row : row + 1]).sum()
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
    return gradient * min(1.0, clip / (float(gradient.norm()) + 1e-6))


def test_an_empty_batch_takes_a_noised_step(problem: Problem, run_of: "Callable[[int], SimplestRun]") -> None:
    """Expected batch 1 of 2 members: a quarter of the batches is empty, and every one moves the model."""
    members = Records(torch.ones(2, 4), torch.tensor([0, 1]))
    for seed in range(20):
        run = run_of(seed)
        released = method.train(members, problem, params(steps=1, batch_size=1), run)
        if released.stats["empty_batches"] == 1:
            break
    assert run.losses == [0.0]
    before = problem.model(run.seed("init"))
    for old, new in zip(before.parameters(), released.predictor.parameters(), strict=True):
        assert not torch.equal(old, new)
    assert released.ledger == method.planned(params(steps=1, batch_size=1), 2), "it is charged"


def test_the_ledger_is_what_was_planned(problem: Problem, members: Records, run: "SimplestRun") -> None:
    chosen = params(noise_multiplier=3.0, steps=9)
    released = method.train(members, problem, chosen, run)
    assert released.ledger == method.planned(chosen, len(members))
    assert price(released.ledger, chosen.delta).kind == method.guarantee
    assert isinstance(method, Calibrated)


def test_it_learns(problem: Problem, members: Records, run: "SimplestRun") -> None:
    chosen = params(noise_multiplier=0.5, steps=150, batch_size=20, learning_rate=1.0)
    released = method.train(members, problem, chosen, run)
    assert (released.predictor(members.x).argmax(1) == members.y).float().mean() > 0.8
    assert released.stats["mean_batch"] == pytest.approx(20, abs=2)
    assert 0 < released.stats["clipped_share"] <= 1
    assert released.stats["nonfinite_gradients"] == released.stats["empty_batches"] == 0


@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam", "learning_rate": 0.01}])
def test_the_same_seed_gives_the_same_bits(
    optimizer: dict[str, Any], problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    weights = [
        method.train(members, problem, params(**optimizer), run_of(seed)).predictor.state_dict()
        for seed in (1, 1, 2)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


def test_a_non_finite_gradient_counts_as_zero_and_is_counted(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    spoilt = Records(members.x.clone(), members.y)
    spoilt.x[3] = math.inf
    chosen = params(noise_multiplier=0.0, batch_size=len(members), steps=3)
    run = run_of(0)
    released = method.train(spoilt, problem, chosen, run)
    assert released.stats["nonfinite_gradients"] == 3
    assert all(math.isfinite(loss) for loss in run.losses)
    without = Records(*(torch.cat([t[:3], t[4:]]) for t in (members.x, members.y)))
    # The same sum over one member fewer, divided by the batch size of before.
    same = method.train(
        without,
        problem,
        params(
            noise_multiplier=0.0,
            batch_size=len(without),
            steps=3,
            learning_rate=chosen.learning_rate * len(without) / len(members),
        ),
        run_of(0),
    )
    for ours, theirs in zip(released.predictor.parameters(), same.predictor.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_model_that_left_the_finite_numbers_shows_in_the_loss(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    spoilt = Records(torch.full_like(members.x, math.nan), members.y)
    run = run_of(0)
    method.train(spoilt, problem, params(steps=1), run)
    assert not math.isfinite(run.losses[0])


def test_the_released_model_is_clean(problem: Problem, members: Records, run: "SimplestRun") -> None:
    released = method.train(members, problem, params(), run)
    assert released.predictor.state_dict().keys() == problem.model(0).state_dict().keys()
    assert type(released.predictor) is type(problem.model(0))
    for module in released.predictor.modules():
        assert not module._forward_hooks
        assert not module._backward_hooks
    assert all(w.grad is None and not hasattr(w, "grad_sample") for w in released.predictor.parameters())


def test_everything_the_loop_changes_is_in_its_state(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    method.train(members, problem, params(), run)
    assert set(run.states["train"]) == {"model", "optimizer", "sampler", "tally"}


def test_batch_normalisation_is_refused_by_name(members: Records, run: "SimplestRun") -> None:
    def model(seed: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, affine=False))

    with pytest.raises(SpecError) as caught:
        method.train(members, Problem(3, model, nothing), params(), run)
    assert (caught.value.field, caught.value.value) == ("layer", ("1",))


class OwnNormalisation(nn.BatchNorm1d):
    """A plug-in's layer, which is in no list of types."""


def test_batch_normalisation_is_refused_whatever_it_is_called(members: Records, run: "SimplestRun") -> None:
    def model(seed: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), OwnNormalisation(3))

    for engine in ("auto", "opacus"):
        with pytest.raises(SpecError) as caught:
            method.train(members, Problem(3, model, nothing), params(engine=engine), run)
        assert (caught.value.field, caught.value.value) == ("layer", ("1",))


def test_a_batch_larger_than_the_members_is_refused(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params(batch_size=len(members) + 1)
    with pytest.raises(SpecError) as caught:
        method.planned(chosen, len(members))
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batch_size", 61, (1, 60))
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, chosen, run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batch_size", 61, (1, 60))


def test_an_uncalibrated_epsilon_is_refused(problem: Problem, members: Records, run: "SimplestRun") -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(epsilon=4.0, noise_multiplier=None), run)
    assert (caught.value.field, caught.value.value) == ("noise_multiplier", None)


def test_infinite_epsilon_trains_without_noise(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params(epsilon=math.inf, noise_multiplier=None)
    assert method.train(members, problem, chosen, run).ledger == NonPrivateDpEvent()
    assert method.planned(chosen, len(members)) == NonPrivateDpEvent()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, "epsilon must be > 0, got 0"),
        ({"epsilon": -1.0}, "epsilon must be > 0, got -1"),
        ({"epsilon": math.nan}, "epsilon must be > 0, got nan"),
        ({"delta": 0.0}, "delta must be > 0, got 0"),
        ({"delta": 1.0}, "delta must be < 1, got 1"),
        ({"noise_multiplier": -0.1}, "noise_multiplier must be >= 0, got -0.1"),
        ({"noise_multiplier": math.inf}, "noise_multiplier must be a finite number, got inf"),
        ({"clip": 0.0}, "clip must be > 0, got 0"),
        ({"noise_multiplier": None}, "give epsilon .* or noise_multiplier"),
        ({"epsilon": math.inf}, "epsilon = inf goes with noise_multiplier = 0 only"),
        ({"epsilon": 1.0, "noise_multiplier": 0.0}, "epsilon = inf goes with noise_multiplier = 0 only"),
        ({"clip": math.inf}, "clip = inf does not bound the sensitivity"),
        (
            {"clip": math.inf, "epsilon": 1.0, "noise_multiplier": None},
            "clip = inf does not bound the sensitivity",
        ),
        ({"batch_size": 0}, "batch_size must be > 0, got 0"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)


def test_a_planned_task_holds_both_levels() -> None:
    assert params(epsilon=4.0, noise_multiplier=2.5).noise_multiplier == 2.5
    assert params(epsilon=math.inf, noise_multiplier=0.0, clip=math.inf).epsilon == math.inf
