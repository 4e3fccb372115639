"""dp-gan: the discriminator's step against a slow reference, its ledger, and what is refused."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.functional import softplus

from harness.accounting import price
from methods.base import Calibrated, Problem
from methods.dp_gan.dp_gan import DpGanParams, discriminator_loss, method
from methods.dp_gan.generator import BETAS, Generator
from methods.dp_sgd import DpSgdParams
from methods.dp_sgd import method as dp_sgd
from workloads.base import Records
from workloads.errors import SpecError

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

SMALL = {"steps": 6, "batch_size": 20, "latent": 4, "width": 8, "samples": 60, "classifier_steps": 5}


def params(**given: Any) -> DpGanParams:
    return DpGanParams(**(SMALL | {"noise_multiplier": 1.0, "low": -2.0, "high": 4.0} | given))


# -- one step --------------------------------------------------------------------------------------


def clipped(model: nn.Module, x: Tensor, loss: Callable[[Tensor], Tensor], clip: float) -> Tensor:
    """The clipped gradient of one example's loss, by autograd."""
    gradients = torch.autograd.grad(loss(model(x[None])[0]), list(model.parameters()))
    gradient = torch.cat([each.flatten() for each in gradients])
    return gradient * min(1.0, clip / (float(gradient.norm()) + 1e-6))


