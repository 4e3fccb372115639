"""The moving average of weights against its definition."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from harness.jobs.run import Interrupted, Run
from methods.base import Problem, Released
from methods.dp_sgd import DpSgdParams, method
from methods.training.averaging import Average
from workloads.base import Records

if TYPE_CHECKING:
    from tests.methods.conftest import SimplestRun

SETTINGS = DpSgdParams(noise_multiplier=1.0, steps=12, batch_size=10, averaging=0.9)


def slow_average(iterates: list[float], decay: float) -> float:
    """The definition: decay min(d, t / (9 + t)) after t steps, from the untrained weight on."""
    mean = iterates[0]
    for step, value in enumerate(iterates[1:], start=1):
        own = min(decay, step / (9 + step))
        mean = own * mean + (1 - own) * value
    return mean


@pytest.mark.parametrize("decay", [0.3, 0.9, 0.999])
def test_it_is_the_moving_average(decay: float) -> None:
    weight = nn.Parameter(torch.tensor([4.0]))
    average, iterates = Average([weight], decay), [4.0]
    for step in range(30):
        with torch.no_grad():
            weight.fill_(float(step % 7))
        iterates.append(float(step % 7))
        average.add()
    average.release()
    assert weight.item() == pytest.approx(slow_average(iterates, decay), rel=1e-5)


def test_averaging_changes_what_is_released_and_nothing_else(
    problem: Problem, members: Records, run_of: "Callable[[int], SimplestRun]"
) -> None:
    averaged, last = run_of(1), run_of(1)
    ours = method.train(members, problem, SETTINGS, averaged)
    theirs = method.train(members, problem, SETTINGS.model_copy(update={"averaging": 0.0}), last)
    assert averaged.losses == last.losses, "the steps are the same"
    assert ours.ledger == theirs.ledger
    assert ours.stats == theirs.stats
    for own, other in zip(ours.predictor.parameters(), theirs.predictor.parameters(), strict=True):
        assert not torch.equal(own, other)


def test_an_interrupted_average_ends_as_an_uninterrupted_one(
    problem: Problem, members: Records, tmp_path: Path
) -> None:
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == 5

    def train(**given: object) -> Released:
        return method.train(members, problem, SETTINGS, Run("seed", torch.device("cpu"), **given))  # type: ignore[arg-type]

    whole = train()
    with pytest.raises(Interrupted):
        train(folder=tmp_path, stop=stop)
    resumed = train(folder=tmp_path)
    for own, other in zip(whole.predictor.parameters(), resumed.predictor.parameters(), strict=True):
        assert torch.equal(own, other)


def test_a_decay_of_one_would_never_learn() -> None:
    with pytest.raises(ValidationError, match="averaging must be < 1, got 1"):
        DpSgdParams(noise_multiplier=1.0, averaging=1.0)
