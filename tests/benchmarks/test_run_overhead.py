"""What the harness adds to a training loop: CPU time of a step against a bare loop in plain torch.

Not part of `make test`: a busy machine moves all figures. Run with `pytest -m benchmark -s tests/benchmarks`.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn.functional import cross_entropy

import methods
import workloads
from harness.jobs.run import Run
from harness.jobs.setup import per_example_loss
from methods.base import Problem
from methods.gradients import EngineName
from tests.benchmarks.pairs import Estimate, interleave, timed
from workloads.devices import CPU

if TYPE_CHECKING:
    from tests.benchmarks.table import Table

pytestmark = pytest.mark.benchmark

WARM_UP, STEPS, ROUNDS = 20, 200, 50
MICROSECONDS = 25
"""The harness's loop over a bare one with the same gather, at most."""
MUST: dict[EngineName, float] = {"native": 1.0, "auto": 1.25}
"""A dp-sgd step over a bare step of sgd, at most; the aim of `native` is 0.8."""

Seconds = Callable[[], float]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def bare(workload: str, size: int) -> Seconds:
    """Shuffled epochs of plain SGD as a script has them; seconds a step, after a warm-up."""
    chosen = workloads.family.get(workload)
    members = chosen.pool().take(torch.arange(chosen.n_train))

    def seconds() -> float:
        model = chosen.model(0).train()  # a new one each time: what is learned perfectly has slow denormals
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        order, taken, begin = torch.randperm(len(members)), 0, 0.0
        for step in range(WARM_UP + STEPS):
            if step == WARM_UP:
                begin = time.process_time()
            if taken + size > len(members):
                order, taken = torch.randperm(len(members)), 0
            rows = order[taken : taken + size]
            taken += size
            x, y = members.x.index_select(0, rows), members.y.index_select(0, rows)
            loss = cross_entropy(model(x), y)
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        return (time.process_time() - begin) / STEPS

    return seconds


def trained(workload: str, size: int, method: str, **given: Any) -> Seconds:
    """The method in a run with all clocks and observations; seconds a step, after a warm-up."""
    chosen, trains = workloads.family.get(workload), methods.family.get(method)
    members = chosen.pool().take(torch.arange(chosen.n_train))
    problem = Problem(chosen.classes, chosen.model, per_example_loss)
    params = trains.Params(**{"steps": WARM_UP + STEPS, "batch_size": size, "learning_rate": 0.1, **given})

    def seconds() -> float:
        done, marks = 0, []

        def stop() -> bool:
            nonlocal done
            done += 1
            if done in (WARM_UP, WARM_UP + STEPS):
                marks.append(time.process_time())
            return False

        trains.train(members, problem, params, Run("overhead", CPU, stop=stop))
        return (marks[1] - marks[0]) / STEPS

    return seconds


@pytest.mark.parametrize(("workload", "size"), [("digits-linear", 64), ("digits-mlp", 256)])
def test_the_loop_adds_little_to_a_bare_one(workload: str, size: int, table: "Table") -> None:
    times = interleave({"bare": bare(workload, size), "sgd": trained(workload, size, "sgd")}, ROUNDS)
    table.hold(
        "what the harness adds to a step of a bare loop, microseconds",
        f"{workload}, B={size}",
        times.excess("sgd", "bare").scaled(1e6),
        MICROSECONDS,
        ROUNDS,
        f"bare {1e6 * times.median('bare'):.0f}",
    )


@pytest.mark.parametrize("workload", ["digits-linear", "digits-mlp"])
@pytest.mark.parametrize("size", [64, 256])
@pytest.mark.parametrize("engine", MUST)
def test_a_private_step_costs_no_more_than_a_bare_one(
    workload: str, size: int, engine: EngineName, table: "Table"
) -> None:
    private = trained(workload, size, "dp-sgd", noise_multiplier=1.0, engine=engine)
    times = interleave({"bare": bare(workload, size), "dp-sgd": private}, ROUNDS)
    table.hold(
        "dp-sgd step in the harness / bare step of sgd",
        f"{workload}, B={size}, engine {engine}",
        times.ratio("dp-sgd", "bare"),
        MUST[engine],
        ROUNDS,
        f"bare {1e6 * times.median('bare'):.0f} us",
    )


def clocked() -> None:
    run = Run("overhead", CPU)
    for _ in run.steps("train", 10 * STEPS, {}):
        for name in ("batch", "gradients", "update"):
            with run.clock(name):
                pass
        run.observe(loss=0.5)


def test_an_empty_step_costs_microseconds(table: "Table") -> None:
    times = interleave({"clocked": timed(clocked)}, ROUNDS)
    found = Estimate.of(times.rounds["clocked"]).scaled(1e6 / (10 * STEPS))
    table.hold("an empty step, microseconds", "three clocks and a value", found, MICROSECONDS, ROUNDS)
