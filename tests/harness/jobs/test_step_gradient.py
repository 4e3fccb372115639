"""The gradient shared by one step of a method, computed by the method itself."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import methods
from harness.attacks.base import Shared
from harness.jobs.setup import per_example_loss
from harness.jobs.step_gradient import share
from methods.base import Problem
from methods.mechanisms.bessel import mean_resultant_length
from methods.training.optimizer import OptimizerParams
from workloads.base import Records
from workloads.errors import SpecError
from workloads.models.lenet import lenet

SIDE, CLASSES = 12, 4


def fresh(seed: int) -> nn.Module:
    return lenet(seed, 3, SIDE, CLASSES)


def records(count: int = 1, seed: int = 0) -> Records:
    random = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 3, SIDE, SIDE, generator=random)
    return Records(x, torch.randint(CLASSES, (count,), generator=random))


def shared(name: str, batch: Records, **params: Any) -> Shared:
    method, problem = methods.family.get(name), Problem(CLASSES, fresh, per_example_loss)
    return share(method, method.Params(**params), problem, fresh(7), batch, "training", "start")


def flat(gradients: list[Tensor]) -> Tensor:
    return torch.cat([each.flatten().double() for each in gradients])


def true_gradient(batch: Records) -> Tensor:
    """Of the mean loss, by plain differentiation."""
    model = fresh(7)
    loss = per_example_loss(model(batch.x), batch.y).mean()
    return flat(list(torch.autograd.grad(loss, list(model.parameters()))))


def cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other / (one.norm() * other.norm()))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"optimizer": "adam", "learning_rate": 1e-4},
        {"momentum": 0.9, "weight_decay": 0.1, "schedule": "cosine", "steps": 500},
    ],
    ids=["plain", "adam", "momentum"],
)
def test_sgd_shares_the_gradient_however_it_trains(settings: dict[str, Any], count: int) -> None:
    batch = records(count)
    wanted = true_gradient(batch)
    found = flat(shared("sgd", batch, **settings).gradients)
    assert (found - wanted).norm() < 1e-6 * wanted.norm()


def test_the_model_is_left_as_it_was() -> None:
    result = shared("sgd", records())
    for found, wanted in zip(result.model.parameters(), fresh(7).parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_dp_sgd_shares_the_clipped_gradient() -> None:
    batch = records()
    wanted = true_gradient(batch)
    found = flat(shared("dp-sgd", batch, epsilon=math.inf, noise_multiplier=0.0, clip=0.5).gradients)
    assert wanted.norm() > 0.5
    assert float(found.norm()) == pytest.approx(0.5, rel=1e-5)
    assert cosine(found, wanted) == pytest.approx(1, abs=1e-6)


def test_dp_sgd_shares_it_with_the_noise_of_the_cell() -> None:
    batch, noise, clip = records(), 0.7, 0.5
    wanted = true_gradient(batch)
    found = flat(shared("dp-sgd", batch, epsilon=8.0, noise_multiplier=noise, clip=clip, steps=400).gradients)
    rest = found - wanted * (clip / wanted.norm())
    count = len(rest)
    # The spread of `count` normal draws is known to one in sqrt(2 count); a mean is as near to 0.
    assert float(rest.std()) == pytest.approx(noise * clip, rel=5 / math.sqrt(2 * count))
    assert abs(cosine(found, wanted) - 1 / math.sqrt(1 + noise**2 * count)) < 5 / math.sqrt(count)


def test_noise_is_another_for_another_record_and_the_same_for_the_same() -> None:
    settings = {"epsilon": 8.0, "noise_multiplier": 100.0, "clip": 1.0}
    first, again, other = (
        flat(shared("dp-sgd", records(seed=seed), **settings).gradients) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert abs(cosine(first, other)) < 5 / math.sqrt(len(first))


def test_dirdp_sgd_shares_a_direction_near_the_true_one() -> None:
    batch, kappa = records(), 3000.0
    wanted = true_gradient(batch)
    found = flat(shared("dirdp-sgd", batch, kappa=kappa).gradients)
    assert float(found.norm()) == pytest.approx(1, rel=1e-5)
    # The mean of the cosine of a von Mises-Fisher draw is A(kappa); a draw is off by 1 / sqrt(kappa) at most.
    assert abs(cosine(found, wanted) - mean_resultant_length(len(found), kappa)) < 5 / math.sqrt(kappa)


@pytest.mark.parametrize("settings", [{}, {"T": 5, "gamma": 1e-9}, {"batch_size": None, "batches": 40}])
def test_pd_sgd_shares_an_accepted_step(settings: dict[str, Any]) -> None:
    batch, sigma = records(), 1e-3
    rest = flat(shared("pd-sgd", batch, sigma=sigma, **settings).gradients) - true_gradient(batch)
    assert float(rest.std()) == pytest.approx(sigma, rel=5 / math.sqrt(2 * len(rest)))


def test_dpsur_shares_an_accepted_step_whatever_is_left_of_its_budget() -> None:
    batch, sigma, clip = records(), 0.8, 0.5
    wanted = true_gradient(batch)
    settings = {"epsilon": 0.5, "sigma_t": sigma, "clip": clip}
    rest = flat(shared("dpsur", batch, **settings).gradients) - wanted * (clip / wanted.norm())
    assert float(rest.std()) == pytest.approx(sigma * clip, rel=5 / math.sqrt(2 * len(rest)))


def test_a_rejected_step_shares_nothing() -> None:
    with pytest.raises(SpecError, match="rejected it and shared nothing"):
        shared("pd-sgd", records(), ablation="random_rejection", rejection_rate=1 - 1e-12)


def test_a_method_of_several_phases_shares_no_gradient() -> None:
    with pytest.raises(SpecError, match=r"'Selena'.*\[1, 3, 1\]"):
        shared("selena", records(), K=3, L=1)


def test_a_method_that_releases_something_else_shares_no_gradient() -> None:
    with pytest.raises(SpecError, match="'Memguard' releases another module"):
        shared("memguard", records())


def test_a_method_that_declares_no_step_shares_no_gradient() -> None:
    with pytest.raises(SpecError, match="DpagdParams has no one_step"):
        shared("dpagd", records(), epsilon=8.0)


@pytest.mark.parametrize("name", methods.family.names())
def test_settings_of_one_step_are_the_methods_own(name: str) -> None:
    kind = methods.family.get(name).Params
    assert issubclass(kind, OptimizerParams) == hasattr(kind, "one_step")
    if issubclass(kind, OptimizerParams):
        settings = kind.one_step(kind.model_construct(), 3, 2.0)
        assert settings.keys() <= kind.model_fields.keys()
        assert (settings["steps"], settings["batch_size"], settings["learning_rate"]) == (1, 3, 2.0)
