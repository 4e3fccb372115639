"""advreg against its min-max loop written out, at its limits, and what its parameters refuse."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import ValidationError
from torch import Tensor, nn

from harness.jobs.run import Run
from methods.advreg.adversary import Adversary, InferenceNetwork
from methods.advreg.advreg import AdvregParams, Overlapping, method, penalised
from methods.base import Problem, Released
from methods.training.holdout import hold_out
from methods.training.sampling import ShuffleSampler
from workloads.base import Records
from workloads.errors import SpecError

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

    Runs = Callable[[int], SimplestRun]


def params(**given: Any) -> AdvregParams:
    small = {"steps": 12, "batch_size": 10, "learning_rate": 0.2, "warm_up": 0.25, "adversary_passes": 2}
    return AdvregParams(**(small | given))


def flat(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def take_step(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()


def written_out(members: Records, problem: Problem, chosen: AdvregParams, run: "SimplestRun") -> nn.Module:
    """Warm-up, head start and min-max as in the SELENA repository, with batches drawn as here."""
    aside = round(chosen.reference_share * len(members))
    order = torch.randperm(len(members), generator=run.generator("reference"))
    trained, reference = members.take(order[aside:]), members.take(order[:aside])
    model = problem.model(run.seed("init"))
    network = InferenceNetwork(problem.classes, run.seed("adversary"))
    optimizer = torch.optim.SGD(model.parameters(), lr=chosen.learning_rate)
    attacking = torch.optim.Adam(network.parameters(), lr=chosen.adversary_rate)
    sampler = ShuffleSampler(len(trained), chosen.batch_size, run.generator("sampling"))

    def attack() -> None:
        random = run.generator("adversary")
        ins = torch.randperm(len(trained), generator=random)[:10]
        outs = torch.randperm(len(reference), generator=random)[:10]
        logits = model(torch.cat([trained.x[ins], reference.x[outs]])).detach()
        inferred = network(logits, torch.cat([trained.y[ins], reference.y[outs]]))
        truth = torch.tensor([1.0] * len(ins) + [0.0] * len(outs))
        take_step(((inferred - truth) ** 2).mean(), attacking)

    def classify(weight: float) -> None:
        rows = sampler.draw()
        logits = model(trained.x[rows])
        plain = problem.loss(logits, trained.y[rows]).mean()
        inferred = network(logits, trained.y[rows])
        take_step(plain + weight * (inferred.mean() - 0.5), optimizer)

    for _ in range(3):
        classify(0.0)
    for _ in range(4):  # two passes over twenty reference records in batches of ten
        attack()
    for _ in range(9):
        for _ in range(chosen.adversary_steps):
            attack()
        classify(chosen.alpha)
    return model


@pytest.mark.parametrize("given", [{}, {"adversary_steps": 3, "alpha": 50.0, "adversary_rate": 0.01}])
def test_it_is_the_loop_written_out(
    given: dict[str, Any], problem: Problem, members: Records, run_of: "Runs"
) -> None:
    chosen = params(reference_share=1 / 3, **given)
    released = method.train(members, problem, chosen, run_of(0))
    torch.testing.assert_close(
        flat(released.predictor), flat(written_out(members, problem, chosen, run_of(0))), rtol=1e-5, atol=1e-6
    )
    assert released.ledger == NonPrivateDpEvent()
    assert released.stats["reference_records"] == 20
    assert 0 <= released.stats["adversary_accuracy"] <= 1


def test_without_weight_it_is_plain_training_on_what_is_left(
    problem: Problem, members: Records, run_of: "Runs"
) -> None:
    released = method.train(members, problem, params(alpha=0.0, momentum=0.9), run_of(0))
    run = run_of(0)
    rows, aside = hold_out(len(members), 0.2, run.generator("reference"))
    trained = members.take(rows)
    model = problem.model(run.seed("init"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    sampler = ShuffleSampler(48, 10, run.generator("sampling"))
    for _ in range(12):
        batch = trained.take(sampler.draw())
        take_step(problem.loss(model(batch.x), batch.y).mean(), optimizer)
    assert torch.equal(flat(released.predictor), flat(model))
    assert released.set_aside is not None
    assert released.set_aside.tolist() == aside.tolist(), "members set aside are declared"


def adversary_of(model: nn.Module, members: Records, run: "SimplestRun") -> Adversary:
    halves = hold_out(len(members), 0.5, torch.Generator().manual_seed(0))
    trained, reference = (members.take(rows) for rows in halves)
    return Adversary(model, trained, reference, 3, 10, 0.01, run)


def test_an_adversary_without_a_clue_costs_nothing(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    """h = 1/2 everywhere: no penalty."""
    adversary = adversary_of(problem.model(0), members, run)
    with torch.no_grad():
        for weight in adversary.network.parameters():
            weight.zero_()
    logits = problem.model(0)(members.x)
    loss = penalised(problem, adversary, 6.0)(logits, members.y)
    assert torch.equal(loss, problem.loss(logits, members.y))


def test_a_step_of_the_adversary_leaves_the_classifier_alone(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    model = problem.model(0)
    adversary, before = adversary_of(model, members, run), flat(model)
    errors = [float(adversary.step()) for _ in range(60)]
    assert torch.equal(flat(model), before)
    assert all(weight.grad is None for weight in model.parameters())
    assert model.training
    assert errors[0] == pytest.approx(0.25, abs=0.01), "it begins at a guess"


def test_the_adversary_learns_a_visible_difference(problem: Problem, run: "SimplestRun") -> None:
    """Large logits for trained records, small ones for reference records."""
    x = torch.cat([torch.full((30, 4), 3.0), torch.full((30, 4), 0.1)])
    members = Records(x, torch.zeros(60, dtype=torch.int64))
    trained, reference = members.take(torch.arange(30)), members.take(torch.arange(30, 60))
    adversary = Adversary(problem.model(0), trained, reference, 3, 10, 0.003, run)
    assert adversary.accuracy() == 0.5
    assert min(float(adversary.step()) for _ in range(120)) < 0.05


def test_the_quirk_trains_every_batch_twice(problem: Problem, members: Records, run_of: "Runs") -> None:
    plain = ShuffleSampler(12, 3, torch.Generator().manual_seed(0))
    batches = [plain.draw().tolist() for _ in range(4)]
    run, numbers = run_of(0), torch.arange(12)
    records = Records(numbers, numbers)
    run.generator("sampling").manual_seed(0)
    twice = Overlapping(run.sampler("shuffle", records, 3), records, run)
    drawn = [twice.draw().x.tolist() for _ in range(6)]
    assert drawn == [batches[0], batches[1], batches[1], batches[2], batches[2], batches[3]]
    one, other = (
        method.train(members, problem, params(reference_code_quirk=quirk), run_of(0)) for quirk in (0, 1)
    )
    assert not torch.equal(flat(one.predictor), flat(other.predictor))


@pytest.mark.slow
@pytest.mark.parametrize("quirk", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 5, 9, 14])
def test_it_resumes_in_every_phase(
    steps: int,
    quirk: bool,
    problem: Problem,
    members: Records,
    resume: Callable[[Callable[[Run], Released], int], Released],
) -> None:
    """Three steps of warm-up, three of the adversary's head start, nine of both."""

    def train(run: Run) -> Released:
        return method.train(members, problem, params(momentum=0.9, reference_code_quirk=quirk), run)

    whole, resumed = train(Run("seed", torch.device("cpu"))), resume(train, steps)
    assert torch.equal(flat(whole.predictor), flat(resumed.predictor))
    assert whole.stats == resumed.stats


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": -1.0}, "alpha must be >= 0, got -1.0"),
        ({"reference_share": 0.0}, "reference_share must be > 0, got 0.0"),
        ({"reference_share": 1.0}, "reference_share must be < 1, got 1.0"),
        ({"warm_up": 1.0}, "warm_up must be < 1, got 1.0"),
        ({"adversary_steps": 0}, "adversary_steps must be > 0, got 0"),
        ({"adversary_passes": -1}, "adversary_passes must be >= 0, got -1"),
        ({"epsilon": 1.0}, "epsilon"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)


def test_a_share_that_leaves_no_member_is_refused(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(reference_share=0.999), run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("share", 0.999, 1 - 1 / 60)
