"""Whole sweeps in CPU seconds of all processes, and Opacus's MNIST example through both programs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

import methods
from harness.jobs.memory_layout import apply_layout, restore_layout
from harness.jobs.run import Run
from harness.jobs.setup import per_example_loss
from harness.jobs.train import EVALUATION_BATCH, predict_logits
from methods.base import Problem
from methods.gradients import EngineName
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
OPACUS: dict[EngineName, float] = {"native": 0.25, "auto": 0.45}
"""Of the CPU time of Opacus's own script."""
OPACUS_STEPS: dict[EngineName, float] = {"native": 0.4, "auto": 0.5}
"""Of the CPU time of its steps on tensors that lie ready, which the script's do not: the difference between
the rows is reading, and this one bounds the step itself."""
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
MEAN, SPREAD = 0.1307, 0.3081
EPOCHS, TESTED_AT_ONCE = 15, 1024
WARM_UP, STEPS, ROUNDS = 2, 8, 15
"""An engine checks its first batch against autograd, once in a training: not timed."""
Pairs = Dataset[tuple[Tensor, ...]]


class Images(Pairs):
    """What torchvision's MNIST does at every access: an image from the array, ToTensor, Normalize."""

    def __init__(self, images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> None:
        self.images, self.labels = torch.from_numpy(images).view(-1, 28, 28), torch.from_numpy(labels).long()

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[Tensor, ...]:
        label = int(self.labels[row])
        image = Image.fromarray(self.images[row].numpy())
        pixels = torch.from_numpy(np.array(image, np.uint8, copy=True))
        pixels = pixels.view(image.size[1], image.size[0], len(image.getbands()))
        scaled = pixels.permute(2, 0, 1).contiguous().to(torch.float32).div(255)
        normal = scaled.clone()
        mean, spread = torch.as_tensor([MEAN]), torch.as_tensor([SPREAD])
        if bool((spread == 0).any()):
            raise ValueError("nothing to divide by")
        normal.sub_(mean.view(-1, 1, 1)).div_(spread.view(-1, 1, 1))
        return normal, torch.tensor(label)


@dataclass(frozen=True)
class Read:
    """MNIST as its files have it."""

    train: Images
    test: Images

    @property
    def steps(self) -> float:
        """Of a whole training."""
        return EPOCHS * len(self.train) / BATCH


def records_of(images: Images) -> Records:
    """Them as tensors, normalised once."""
    x = images.images.float().div(255).sub(MEAN).div(SPREAD)
    return Records(x.view(-1, 1, 28, 28), images.labels)


def through_opacus(train: Pairs, test: Images | None, steps: float) -> Seconds:
    """Some steps of the example's loop: Poisson batches by a DataLoader, PrivacyEngine, SGD.

    With their share of the test after `steps` of them, unless `test` is None. Left out, to Opacus's
    advantage: the budget spent, which the script computes and prints after every epoch, and its progress bar.
    """
    from opacus import PrivacyEngine

    model = network().train()
    private, optimizer, batches = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATE),
        data_loader=DataLoader(train, BATCH),
        noise_multiplier=SIGMA,
        max_grad_norm=CLIP,
    )

    def endless() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield from batches

    drawn = endless()
    losses = []

    def tested() -> float:
        """Seconds of one batch of the test records, as a share of `STEPS` steps."""
        if test is None:
            return 0.0
        private.eval()
        begin = time.process_time()
        with torch.no_grad():
            x, y = next(iter(DataLoader(test, TESTED_AT_ONCE, shuffle=True)))
            output = private(x)
            losses.append(F.cross_entropy(output, y).item())
            output.argmax(dim=1, keepdim=True).eq(y.view(-1, 1)).sum().item()
        seconds = time.process_time() - begin
        private.train()
        return seconds * len(test) / TESTED_AT_ONCE * STEPS / steps

    def seconds() -> float:
        begin = time.process_time()
        for _ in range(STEPS):
            x, y = next(drawn)
            optimizer.zero_grad()
            loss = F.cross_entropy(private(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        return time.process_time() - begin + tested()

    return seconds


def through_privbench(members: Records, test: Records | None, steps: float, engine: EngineName) -> Seconds:
    """The same steps by dp-sgd in a run, with all of its clocks and observations.

    With their share of a task's evaluation, which asks the model about all members and test records.
    """
    trains = methods.family.get("dp-sgd")
    laid_out, problem = apply_layout(members, Problem(10, network, per_example_loss))
    settings = {"noise_multiplier": SIGMA, "clip": CLIP, "learning_rate": RATE, "batch_size": BATCH}
    params = trains.Params.model_validate(settings | {"steps": WARM_UP + STEPS, "engine": engine})

    def tested(model: nn.Module) -> float:
        """Seconds of one batch, as a share of `STEPS` steps."""
        if test is None:
            return 0.0
        batch = members.take(torch.arange(EVALUATION_BATCH))
        begin = time.process_time()
        predict_logits(restore_layout(model).eval(), batch, CPU)
        seconds = time.process_time() - begin
        return seconds * (len(members) + len(test)) / EVALUATION_BATCH * STEPS / steps

    def seconds() -> float:
        done, marks = 0, []

        def stop() -> bool:
            nonlocal done
            done += 1
            if done in (WARM_UP, WARM_UP + STEPS):
                marks.append(time.process_time())
            return False

        released = trains.train(laid_out, problem, params, Run("opacus", CPU, stop=stop))
        return marks[1] - marks[0] + tested(released.predictor)

    return seconds


@pytest.fixture(scope="module")
def mnist() -> Read:
    found = read_images(Path(os.environ["PRIVBENCH_DATA"]) / "mnist")
    return Read(
        Images(found["train_x"], found["train_y"]),
        Images(found["test_x"], found["test_y"]),
    )


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def hold(table: "Table", name: str, opacus: Seconds, privbench: Seconds, must: float) -> None:
    """A row of the table."""
    times = interleave({"opacus": opacus, "privbench": privbench}, ROUNDS)
    ours, theirs = (times.median(each) / STEPS * 1e3 for each in ("privbench", "opacus"))
    ratio = times.ratio("privbench", "opacus")
    table.hold(
        "privbench / Opacus", name, ratio, must, ROUNDS, f"{ours:.0f} ms a step, Opacus {theirs:.0f} ms"
    )


@pytest.mark.data
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", OPACUS)
def test_opacus_mnist_example_against_opacus(mnist: Read, engine: EngineName, table: "Table") -> None:
    """The whole script: it reads every record as an image anew, trains, and tests."""
    train, test = records_of(mnist.train), records_of(mnist.test)
    image, label = mnist.train[7]
    assert torch.equal(image, train.x[7]) and int(label) == int(train.y[7]), "the same records"
    opacus = through_opacus(mnist.train, mnist.test, mnist.steps)
    privbench = through_privbench(train, test, mnist.steps, engine)
    name = f"Opacus's MNIST example, batches of {BATCH}: the script, engine {engine}"
    hold(table, name, opacus, privbench, OPACUS[engine])


@pytest.mark.data
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", OPACUS_STEPS)
def test_the_steps_of_opacus_mnist_example(mnist: Read, engine: EngineName, table: "Table") -> None:
    """Its steps alone, on normalised tensors in memory: bounded by OPACUS_STEPS."""
    train = records_of(mnist.train)
    opacus = through_opacus(TensorDataset(train.x, train.y), None, mnist.steps)
    privbench = through_privbench(train, None, mnist.steps, engine)
    name = f"its steps alone, {STEPS} at a time, engine {engine}"
    hold(table, name, opacus, privbench, OPACUS_STEPS[engine])
