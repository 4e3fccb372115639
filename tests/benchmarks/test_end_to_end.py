"""Whole sweeps in CPU seconds of all processes, and Opacus's MNIST example through both programs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import methods
from harness.jobs.memory_layout import apply_layout
from harness.jobs.run import Run
from harness.jobs.setup import per_example_loss
from methods.base import Problem
from tests.benchmarks.pairs import Estimate, Seconds, interleave
from workloads.base import Records
from workloads.data.idx import read_images
from workloads.devices import CPU

if TYPE_CHECKING:
    from tests.benchmarks.table import Table

pytestmark = pytest.mark.benchmark

RUNS = 3
SECONDS = "whole sweeps beside collect and report, CPU seconds"
QUICKSTART, LOCATION = 26, 18
OPACUS = 0.25
"""Of the CPU time of the same steps through Opacus."""
LOCATION_SWEEP = """
name = "location"
models = 16
attacks = ["rmia"]

[[grid]]
workload = "location30-mlp"
method = "sgd"
"""
# Adopts what a command leaves running, waits for it, and prints the CPU time of all.
SPENT = """
import ctypes, os, resource, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
done = subprocess.run([sys.executable, *sys.argv[1:]], stdout=sys.stderr)
try:
    while True:
        os.wait()
except ChildProcessError:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
print(spent.ru_utime + spent.ru_stime)
raise SystemExit(done.returncode)
"""


def spent(folder: Path, *words: str) -> float:
    """CPU seconds of a command of privbench and of all that it starts, also in the background."""
    variables = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-c", SPENT, "-m", "harness.cli", *words]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.splitlines()[-1])


def sweep(tmp_path: Path, given: str, tasks: int) -> list[float]:
    """CPU seconds of a sweep, sent to the local backend in several fresh folders."""
    found = []
    for number in range(RUNS):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "location.toml").write_text(LOCATION_SWEEP, encoding="utf-8")
        found.append(spent(folder, "enqueue", given))
        results = list((folder / "privbench-store").glob("**/result.json"))
        assert len(results) == tasks
    return found


def test_the_quickstart(tmp_path: Path, table: "Table") -> None:
    found = sweep(tmp_path, "quickstart", 104)
    table.hold(SECONDS, "quickstart: 8 cells of 8 models", Estimate.of(found), QUICKSTART, RUNS)


@pytest.mark.data
def test_sixteen_mlps_on_location_30_with_rmia(tmp_path: Path, table: "Table") -> None:
    found = sweep(tmp_path, "location.toml", 21)
    table.hold(SECONDS, "16 Location-30 MLPs with RMIA", Estimate.of(found), LOCATION, RUNS)


def network(seed: int = 0) -> nn.Module:
    """The CNN of Opacus's examples/mnist.py: 26,010 weights."""
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1)),
        *(nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1)),
        *(nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10)),
    )


BATCH, SIGMA, CLIP, RATE = 240, 1.3, 1.5, 0.25
WARM_UP, STEPS, ROUNDS = 2, 8, 15
"""An engine checks its first batch against autograd, once in a training: not timed."""


def through_opacus(members: Records) -> Seconds:
    """Steps of the example's loop: Poisson batches by a DataLoader, PrivacyEngine, SGD."""
    from opacus import PrivacyEngine

    loader: DataLoader[tuple[Tensor, ...]] = DataLoader(TensorDataset(members.x, members.y), BATCH)
    model = network().train()
    private, optimizer, batches = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATE),
        data_loader=loader,
        noise_multiplier=SIGMA,
        max_grad_norm=CLIP,
    )

    def endless() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield from batches

    drawn = endless()

    def seconds() -> float:
        begin = time.process_time()
        for _ in range(STEPS):
            x, y = next(drawn)
            optimizer.zero_grad()
            F.cross_entropy(private(x), y).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return time.process_time() - begin

    return seconds


def through_privbench(members: Records) -> Seconds:
    """The same steps by dp-sgd in a run, with all of its clocks and observations."""
    trains = methods.family.get("dp-sgd")
    members, problem = apply_layout(members, Problem(10, network, per_example_loss))
    settings = {"noise_multiplier": SIGMA, "clip": CLIP, "learning_rate": RATE, "batch_size": BATCH}
    params = trains.Params.model_validate(settings | {"steps": WARM_UP + STEPS})

    def seconds() -> float:
        done, marks = 0, []

        def stop() -> bool:
            nonlocal done
            done += 1
            if done in (WARM_UP, WARM_UP + STEPS):
                marks.append(time.process_time())
            return False

        trains.train(members, problem, params, Run("opacus", CPU, stop=stop))
        return marks[1] - marks[0]

    return seconds


@pytest.mark.data
@pytest.mark.filterwarnings("ignore")
def test_opacus_mnist_example_against_opacus(table: "Table") -> None:
    found = read_images(Path(os.environ["PRIVBENCH_DATA"]) / "mnist")
    x = torch.from_numpy(found["train_x"]).float().div(255).sub(0.1307).div(0.3081)
    members = Records(x.view(-1, 1, 28, 28), torch.from_numpy(found["train_y"]).long())
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        times = interleave(
            {"opacus": through_opacus(members), "privbench": through_privbench(members)}, ROUNDS
        )
    finally:
        torch.set_num_threads(before)
    table.hold(
        "privbench / Opacus",
        f"Opacus's MNIST example, batches of {BATCH}, {STEPS} steps",
        times.ratio("privbench", "opacus"),
        OPACUS,
        ROUNDS,
        f"{times.median('privbench') / STEPS * 1e3:.0f} ms a step, Opacus "
        f"{times.median('opacus') / STEPS * 1e3:.0f} ms",
    )
