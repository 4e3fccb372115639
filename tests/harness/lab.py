"""Plug-ins for tests: a tiny workload and a method that exercises every part of a run, or fails on request.

As a script it trains repeatedly in forked processes that are killed by SIGKILL, then once to the end:

    python lab.py FOLDER '[{"method": "trial", "params": {}, "kills": [4, 7], "raids": 5}]'
"""

import hashlib
import json
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from dp_accounting import NonPrivateDpEvent
from torch import Tensor, nn

import methods.base
from harness.jobs.run import Run
from harness.jobs.setup import per_example_loss
from methods.base import Params, Problem, Released
from workloads.base import Records

GIBIBYTES = 4
"""More than any limit under test."""


@dataclass(frozen=True)
class LabData:
    """Sixty records of two classes, and a network with dropout."""

    name: str = "lab-data"
    version: str = "1"
    about: str = "two Gaussian classes in four features"
    source: str = "generated"
    classes: int = 2
    n_train: int = 30

    def pool(self) -> Records:
        return draw(60, 1)

    def test(self) -> Records:
        return draw(40, 2)

    def model(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))


def draw(count: int, seed: int) -> Records:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    return Records(torch.randn(count, 4, generator=generator) + labels[:, None], labels)


workload = LabData()


class TrialParams(Params):
    steps: int = 12
    pause: float = 0.0
    trouble: Literal[
        "",
        "error",
        "diverge",
        "allocate",
        "memory",
        "gpu-memory",
        "gpu-assert",
        "stats",
        "deaf",
        "exit",
        "break",
        "warn",
        "hoard",
        "child",
        "fill",
    ] = ""
    at: int = 3


class Trial:
    """Two phases with Adam, then momentum; dropout; draws between the phases; every kind of state."""

    version: ClassVar[str] = "1"
    about: ClassVar[str] = "a method for tests"
    source: ClassVar[str] = "none"
    guarantee: ClassVar[str] = "none"
    caveats: ClassVar[tuple[str, ...]] = ()
    Params: ClassVar[type[TrialParams]] = TrialParams

    def train(
        self, members: Records, problem: Problem, params: TrialParams, run: methods.base.Run
    ) -> Released:
        model = problem.model(run.seed("init")).train()
        sampling, noise = run.generator("sampling"), run.generator("noise")
        average = torch.zeros(2)
        tally, history = {"examples": 0, "clipped": 0}, [0.0]

        def step(optimizer: torch.optim.Optimizer, number: int) -> Tensor:
            if params.pause:
                time.sleep(params.pause)
            make_trouble(params, number)
            rows = torch.randint(len(members), (8,), generator=sampling)
            batch = members.take(rows)
            optimizer.zero_grad()
            with run.clock("forward"):
                logits = model(batch.x)
                loss = problem.loss(logits, batch.y).mean()
            torch.autograd.backward(loss)
            for weight in model.parameters():
                if weight.grad is not None:
                    weight.grad += 0.01 * torch.randn(weight.shape, generator=noise)
            optimizer.step()
            average.mul_(0.9).add_(logits.detach().mean(0))
            tally["examples"] += len(batch)
            history.append(float(loss.detach()))
            return loss.detach()

        adam = torch.optim.Adam(model.parameters(), lr=0.01)
        state = {"model": model, "average": average, "tally": tally, "history": history}
        for number in run.steps("warm", params.steps, {**state, "optimizer": adam}):
            run.observe(loss=step(adam, number))
        shift = torch.randn(2, generator=noise) + torch.randn(2, generator=run.generator("between"))
        tally["clipped"] += int(torch.randint(100, (), generator=sampling))
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for number in run.steps("main", params.steps, {**state, "optimizer": sgd}):
            loss = step(sgd, number)
            run.observe(loss=diverged(loss) if params.trouble == "diverge" and number == params.at else loss)
            if number % 3 == 1:  # seen in some steps only
                run.observe(third=float(number))
                with run.clock("third"):
                    average += 0.1 * shift
            if params.trouble == "break" and number == params.at:
                break
        stats = {**tally, "history": sum(history), "average": float(average.sum())}
        if params.trouble == "stats":
            stats["history"] = float("nan")
        return Released(model.eval(), NonPrivateDpEvent(), stats)


def diverged(loss: Tensor) -> Tensor:
    return loss * float("inf")


