"""pd-sgd against the algorithm as printed, at its limits, and the stats of a run."""

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from pydantic import ValidationError
from scipy.stats import norm
from torch import Tensor, nn

from harness.jobs.run import Interrupted, Run
from methods.base import Problem, Released
from methods.pd_sgd.pd_sgd import PdSgdParams, method
from workloads.base import Records
from workloads.errors import SpecError
from workloads.models.mlp import mlp

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

    Runs = Callable[[int], SimplestRun]


def params(**given: Any) -> PdSgdParams:
    return PdSgdParams(**({"steps": 30, "batches": 6, "sigma": 0.1, "gamma": 15.0, "T": 3} | given))


def flat(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def flat_gradient(model: nn.Module, problem: Problem, batch: Records) -> Tensor:
    loss = problem.loss(model(batch.x), batch.y).mean()
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def seeds_of(members: Records, chosen: PdSgdParams, run: "SimplestRun") -> list[list[Records]]:
    """The batches of every step, the seed first, drawn according to the definition."""
    random, count = run.generator("partition"), chosen.count_batches(len(members))
    steps = []
    for _ in range(chosen.steps):
        order = torch.randperm(len(members), generator=random)
        parts = [
            order[i * len(members) // count : (i + 1) * len(members) // count]
            for i in torch.randperm(count, generator=random)
        ]
        steps.append([members.take(part) for part in parts])
    return steps


def move(model: nn.Module, vector: Tensor, rate: float) -> None:
    """theta - rate * vector."""
    place = 0
    with torch.no_grad():
        for weight in model.parameters():
            piece = vector[place : place + weight.numel()].view_as(weight)
            weight.copy_(torch.add(weight, piece, alpha=-rate))
            place += weight.numel()


def log_density(vector: Tensor, sigma: float) -> float:
    """Of independent normal coordinates, every term of it."""
    return float(norm.logpdf(vector, scale=sigma).sum())


def printed_algorithm(
    members: Records, problem: Problem, chosen: PdSgdParams, run: "SimplestRun"
) -> tuple[nn.Module, list[bool]]:
    """Algorithm 1 line by line: every batch's gradient, full log-densities, no shortcut; the accept flags."""
    model = problem.model(run.seed("init"))
    flags = []
    for batches in seeds_of(members, chosen, run):
        gradients = [flat_gradient(model, problem, batch) for batch in batches]
        seed = gradients[0]
        noise = torch.empty_like(seed).normal_(0.0, chosen.sigma, generator=run.generator("noise"))
        count = 0
        for gradient in gradients:
            other = noise.double() + seed.double() - gradient.double()
            ratio = log_density(noise.double(), chosen.sigma) - log_density(other, chosen.sigma)
            count += abs(ratio) <= chosen.gamma
        flags.append(count >= chosen.T)
        if flags[-1]:
            move(model, seed + noise, chosen.learning_rate)
    return model, flags


class Enclosed(nn.Module):
    """A model whose layers are out of sight, so that its gradients are autograd's."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.inner(x)
        return logits


def enclosed(problem: Problem) -> Problem:
    return replace(problem, model=lambda seed: Enclosed(problem.model(seed)))


@pytest.mark.parametrize("given", [{}, {"T": 2, "gamma": 8.0}, {"T": 6, "gamma": 40.0}, {"batches": 7}])
def test_it_is_the_printed_algorithm_bit_for_bit(
    given: dict[str, Any], problem: Problem, members: Records, run_of: "Runs"
) -> None:
    chosen = params(**given)
    reference, flags = printed_algorithm(members, problem, chosen, run_of(1))
    released = method.train(members, enclosed(problem), chosen, run_of(1))
    assert torch.equal(flat(released.predictor), flat(reference))
    by_hand = method.train(members, problem, chosen, run_of(1))
    torch.testing.assert_close(flat(by_hand.predictor), flat(reference))
    assert by_hand.stats["rejection_rate"] == released.stats["rejection_rate"]
    assert released.stats["rejection_rate"] == pytest.approx(1 - sum(flags) / len(flags))
    assert {True, False} == set(flags), "both verdicts occur"
    assert released.ledger == NonPrivateDpEvent()


def test_one_plausible_batch_accepts_always_and_is_only_noise(
    problem: Problem, members: Records, run_of: "Runs"
) -> None:
    """T = 1: the seed alone is enough, however small gamma is."""
    alone = method.train(members, problem, params(T=1, gamma=1e-12), run_of(0))
    noise = method.train(members, problem, params(ablation="only_noise"), run_of(0))
    assert alone.stats["rejection_rate"] == 0
    assert alone.stats["batches_evaluated_mean"] == 1
    assert torch.equal(flat(alone.predictor), flat(noise.predictor))


def test_without_noise_and_threshold_it_is_sgd_on_the_seed_batches(
    problem: Problem, members: Records, run_of: "Runs"
) -> None:
    chosen = params(sigma=1e-30, gamma=math.inf, T=6, momentum=0.5)
    released = method.train(members, enclosed(problem), chosen, run_of(0))
    run = run_of(0)
    model = problem.model(run.seed("init"))
    optimizer = torch.optim.SGD(model.parameters(), lr=chosen.learning_rate, momentum=0.5)
    for batches in seeds_of(members, chosen, run):
        optimizer.zero_grad()
        torch.autograd.backward(problem.loss(model(batches[0].x), batches[0].y).mean())
        optimizer.step()
    assert torch.equal(flat(released.predictor), flat(model))


def test_batches_that_are_all_alike_always_pass(problem: Problem, run: "SimplestRun") -> None:
    same = Records(torch.ones(60, 4), torch.zeros(60, dtype=torch.int64))
    released = method.train(same, problem, params(gamma=1e-12, T=6), run)
    assert released.stats["rejection_rate"] == 0


def test_the_noise_has_the_stated_size(run: "SimplestRun") -> None:
    """Absolute, not relative to the batch: with zero gradients one step is learning_rate * sigma."""

    def model(seed: int) -> nn.Module:
        return nn.Linear(100, 100, bias=False).requires_grad_(True)

    def nothing(logits: Tensor, labels: Tensor) -> Tensor:
        return 0.0 * logits.sum(1)

    members = Records(torch.zeros(20, 100), torch.zeros(20, dtype=torch.int64))
    fresh = model(0)
    problem = Problem(100, lambda seed: fresh, nothing)
    before = flat(fresh)
    method.train(members, problem, params(steps=1, sigma=0.7, learning_rate=0.3), run)
    update = flat(fresh) - before
    assert update.std() == pytest.approx(0.21, rel=5 / math.sqrt(2 * len(update)))


def test_only_the_test_leaves_the_noise_out_of_the_update(
    problem: Problem, members: Records, run_of: "Runs"
) -> None:
    """The first step that passes is the gradient itself; the test still sees noise."""
    chosen = params(ablation="only_test", steps=1, gamma=math.inf)
    released = method.train(members, enclosed(problem), chosen, run_of(0))
    run = run_of(0)
    model = problem.model(run.seed("init"))
    ((seed, *_),) = seeds_of(members, chosen, run)
    move(model, flat_gradient(model, problem, seed), chosen.learning_rate)
    assert torch.equal(flat(released.predictor), flat(model))
    tested = method.train(members, problem, params(ablation="only_test"), run_of(0))
    assert 0 < tested.stats["rejection_rate"] < 1


def test_random_rejection_rejects_at_the_given_rate_without_a_test(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    chosen = params(ablation="random_rejection", rejection_rate=0.3, steps=1000)
    released = method.train(members, problem, chosen, run)
    assert released.stats["rejection_rate"] == pytest.approx(0.3, abs=5 * math.sqrt(0.21 / 1000))
    assert released.stats["batches_evaluated_mean"] == 1
    assert "half_acceptance_sigmas" not in released.stats


def test_it_learns(problem: Problem, members: Records, run: "SimplestRun") -> None:
    released = method.train(members, problem, params(steps=300, learning_rate=0.5, gamma=30.0), run)
    assert (released.predictor(members.x).argmax(1) == members.y).float().mean() > 0.9
    assert not released.predictor.training
    assert all(weight.grad is None for weight in released.predictor.parameters())


def test_more_threshold_rejects_less_and_more_witnesses_reject_more(
    problem: Problem, members: Records, run_of: "Runs"
) -> None:
    def rate(**given: Any) -> float:
        return method.train(members, problem, params(**given), run_of(0)).stats["rejection_rate"]

    by_gamma = [rate(gamma=gamma) for gamma in (2.0, 15.0, 60.0)]
    by_count = [rate(T=count) for count in (1, 2, 4, 6)]
    assert by_gamma == sorted(by_gamma, reverse=True)
    assert by_count == sorted(by_count)
    assert by_gamma[0] > by_gamma[-1]
    assert by_count[0] < by_count[-1]


def test_the_stats_of_a_run_add_up(problem: Problem, members: Records, run_of: "Runs") -> None:
    chosen = params(steps=40)
    released = method.train(members, problem, chosen, run_of(1))
    stats = released.stats
    assert stats["batches"] == 6
    accepted = round((1 - stats["rejection_rate"]) * 40)
    # Six batches of ten: an update uses ten of the sixty.
    assert stats["updates_per_record_mean"] == pytest.approx(accepted * 10 / 60)
    levels = [stats[f"updates_per_record_{name}"] for name in ("min", "p05", "p50", "p95", "max")]
    assert levels == sorted(levels)
    shares = [stats[f"count_{count}_share"] for count in (1, 2, 3)]
    assert sum(shares) == pytest.approx(1)
    assert shares[2] == pytest.approx(1 - stats["rejection_rate"]), "the third plausible batch accepts"
    assert 3 <= stats["batches_evaluated_mean"] <= 6
    assert stats["half_acceptance_sigmas"] == pytest.approx(math.sqrt(30))
    assert stats["initial_distance_sigmas"] > 0


def test_rejecting_everything_ends_at_the_step_limit_and_warns(
    problem: Problem, members: Records, run_of: "Runs", caplog: pytest.LogCaptureFixture
) -> None:
    run = run_of(0)
    with caplog.at_level(logging.WARNING, logger="methods"):
        released = method.train(members, problem, params(gamma=1e-6), run)
    assert released.stats["rejection_rate"] == 1
    assert released.stats["updates_per_record_max"] == 0
    assert torch.equal(flat(released.predictor), flat(problem.model(run.seed("init"))))
    first, last = (record.getMessage() for record in caplog.records)
    assert "the first 25 steps were all rejected" in first
    assert "all 30 steps were rejected: the model is untrained" in last
    gamma = float(last.split("gamma near ")[1].split(". ")[0])
    assert gamma == pytest.approx(released.stats["initial_distance_sigmas"] ** 2 / 2, rel=0.05)
    caplog.clear()
    helped = method.train(members, problem, params(gamma=gamma), run_of(0))
    assert helped.stats["rejection_rate"] < 0.5, "the suggestion gets the run going"
    assert not caplog.records


# -- the anomalous batch ---------------------------------------------------------------------------


def crowd(count: int = 400) -> Records:
    """Four classes that overlap, so that batches differ."""
    random = torch.Generator().manual_seed(0)
    y = torch.arange(count) % 4
    return Records(torch.randn(count, 8, generator=random) + torch.eye(4, 8)[y], y)


def anomaly(share: float, run: Any) -> Released:
    problem = Problem(4, lambda seed: mlp((8, 4), seed), cross_entropy)
    chosen = params(anomalous_share=share, batches=5, steps=150, sigma=0.02, gamma=320.0, learning_rate=0.5)
    return method.train(crowd(), problem, chosen, run)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, labels, reduction="none")


@pytest.mark.slow
def test_an_anomalous_batch_is_rejected_the_more_of_its_labels_are_flipped(run_of: "Runs") -> None:
    stats = [anomaly(share, run_of(0)).stats for share in (0.0, 0.25, 1.0)]
    rates = [each["anomalous_rejection_rate"] for each in stats]
    assert rates == sorted(rates)
    assert rates[0] < 0.1
    assert rates[2] > 0.9
    assert all(each["normal_rejection_rate"] < 0.1 for each in stats), "normal batches stay flat"
    # Every tenth step is a probe, and of the others about a fifth begins with that batch.
    assert all(each["anomalous_tests"] + each["normal_tests"] == 150 for each in stats)
    assert all(15 + 13 < each["anomalous_tests"] < 15 + 45 for each in stats)


def test_a_probe_makes_no_update(run_of: "Runs") -> None:
    """With an infinite threshold every step is accepted, and the probes alone leave the records unused."""
    problem = Problem(4, lambda seed: mlp((8, 4), seed), cross_entropy)
    chosen = params(anomalous_share=0.0, batches=5, steps=100, gamma=math.inf)
    stats = method.train(crowd(), problem, chosen, run_of(0)).stats
    assert stats["rejection_rate"] == 0
    assert stats["updates_per_record_mean"] == pytest.approx(90 / 5)


@pytest.mark.parametrize("step", [1, 15, 29])
def test_an_experiment_resumes_to_the_same_bits(step: int, tmp_path: Path, members: Records) -> None:
    problem = Problem(3, lambda seed: mlp((4, 5, 3), seed), cross_entropy)
    chosen = params(anomalous_share=0.5, momentum=0.9)

    def train(**given: Any) -> Released:
        return method.train(members, problem, chosen, Run("seed", torch.device("cpu"), **given))

    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == step

    whole = train()
    with pytest.raises(Interrupted):
        train(folder=tmp_path, stop=stop)
    resumed = train(folder=tmp_path)
    assert torch.equal(flat(whole.predictor), flat(resumed.predictor))
    assert whole.stats == resumed.stats
    assert 0 < whole.stats["rejection_rate"] < 1


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "members", "expected"),
    [
        ({"batches": 10}, 2255, 10),
        ({"batches": None, "batch_size": 225}, 2255, 10),
        ({"batches": None, "batch_size": 8}, 39, 5),
        ({"batches": None, "batch_size": 8, "T": 3}, 8, 3),
        ({"batches": None, "batch_size": 8, "T": 3, "ablation": "only_noise"}, 8, 1),
    ],
)
def test_members_are_split_into_batches_of_about_the_size_but_at_least_t(
    given: dict[str, Any], members: int, expected: int
) -> None:
    assert params(**given).count_batches(members) == expected


def test_the_number_of_batches_stands_for_the_batch_size_of_a_recipe() -> None:
    given = params(batches=6, batch_size=64)
    assert given.batch_size is None
    assert PdSgdParams(**given.model_dump()) == given, "as a task brings it back"


def test_a_layer_with_running_statistics_is_refused(members: Records, run: "SimplestRun") -> None:
    def model(seed: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))

    with pytest.raises(SpecError) as caught:
        method.train(members, Problem(3, model, cross_entropy), params(), run)
    assert (caught.value.field, caught.value.value) == ("layer", ("1",))


def test_more_batches_than_members_are_refused(
    problem: Problem, members: Records, run: "SimplestRun"
) -> None:
    with pytest.raises(SpecError) as caught:
        method.train(members, problem, params(batches=61), run)
    assert (caught.value.field, caught.value.value, caught.value.allowed) == ("batches", 61, (1, 60))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sigma": 0.0}, "sigma must be > 0, got 0"),
        ({"sigma": math.inf}, "sigma must be a finite number, got inf"),
        ({"gamma": 0.0}, "gamma must be > 0, got 0"),
        ({"gamma": math.nan}, "gamma must be > 0, got nan"),
        ({"T": 0}, "T must be > 0, got 0"),
        ({"T": 7}, "T = 7 plausible batches cannot be found among batches = 6"),
        ({"batches": None, "batch_size": None}, "give batch_size or batches"),
        ({"ablation": "random_rejection"}, "rejection_rate goes with ablation 'random_rejection'"),
        ({"rejection_rate": 0.3}, "rejection_rate goes with ablation 'random_rejection'"),
        ({"anomalous_share": 1.1}, "anomalous_share must be from 0 to 1, got 1.1"),
        ({"anomalous_share": 0.5, "T": 1}, "anomalous_share measures how often the test rejects"),
        (
            {"anomalous_share": 0.5, "ablation": "only_noise"},
            "anomalous_share measures how often the test rejects",
        ),
        ({"ablation": "none"}, "ablation"),
        ({"epsilon": 1.0}, "epsilon"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        params(**wrong)
