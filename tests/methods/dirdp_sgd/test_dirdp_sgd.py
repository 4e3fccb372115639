"""dirdp-sgd against a plain reference, at its limits, its ledger, and what it refuses."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import (
    ComposedDpEvent,
    NonPrivateDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from pydantic import ValidationError
from torch import Tensor, nn

from harness.accounting import price
from methods.base import Calibrated, Problem, Shaped
from methods.dirdp_sgd.dirdp_sgd import DirDpSgdParams, method
from methods.dirdp_sgd.directions import redraw
from methods.mechanisms.bessel import mean_resultant_length
from methods.mechanisms.events import VonMisesFisherDpEvent
from workloads.base import Records
from workloads.errors import SpecError

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

RunOf = Callable[[int], "SimplestRun"]


def params(**given: Any) -> DirDpSgdParams:
    return DirDpSgdParams(**({"kappa": 20.0, "steps": 5, "batch_size": 10} | given))


def linear(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(4, 3)


@pytest.fixture
def tiny(problem: Problem) -> Problem:
    """A linear model: a gradient is products of two numbers, the same however it is computed."""
    return Problem(problem.classes, linear, problem.loss)


def plain_gradients(model: nn.Module, problem: Problem, batch: Records) -> list[list[Tensor]]:
    """By example and weight, from autograd one example at a time."""
    found = []
    for row in range(len(batch)):
        one = batch.take(torch.tensor([row]))
        loss = problem.loss(model(one.x), one.y).sum()
        found.append(list(torch.autograd.grad(loss, list(model.parameters()))))
    return found


def plain_pieces(gradient: list[Tensor], granularity: str) -> list[Tensor]:
    """One example's gradient as the vectors that have directions of their own."""
    if granularity == "whole":
        return [torch.cat([each.flatten() for each in gradient])]
    if granularity == "per_layer":
        return [each.flatten() for each in gradient]
    weight, bias = gradient
    return [*weight, bias]


def plain_update(pieces: list[Tensor], chosen: DirDpSgdParams, noise: torch.Generator) -> list[Tensor]:
    """What one gradient, of an example or of a batch, adds to the sum."""
    # Rows of one weight are drawn together: three of the matrix, then the bias.
    groups = [pieces[:3], pieces[3:]] if chosen.granularity == "per_row" else [[each] for each in pieces]
    found: list[Tensor] = []
    for group in groups:
        drawn = redraw(torch.stack(group), chosen.kappa or 0.0, noise)
        keeps = chosen.row_magnitude == "keep"
        found += [
            direction * float(length) if keeps else direction
            for direction, length in zip(drawn.directions, drawn.lengths, strict=True)
        ]
    return found


def plain_training(members: Records, problem: Problem, chosen: DirDpSgdParams, run: "SimplestRun") -> Tensor:
    """Algorithm 2 and its variants for a linear model, example by example: the weights, flat."""
    model = problem.model(run.seed("init"))
    optimizer = torch.optim.SGD(model.parameters(), lr=chosen.learning_rate)
    sampling, noise = run.generator("sampling"), run.generator("noise")
    alone = chosen.aggregate_then_vmf and chosen.row_magnitude == "unit"
    for _ in range(chosen.steps):
        batch = members.take(torch.randperm(len(members), generator=sampling)[: chosen.batch_size])
        gradients = plain_gradients(model, problem, batch)
        if chosen.aggregate_then_vmf:
            gradients = [[sum(each[1:], each[0]) for each in zip(*gradients, strict=True)]]
        updates = [plain_update(plain_pieces(each, chosen.granularity), chosen, noise) for each in gradients]
        mean = []
        for first, *others in zip(*updates, strict=True):
            length = mean_resultant_length(len(first), chosen.kappa or 0.0) if chosen.debias else 1.0
            mean.append(sum(others, first) / ((1 if alone else chosen.batch_size) * length))
        weight, bias = model.parameters()
        weight.grad, bias.grad = torch.cat(mean)[:12].view(3, 4), torch.cat(mean)[12:]
        optimizer.step()
    return flat(model)