def hoard() -> None:
    """Fill memory until the process is killed; only under a memory limit."""
    held = [b"x" * (1 << 24) for _ in range(GIBIBYTES * 64)]
    raise RuntimeError(f"nobody minds {len(held)} pieces")


def make_trouble(params: TrialParams, step: int) -> None:
    """Fail in step `at` as the parameters request."""
    if step != params.at:
        return
    if params.trouble == "warn":
        for _ in range(2):
            logging.getLogger("methods.lab").warning("the sky is falling")
    if params.trouble == "error":
        sys.stdout.write("about to fail\n")
        raise ValueError("no luck today")
    if params.trouble == "allocate":
        torch.empty(1 << 48)  # more than an address space holds
    if params.trouble == "memory":
        raise MemoryError
    if params.trouble == "gpu-memory":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    if params.trouble == "gpu-assert":
        raise RuntimeError("CUDA error: device-side assert triggered")
    if params.trouble == "deaf":
        time.sleep(1000)
    if params.trouble == "exit":
        os._exit(3)
    if params.trouble == "hoard":
        hoard()
    if params.trouble == "child":
        hoarder = multiprocessing.get_context("fork").Process(target=hoard)
        hoarder.start()
        hoarder.join()
        raise RuntimeError(f"the child ended with {hoarder.exitcode}")
    if params.trouble == "fill":
        with tempfile.TemporaryFile() as file:
            for _ in range(GIBIBYTES * 64):
                file.write(bytes(1 << 24))


method = Trial()


def train(
    name: str, params: dict[str, Any], folder: Path | None, stop: Callable[[], bool], interval: float = 1000.0
) -> Run:
    """Train on the lab's data; the run's `digest` covers the whole outcome."""
    trained: Any = method if name == "trial" else methods.family.get(name)
    run = Run("lab", torch.device("cpu"), folder, interval, stop)
    problem = Problem(workload.classes, workload.model, per_example_loss)
    released = trained.train(draw(30, 3), problem, trained.Params(**params), run)
    run.finish()
    run.digest = digest(run, released)  # type: ignore[attr-defined]
    return run


def digest(run: Run, released: Released) -> str:
    """A hash of weights, stats, observed values and the next draw of every random stream."""
    found = hashlib.sha256()
    for name, tensor in released.predictor.state_dict().items():
        found.update(name.encode() + tensor.numpy().tobytes())
    found.update(json.dumps(released.stats, sort_keys=True).encode())
    for phase, series in run.phases.items():
        found.update(json.dumps([phase, len(series.wall), series.values], sort_keys=True).encode())
        found.update(json.dumps({name: len(column) for name, column in series.clocks.items()}).encode())
    for stream in ("sampling", "noise", "between"):
        found.update(torch.rand(3, generator=run.generator(stream)).numpy().tobytes())
    found.update(torch.rand(3).numpy().tobytes())
    return found.hexdigest()


def trained_and_killed(name: str, folder: Path, order: dict[str, Any]) -> dict[str, Any]:
    """Train undisturbed; then repeatedly, killed each time; then resume to the end."""
    undisturbed = train(name, order["params"], None, lambda: False)
    for steps in order["kills"]:
        child = os.fork()
        if child == 0:
            train(name, order["params"], folder, die_after(steps), interval=0.0)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise RuntimeError(f"the training ended with {status} before it could be killed")
    chance = random.Random(0)
    for _ in range(order["raids"]):  # at random times, perhaps while a checkpoint is written
        child = os.fork()
        if child == 0:
            train(name, order["params"], folder, lambda: False, interval=0.0)
            os._exit(0)
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    resumed = train(name, order["params"], folder, lambda: False)
    return {"undisturbed": digested(undisturbed), "resumed": digested(resumed)}


def digested(run: Run) -> dict[str, Any]:
    """The digest of a run and the steps of its phases."""
    steps = {phase: len(series.wall) for phase, series in run.phases.items()}
    return {"digest": run.digest, "steps": steps}  # type: ignore[attr-defined]


def die_after(steps: int) -> Callable[[], bool]:
    """Called after every step, before it is saved: SIGKILL at the given one."""
    left = iter(range(steps - 1, -1, -1))
    return lambda: next(left) == 0 and die()


def die() -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return True


if __name__ == "__main__":
    torch.set_num_threads(1)
    outcomes = {
        each["method"]: trained_and_killed(each["method"], Path(sys.argv[1]) / each["method"], each)
        for each in json.loads(sys.argv[2])
    }
    sys.stdout.write(json.dumps(outcomes))
