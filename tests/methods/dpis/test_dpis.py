"""dpis: one step against a slow reference, dp-sgd as its limit, and its charges."""

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
from methods.dp_sgd import DpSgdParams
from methods.dp_sgd import method as dp_sgd
from methods.dpis.dpis import DpisParams, method
from methods.dpis.importance import importance_event
from workloads.base import Records

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

EXACT = 1e-9
"""A noise of normalisers that leaves them as they are."""


def params(**given: Any) -> DpisParams:
    return DpisParams(**({"noise_multiplier": 1.0, "steps": 5, "batch_size": 10} | given))


def gradient(model: nn.Module, problem: Problem, members: Records, row: int) -> Tensor:
    loss = problem.loss(model(members.x[row : row + 1]), members.y[row : row + 1]).sum()
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def moved(before: nn.Module, after: nn.Module) -> Tensor:
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    return torch.cat([(old - new).detach().flatten() for old, new in pairs])


def test_one_step_is_that_of_the_definition(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    """Record by record: a wide sample, thinned by norm, and the sum of directions of one norm."""
    clip = 3.0
    chosen = params(
        noise_multiplier=0.0, steps=1, learning_rate=1.0, boost=3.0, clip=clip, normaliser_noise=EXACT
    )
    run = run_of(3)
    released = method.train(members, problem, chosen, run)
    model = problem.model(run.seed("init"))
    gradients = [gradient(model, problem, members, row) for row in range(len(members))]
    norms = [min(clip, float(each.norm())) for each in gradients]
    assert min(norms) < clip / 2, "some are short"
    total = sum(norms)
    random = torch.Generator().manual_seed(run.seed("sampling"))
    wide = torch.rand(len(members), generator=random, dtype=torch.float64)
    rows = [row for row in range(len(members)) if wide[row] < 10 * clip / total]
    second = torch.rand(len(rows), generator=random, dtype=torch.float64)
    kept = [row for row, chance in zip(rows, second.tolist(), strict=True) if chance < norms[row] / clip]
    assert 0 < len(kept) < len(rows)
    share = total / (len(members) * 10)
    expected = sum((share * gradients[row] / gradients[row].norm() for row in kept), torch.zeros(43))
    torch.testing.assert_close(moved(model, released.predictor), expected, rtol=1e-3, atol=1e-6)
    assert released.stats["mean_candidates"] == len(rows)
    assert released.stats["mean_drawn"] == len(kept)


def test_where_all_gradients_are_longer_than_the_clip_it_is_dp_sgd(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    common: dict[str, Any] = {"noise_multiplier": 0.5, "steps": 1, "batch_size": 10, "clip": 1e-3}
    ours = method.train(members, problem, DpisParams(**common, normaliser_noise=EXACT), run_of(2))
    theirs = dp_sgd.train(members, problem, DpSgdParams(**common), run_of(2))
    for own, other in zip(ours.predictor.parameters(), theirs.predictor.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(("noise", "clip"), [(2.0, 0.5), (0.7, 3.0)])
def test_noise_has_the_stated_size(noise: float, clip: float, run_of: "Callable[[int], SimplestRun]") -> None:
    """Zero gradients are never drawn; the noise is that of the smallest K, members * clip / boost."""

    def model(seed: int) -> nn.Module:
        layer = nn.Linear(100, 100)
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
        return layer

    def nothing(logits: Tensor, labels: Tensor) -> Tensor:
        return 0.0 * logits.sum(1)

    people = Records(torch.zeros(20, 100), torch.zeros(20, dtype=torch.int64))
    chosen = params(
        noise_multiplier=noise, clip=clip, steps=1, learning_rate=1.0, boost=1.5, normaliser_noise=EXACT
    )
    released = method.train(people, Problem(100, model, nothing), chosen, run_of(0))
    update = moved(model(0), released.predictor)
    expected = noise * clip / 1.5 / 10
    assert float(update.std()) == pytest.approx(expected, rel=5 / math.sqrt(2 * len(update)))
    assert released.stats["mean_drawn"] == 0


def test_normalisers_are_measured_as_often_as_planned(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    assert isinstance(method, Calibrated)
    chosen = params(steps=7, refresh_every=3, boost=2.0, normaliser_noise=40.0)
    released = method.train(members, problem, chosen, run)
    assert released.ledger == importance_event(2.0 * 10 / 60, 1.0, 7, 40.0, 3)
    assert released.ledger == method.planned(chosen, len(members))
    assert price(released.ledger, 1e-5).kind == method.guarantee


def test_it_learns(problem: Problem, members: Records, run: "SimplestRun") -> None:
    chosen = params(noise_multiplier=0.5, steps=150, batch_size=20, learning_rate=1.0, normaliser_noise=2.0)
    released = method.train(members, problem, chosen, run)
    assert (released.predictor(members.x).argmax(1) == members.y).float().mean() > 0.8


def test_a_record_whose_gradient_is_not_finite_is_never_drawn(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    spoilt = Records(members.x.clone(), members.y)
    spoilt.x[3] = math.inf
    released = method.train(spoilt, problem, params(noise_multiplier=0.0, steps=20), run)
    assert all(torch.isfinite(weight).all() for weight in released.predictor.parameters())
    assert all(math.isfinite(value) for value in run.losses)


def test_without_noise_there_is_no_guarantee(problem: Problem, members: Records, run: "SimplestRun") -> None:
    chosen = params(epsilon=math.inf, noise_multiplier=None)
    assert method.train(members, problem, chosen, run).ledger == NonPrivateDpEvent()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"boost": 0.5}, "boost must be >= 1, got 0.5"),
        ({"normaliser_noise": 0.0}, "normaliser_noise must be > 0, got 0"),
        ({"refresh_every": 0}, "refresh_every must be > 0, got 0"),
        ({"clip": math.inf}, "clip must be a finite number, got inf"),
        ({"clipping": "per_layer"}, "norm of the whole gradient"),
        ({"noise_multiplier": None}, "give epsilon .* or noise_multiplier"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)