def flat(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


@pytest.mark.parametrize("granularity", ["whole", "per_layer", "per_row"])
@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"row_magnitude": "keep"},
        {"debias": True},
        {"aggregate_then_vmf": True},
        {"aggregate_then_vmf": True, "row_magnitude": "keep"},
    ],
    ids=lambda variant: "-".join(variant) or "paper",
)
def test_it_is_the_plain_algorithm_bit_for_bit(
    granularity: str, variant: dict[str, Any], members: Records, tiny: Problem, run_of: RunOf
) -> None:
    # One example at a time, so that directions are added in one order; the gradients of a batch are not.
    size = 1 if "aggregate_then_vmf" in variant else 10
    chosen = params(
        granularity=granularity, batch_size=size, physical_batch_size=1, learning_rate=0.3, **variant
    )
    released = method.train(members, tiny, chosen, run_of(1))
    assert torch.equal(flat(released.predictor), plain_training(members, tiny, chosen, run_of(1)))


@pytest.mark.parametrize("granularity", ["whole", "per_layer", "per_row"])
def test_the_direction_of_a_batch_is_that_of_its_summed_gradient(
    granularity: str, members: Records, tiny: Problem, run_of: RunOf
) -> None:
    chosen = params(granularity=granularity, aggregate_then_vmf=True, learning_rate=0.3)
    released = method.train(members, tiny, chosen, run_of(1))
    torch.testing.assert_close(flat(released.predictor), plain_training(members, tiny, chosen, run_of(1)))


def test_rows_of_a_matrix_are_the_same_along_both_axes(
    members: Records, tiny: Problem, run_of: RunOf
) -> None:
    first, last = (
        method.train(members, tiny, params(granularity=granularity), run_of(1)).predictor
        for granularity in ("per_row", "per_last_axis")
    )
    assert torch.equal(flat(first), flat(last))


