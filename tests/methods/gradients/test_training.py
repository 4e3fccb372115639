"""A whole private training by two engines with the same randomness."""

from typing import Any

import torch

import workloads
from harness.jobs.run import Run
from harness.jobs.setup import per_example_loss
from methods.base import Problem, Released
from methods.dp_sgd import DpSgdParams, method


def train(**given: Any) -> Released:
    workload = workloads.family.get("digits-mlp")
    members = workload.pool().take(torch.arange(workload.n_train))
    params = DpSgdParams(noise_multiplier=1.0, steps=50, batch_size=128, learning_rate=1.0, **given)
    problem = Problem(workload.classes, workload.model, per_example_loss)
    return method.train(members, problem, params, Run("same randomness", torch.device("cpu")))


def weights(released: Released) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in released.predictor.parameters()])


def test_engines_train_the_same_model() -> None:
    theirs = train(engine="opacus")
    for ours in (
        train(engine="bookkeeping"),
        train(engine="opacus-ghost"),
        train(physical_batch_size=50),
    ):
        assert (weights(ours) - weights(theirs)).norm() < 1e-4 * weights(theirs).norm()
        assert ours.stats == theirs.stats
        assert ours.ledger == theirs.ledger


def test_clipping_per_layer_trains_another_model() -> None:
    flat, layered = train(), train(clipping="per_layer")
    assert (weights(flat) - weights(layered)).norm() > 1e-2 * weights(flat).norm()
    assert layered.ledger == flat.ledger, "the sensitivity is the same"


def test_secure_noise_is_never_the_same() -> None:
    one, other = train(secure=True), train(secure=True)
    assert not torch.equal(weights(one), weights(other))
    assert one.ledger == other.ledger