def flat(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def step_by_hand(members: Records, problem: Problem, chosen: DpGanParams, run: "SimplestRun") -> Tensor:
    """A slow reference: the discriminator after one step without noise, every example by itself."""
    streams = {
        name: torch.Generator().manual_seed(run.seed(name)) for name in ("sampling", "labels", "latent")
    }
    chance = torch.rand(len(members), generator=streams["sampling"], dtype=torch.float64)
    rows = (chance < chosen.batch_size / len(members)).nonzero().flatten()
    labels = torch.randint(3, (chosen.batch_size,), generator=streams["labels"])
    bounds = (chosen.low, chosen.high)
    generator = Generator((4,), 3, chosen.latent, chosen.width, bounds, run.seed("init-generator"))
    fakes = generator.fake(labels, streams["latent"])
    model = problem.model(run.seed("init-discriminator"))
    total = torch.zeros_like(flat(model))
    for row in rows:
        label = int(members.y[row])
        total += clipped(model, members.x[row], lambda out, y=label: softplus(-out[y]), chosen.clip)  # type: ignore[misc]
    for x, y in zip(fakes.x, labels.tolist(), strict=True):
        total += clipped(model, x, lambda out, y=y: softplus(out[y]), chosen.clip)  # type: ignore[misc]
    optimizer = torch.optim.Adam(model.parameters(), lr=chosen.discriminator_rate, betas=BETAS)
    sizes = [weight.numel() for weight in model.parameters()]
    for weight, piece in zip(model.parameters(), torch.split(total / chosen.batch_size, sizes), strict=True):
        weight.grad = piece.view_as(weight)
    optimizer.step()
    return flat(model)


def test_a_step_clips_every_example_of_both_sides(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    chosen = params(steps=1, noise_multiplier=0.0, clip=0.3)
    run = run_of(0)
    method.train(members, problem, chosen, run)
    found = flat(run.states["game"]["discriminator"])
    torch.testing.assert_close(found, step_by_hand(members, problem, chosen, run_of(0)), rtol=1e-4, atol=1e-6)


def test_losses_are_log_odds_of_being_real() -> None:
    outputs = torch.tensor([[2.0, -1.0], [0.5, 3.0]])
    real = discriminator_loss(2)(outputs, torch.tensor([0, 1]))
    fake = discriminator_loss(2)(outputs, torch.tensor([2, 3]))
    torch.testing.assert_close(real, -torch.sigmoid(torch.tensor([2.0, 3.0])).log())
    torch.testing.assert_close(fake, -(1 - torch.sigmoid(torch.tensor([2.0, 3.0]))).log())


def test_without_members_an_update_is_noise_and_generated_examples(
    problem: Problem, run_of: "Callable[[int], SimplestRun]"
) -> None:
    """Two members whose gradients are not finite count as zero: others in their place change nothing."""
    found = []
    for value in (math.nan, math.inf):
        spoilt = Records(torch.full((2, 4), value), torch.tensor([0, 1]))
        run = run_of(1)
        released = method.train(spoilt, problem, params(steps=1, batch_size=2), run)
        found.append(flat(run.states["game"]["discriminator"]))
        assert released.stats["nonfinite_gradients"] == 2
    start = flat(problem.model(run_of(1).seed("init-discriminator")))
    assert torch.equal(*found)
    assert not torch.equal(found[0], start)


# -- what is paid ----------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 3, 100])
def test_it_costs_what_dp_sgd_costs_however_often_the_generator_steps(
    every: int, problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params(generator_every=every)
    released = method.train(members, problem, chosen, run)
    same = DpSgdParams(steps=6, batch_size=20, noise_multiplier=1.0)
    assert released.ledger == method.planned(chosen, 60) == dp_sgd.planned(same, 60)
    assert price(released.ledger, chosen.delta).kind == method.guarantee
    assert isinstance(method, Calibrated)


def test_only_the_discriminators_steps_move_the_generator(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    """A generator that never steps gives the same classifier for any members."""
    others = Records(members.x + 1, 2 - members.y)
    weights = [
        flat(method.train(each, problem, params(generator_every=every), run_of(0)).predictor)
        for every in (100, 1)
        for each in (members, others)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[2], weights[3])


def test_infinite_epsilon_trains_without_noise(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params(epsilon=math.inf, noise_multiplier=None)
    assert method.train(members, problem, chosen, run).ledger == NonPrivateDpEvent()


# -- what comes out --------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_learns(problem: Problem, members: Records, run: "SimplestRun") -> None:
    """Three classes far apart, little noise: generated examples must look like their class."""
    chosen = params(
        steps=250,
        batch_size=30,
        noise_multiplier=0.3,
        discriminator_rate=0.01,
        generator_rate=0.01,
        generator_every=1,
        samples=300,
        classifier_steps=100,
    )
    released = method.train(members, problem, chosen, run)
    assert (released.predictor(members.x).argmax(1) == members.y).double().mean() > 0.8
    assert released.stats["mean_batch"] == pytest.approx(30, abs=2)


def test_everything_the_game_changes_is_in_its_state(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    released = method.train(members, problem, params(), run)
    names = {"discriminator", "optimizer", "forger", "sampler", "tally"}
    assert set(run.states["game"]) == names
    assert set(run.states) == {"game", "classifier"}
    for module in released.predictor.modules():
        assert not module._forward_hooks


# -- what is refused -------------------------------------------------------------------------------


def test_tokens_cannot_be_generated(problem: Problem, run: "SimplestRun") -> None:
    words = Records(torch.ones(30, 4, dtype=torch.int64), torch.arange(30) % 3)
    with pytest.raises(SpecError) as caught:
        method.train(words, problem, params(), run)
    assert (caught.value.field, caught.value.value) == ("workload", "torch.int64")


def test_a_batch_larger_than_the_members_is_refused(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    with pytest.raises(SpecError) as caught:
        method.planned(params(batch_size=61), 60)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batch_size", 61, (1, 60))
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(batch_size=61), run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batch_size", 61, (1, 60))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noise_multiplier": None}, "give epsilon .* or noise_multiplier"),
        ({"clip": math.inf}, "clip = inf does not bound the sensitivity"),
        ({"low": 1.0, "high": 1.0}, r"give finite low < high, got low = 1\.0 and high = 1\.0"),
        ({"high": math.inf}, "give finite low < high"),
        ({"low": math.nan}, "give finite low < high"),
        ({"generator_every": 0}, "generator_every must be > 0, got 0"),
        ({"samples": 0}, "samples must be > 0, got 0"),
        ({"discriminator_rate": 0.0}, "discriminator_rate must be > 0, got 0"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)