def test_without_noise_it_is_normalised_sgd(members: Records, problem: Problem, run_of: RunOf) -> None:
    """kappa = inf: the mean of unit gradients; kappa = 1e12: nearly so."""
    chosen = params(kappa=math.inf, batch_size=len(members), steps=3, learning_rate=0.3)
    model = problem.model(run_of(0).seed("init"))
    for _ in range(chosen.steps):
        gradients = plain_gradients(model, problem, members)
        units = [each / torch.cat([g.flatten() for g in one]).norm() for one in gradients for each in one]
        with torch.no_grad():
            for place, weight in enumerate(model.parameters()):
                weight.sub_(0.3 * torch.stack(units[place::4]).mean(dim=0))
    for kappa in (math.inf, 1e12):
        released = method.train(members, problem, chosen.model_copy(update={"kappa": kappa}), run_of(0))
        for ours, theirs in zip(released.predictor.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_every_step_has_the_length_of_its_directions(
    members: Records, problem: Problem, run_of: RunOf
) -> None:
    """One unit vector per row moves the model by sqrt(rows) times the rate, however long gradients are."""
    run = run_of(0)
    chosen = params(aggregate_then_vmf=True, granularity="per_row", steps=1, learning_rate=0.25)
    released = method.train(members, problem, chosen, run)
    start = problem.model(run.seed("init"))
    moved = flat(start) - flat(released.predictor)
    # 5 rows and a bias, 3 rows and a bias.
    assert moved.norm() == pytest.approx(0.25 * math.sqrt(10), rel=1e-4)
    assert released.stats["directions"] == 10


def test_debiased_steps_average_to_the_clean_direction(tiny: Problem, run_of: RunOf) -> None:
    """Ten thousand equal examples: the mean of their draws over A is the unit gradient itself."""
    count = 10_000
    many = Records(torch.ones(count, 4), torch.zeros(count, dtype=torch.int64))
    run = run_of(0)
    chosen = params(debias=True, kappa=10.0, batch_size=count, steps=1, learning_rate=1.0)
    released = method.train(many, tiny, chosen, run)
    start = tiny.model(run.seed("init"))
    clean = torch.cat([g.flatten() for g in plain_gradients(start, tiny, many.take(torch.tensor([0])))[0]])
    moved = flat(start) - flat(released.predictor)
    error = 1 / (mean_resultant_length(15, 10.0) * math.sqrt(count))
    assert (moved - clean / clean.norm()).abs().max() < 5 * error


@pytest.mark.parametrize("aggregate", [False, True])
def test_pieces_of_a_batch_give_the_same_sum(
    aggregate: bool, members: Records, problem: Problem, run_of: RunOf
) -> None:
    """Without noise, where the order of draws does not matter."""
    chosen = params(kappa=math.inf, batch_size=30, aggregate_then_vmf=aggregate)
    whole = method.train(members, problem, chosen, run_of(0))
    pieces = method.train(members, problem, chosen.model_copy(update={"physical_batch_size": 7}), run_of(0))
    for ours, theirs in zip(pieces.predictor.parameters(), whole.predictor.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_zero_gradients_take_uniform_steps_and_are_counted(members: Records, run_of: RunOf) -> None:
    """A loss that depends on nothing: 4,000 uniform directions, whose mean is small and in no direction."""
    still = Problem(3, linear, lambda logits, labels: 0.0 * logits.sum(1))
    many = Records(members.x.repeat(100, 1), members.y.repeat(100))
    run = run_of(0)
    chosen = params(kappa=1e3, batch_size=4000, steps=1, learning_rate=1.0)
    released = method.train(many, still, chosen, run)
    assert released.stats["zero_share"] == 1
    start = still.model(run.seed("init"))
    for old, new in zip(start.parameters(), released.predictor.parameters(), strict=True):
        assert 0 < (old - new).abs().max() < 5 / math.sqrt(15 * 4000)


@pytest.mark.parametrize("aggregate", [False, True])
def test_a_non_finite_gradient_counts_as_zero_and_is_counted(
    aggregate: bool, members: Records, problem: Problem, run_of: RunOf
) -> None:
    spoilt = Records(members.x.clone(), members.y)
    spoilt.x[3] = math.inf
    run = run_of(0)
    chosen = params(batch_size=len(members), steps=3, aggregate_then_vmf=aggregate)
    released = method.train(spoilt, problem, chosen, run)
    assert released.stats["nonfinite_gradients"] == 3
    assert all(math.isfinite(loss) for loss in run.losses)
    assert all(weight.isfinite().all() for weight in released.predictor.parameters())


def test_a_model_that_left_the_finite_numbers_shows_in_the_loss(
    members: Records, problem: Problem, run: "SimplestRun"
) -> None:
    spoilt = Records(torch.full_like(members.x, math.nan), members.y)
    method.train(spoilt, problem, params(steps=1), run)
    assert not math.isfinite(run.losses[0])


def test_it_learns(members: Records, problem: Problem, run: "SimplestRun") -> None:
    chosen = params(kappa=50.0, steps=150, batch_size=20, learning_rate=1.0)
    released = method.train(members, problem, chosen, run)
    assert (released.predictor(members.x).argmax(1) == members.y).float().mean() > 0.8
    assert run.losses[-1] < run.losses[0]


def event(kappa: float, granularity: str, per_example: bool = True) -> Any:
    """By hand, for the network of four, five and three units."""

    def draw(dimension: int) -> VonMisesFisherDpEvent:
        return VonMisesFisherDpEvent(dimension, kappa, per_example)

    if granularity == "whole":
        return draw(43)
    if granularity == "per_layer":
        return ComposedDpEvent([draw(3), draw(5), draw(15), draw(20)])
    # 5 rows of 4 and 3 rows of 5; biases of 5 and 3.
    return ComposedDpEvent([draw(3), SelfComposedDpEvent(draw(4), 5), SelfComposedDpEvent(draw(5), 4)])


@pytest.mark.parametrize("granularity", ["whole", "per_layer", "per_row"])
@pytest.mark.parametrize("aggregate", [False, True])
def test_the_ledger_is_of_what_was_drawn_and_as_planned(
    granularity: str, aggregate: bool, members: Records, problem: Problem, run: "SimplestRun"
) -> None:
    chosen = params(kappa=2.0, granularity=granularity, aggregate_then_vmf=aggregate)
    released = method.train(members, problem, chosen, run)
    release = event(2.0, granularity, per_example=not aggregate)
    assert str(released.ledger) == str(
        SelfComposedDpEvent(SampledWithoutReplacementDpEvent(60, 10, release), 5)
    )
    shaped = method.shaped(chosen, problem.model(0))
    assert str(method.planned(shaped, len(members))) == str(released.ledger)
    guarantee = price(released.ledger, chosen.delta)
    assert guarantee.adjacency == "replace-one"
    assert 0 < guarantee.epsilons["pld"] <= guarantee.epsilons["rdp"] <= guarantee.epsilons["pure"]


def test_the_paper_and_the_price_count_differently(
    members: Records, problem: Problem, run: "SimplestRun"
) -> None:
    """Full batches, 10 rows, 5 steps: pure epsilon 2 kappa 10 x 5; the paper states 2 kappa sqrt(10)."""
    chosen = params(kappa=2.0, granularity="per_row", batch_size=len(members))
    released = method.train(members, problem, chosen, run)
    assert price(released.ledger, 0.0).epsilon == pytest.approx(2 * 2.0 * 10 * 5)
    assert released.stats["claimed_epsilon"] == pytest.approx(4 * math.sqrt(10))
    assert released.stats["metric_epsilon_per_update"] == 2.0


@pytest.mark.parametrize("without", [{"row_magnitude": "keep"}, {"kappa": math.inf}])
def test_variants_without_a_guarantee_have_no_epsilon(
    without: dict[str, Any], members: Records, problem: Problem, run: "SimplestRun"
) -> None:
    chosen = params(**without)
    released = method.train(members, problem, chosen, run)
    assert released.ledger == NonPrivateDpEvent()
    assert method.planned(method.shaped(chosen, problem.model(0)), 60) == NonPrivateDpEvent()
    assert all(math.isfinite(value) for value in released.stats.values())


def test_the_plan_needs_the_model_and_the_training_does_not_need_the_plan(
    members: Records, problem: Problem, run: "SimplestRun"
) -> None:
    assert isinstance(method, Calibrated)
    assert isinstance(method, Shaped)
    with pytest.raises(SpecError) as caught:
        method.planned(params(), 60)
    assert (caught.value.field, caught.value.value) == ("directions", None)
    assert method.shaped(params(), problem.model(0)).directions == "1x43"
    method.train(members, problem, params(steps=1), run)


def test_an_uncalibrated_epsilon_is_refused(members: Records, problem: Problem, run: "SimplestRun") -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(epsilon=4.0, kappa=None), run)
    assert (caught.value.field, caught.value.value) == ("kappa", None)


@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam", "learning_rate": 0.01}])
def test_the_same_seed_gives_the_same_bits(
    optimizer: dict[str, Any], members: Records, problem: Problem, run_of: RunOf
) -> None:
    weights = [
        method.train(members, problem, params(**optimizer), run_of(seed)).predictor.state_dict()
        for seed in (1, 1, 2)
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


def test_the_released_model_is_clean(members: Records, problem: Problem, run: "SimplestRun") -> None:
    released = method.train(members, problem, params(), run)
    assert released.predictor.state_dict().keys() == problem.model(0).state_dict().keys()
    assert not any(module._forward_hooks for module in released.predictor.modules())
    assert all(weight.grad is None for weight in released.predictor.parameters())


def test_a_batch_larger_than_the_members_is_refused(
    members: Records, problem: Problem, run: "SimplestRun"
) -> None:
    chosen = method.shaped(params(batch_size=61), problem.model(0))
    for refuses in (
        lambda: method.planned(chosen, 60),
        lambda: method.train(members, problem, chosen, run),
    ):
        with pytest.raises(SpecError) as caught:
            refuses()
        assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batch_size", 61, (1, 60))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kappa": None}, "give epsilon .* or kappa"),
        ({"kappa": 0.0}, "kappa must be > 0, got 0"),
        ({"kappa": math.nan}, "kappa must be > 0, got nan"),
        ({"epsilon": math.inf}, "epsilon must be a finite number, got inf"),
        ({"epsilon": 1.0, "kappa": math.inf}, "kappa = inf adds no noise"),
        ({"epsilon": 1.0, "row_magnitude": "keep"}, "'keep' releases norms without noise"),
        ({"granularity": "per_axis"}, "granularity"),
        ({"clip": 1.0}, "clip"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)
