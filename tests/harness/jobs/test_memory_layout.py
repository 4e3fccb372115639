"""One memory layout: of what methods are given, of their computation, and of what is saved and evaluated."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load
from torch import Tensor, nn

import methods
import workloads
from harness.jobs.attack import load_model, read_trainings
from harness.jobs.loop import Stop, run_task
from harness.jobs.memory_layout import apply_layout, quick_pools, restore_layout, takes_channels_last
from harness.jobs.probe import probe
from harness.jobs.run import Interrupted, Run
from harness.jobs.setup import Setup, per_example_loss
from harness.jobs.train import predict_logits, train
from harness.plan.benches import plan_benches
from harness.plan.canaries import Marked
from harness.plan.measure import Measure
from harness.plan.plan import make_plan
from harness.plan.solving import solve
from harness.plan.sweep_file import read_sweep
from harness.spec import Task
from harness.store import Store
from methods.base import Problem, Released
from methods.sgd import Sgd, SgdParams
from workloads.base import Records
from workloads.models.cnn import mnist_cnn
from workloads.models.init import seeded
from workloads.models.lenet import lenet
from workloads.models.mlp import mlp
from workloads.models.scatter import scatter_cnn
from workloads.models.wrn import wrn

CPU = torch.device("cpu")
every_method = pytest.mark.parametrize("name", methods.family.names())


def images(count: int, *shape: int) -> Records:
    random = torch.Generator().manual_seed(1)
    return Records(torch.rand(count, *shape, generator=random), torch.arange(count) % 3)


def small_cnn(seed: int) -> nn.Module:
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Conv2d(8, 8, 3), nn.Tanh(), nn.Flatten(), nn.Linear(128, 3)
        )


def is_last(x: Tensor) -> bool:
    """By strides: `is_contiguous` calls a single channel both first and last."""
    return x.stride(1) == 1 and x.stride(3) == x.shape[1]


class Viewed(nn.Module):
    """A user's module that reads the raw memory of its images."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        convolved: Tensor = self.layer(x)
        return convolved.view(len(x), -1)


# -- the rule --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (mnist_cnn, (1, 28, 28)),
        (lambda seed: lenet(seed, 3, 32, 10), (3, 32, 32)),
        (lambda seed: scatter_cnn(seed, 28), (81, 7, 7)),
        (lambda seed: wrn(seed, 10, 1, 10), (3, 32, 32)),
        (lambda seed: Marked(lenet(seed, 3, 32, 10), 2, 10), (3, 32, 32)),
    ],
)
def test_images_and_weights_of_convolutions_come_channels_last(
    make: Callable[[int], nn.Module], shape: tuple[int, ...]
) -> None:
    given = images(6, *shape)
    members, problem = apply_layout(given, Problem(10, make, per_example_loss, given.x))
    assert problem.public is not None
    assert is_last(members.x)
    assert is_last(members.take(torch.tensor([4, 1])).x), "a batch too"
    assert is_last(problem.public)
    assert torch.equal(members.x, given.x)
    assert torch.equal(members.y, given.y)
    model, plain = problem.model(3), make(3)
    assert all(is_last(each.weight) for each in model.modules() if isinstance(each, nn.Conv2d))
    assert all(map(torch.equal, model.parameters(), plain.parameters())), "the same numbers"
    restored = zip(restore_layout(model).parameters(), plain.parameters(), strict=True)
    assert all(own.stride() == other.stride() and torch.equal(own, other) for own, other in restored)


@pytest.mark.parametrize(
    "make",
    [lambda seed: nn.Sequential(nn.Flatten(), *mlp((192, 3), seed)), lambda seed: nn.Sequential(Viewed())],
)
def test_other_models_are_given_everything_as_it_is(make: Callable[[int], nn.Module]) -> None:
    """Flattening images channels last would copy every batch; a user's module may fail on them."""
    given = images(6, 3, 8, 8)
    problem = Problem(3, make, per_example_loss, given.x)
    assert apply_layout(given, problem) == (given, problem)
    assert not takes_channels_last(make(0))


# -- its use ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grey:
    """A workload of few grey images and the network for them."""

    name: str = "grey"
    version: str = "1"
    about: str = "grey images"
    source: str = "generated"
    classes: int = 10
    n_train: int = 40

    def pool(self) -> Records:
        return images(60, 1, 28, 28)

    def test(self) -> Records:
        return images(20, 1, 28, 28)

    def model(self, seed: int) -> nn.Module:
        return mnist_cnn(seed)


@pytest.fixture
def grey(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Task]:
    """A training of the grey images by a method."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(workloads.family.members, "grey", Grey())

    def planned(method: str, **params: Any) -> Task:
        grid = {"workload": "grey", "method": method, "steps": 4, "batch_size": 8, **params}
        return make_plan(*read_sweep({"grid": [grid], "models": 1}, "test"), None).tasks[0]

    return planned


def in_training(task: Task, folder: Path) -> None:
    train(task, CPU, folder, lambda: False)


def in_probe(task: Task, folder: Path) -> None:
    probe(task)


def in_bench(task: Task, folder: Path) -> None:
    grid: dict[str, list[Any]] = {"workload": ["grey"], "method": ["dp-sgd"], "batch_size": [8]}
    (bench,) = plan_benches(grid, Measure(steps=1, warm_up=1, memory_steps=2))
    store = Store(folder)
    store.add(bench)
    assert run_task(store, bench.key, Stop()) == "done"


@pytest.mark.slow
@pytest.mark.parametrize("way", [in_training, in_probe, in_bench])
def test_the_baseline_is_given_it_in_every_way_it_runs(
    way: Callable[[Task, Path], None],
    grey: Callable[..., Task],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    plain = Sgd.train

    def spy(self: Sgd, members: Records, problem: Problem, *rest: Any) -> Released:
        seen.append((is_last(members.x), is_last(problem.model(0).get_submodule("0").weight)))  # type: ignore[arg-type]
        return plain(self, members, problem, *rest)

    monkeypatch.setattr(Sgd, "train", spy)
    way(grey("sgd"), tmp_path)
    assert seen
    assert set(seen) == {(True, True)}


@every_method
def test_the_convolutions_of_every_method_compute_in_it(name: str) -> None:
    """Ratios of step times compare methods, not layouts, whatever a method does with its batches."""
    layouts: list[bool] = []

    def listening(seed: int) -> nn.Module:
        model = small_cnn(seed)
        for layer in model.modules():
            if isinstance(layer, nn.Conv2d):
                layer.register_forward_hook(lambda module, given, made: layouts.append(is_last(made)))
        return model

    method = methods.family.get(name)
    wishes = {"steps": 4, "batch_size": 8, "epsilon": 8.0, "T": 1, "gamma": 1e6, "iterations": 2}
    wishes |= {"teachers": 3, "teacher_steps": 3, "classifier_steps": 3, "samples": 20, "queries": 20}
    fields = method.Params.model_fields
    params = method.Params(**{key: value for key, value in wishes.items() if key in fields})
    params = solve(method, params, 40, small_cnn)
    members, problem = apply_layout(
        images(40, 3, 8, 8), Problem(3, listening, per_example_loss, images(30, 3, 8, 8).x)
    )
    method.train(members, problem, params, Run("seed", CPU))
    assert layouts
    assert all(layouts)


# -- what is saved and evaluated -----------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam", "learning_rate": 0.01}])
def test_a_killed_training_resumes_to_the_same_bits(optimizer: dict[str, Any], tmp_path: Path) -> None:
    """A checkpoint holds numbers, not their layout."""
    params = SgdParams(steps=8, batch_size=8, **optimizer)
    members, problem = apply_layout(images(40, 3, 8, 8), Problem(3, small_cnn, per_example_loss))
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) == 3

    whole = Sgd().train(members, problem, params, Run("seed", CPU))
    with pytest.raises(Interrupted):
        Sgd().train(members, problem, params, Run("seed", CPU, tmp_path, stop=stop))
    resumed = Sgd().train(members, problem, params, Run("seed", CPU, tmp_path))
    assert all(map(torch.equal, whole.predictor.parameters(), resumed.predictor.parameters()))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sgd", "dp-sgd", "memguard"])
def test_a_saved_model_has_the_logits_it_was_evaluated_with(
    method: str, grey: Callable[..., Task], tmp_path: Path
) -> None:
    """Bit for bit: attacks query the loaded model, accuracy and signals come from the trained one."""
    wishes = {"epsilon": 8.0, "iterations": 3}
    fields = methods.family.get(method).Params.model_fields
    task = grey(method, **{key: value for key, value in wishes.items() if key in fields})
    store = Store(tmp_path / "store")
    store.add(task)
    assert run_task(store, task.key, Stop()) == "done"
    results = read_trainings(task.cell, 1, store)
    setup = Setup(task.cell, task.index, CPU)
    loaded = load_model(setup, store, results, 0)
    stored = load(store.read_artefact(results[0], "signals"))
    assert torch.equal(predict_logits(loaded, setup.records.candidates, CPU), stored["logits"])


def pooled(kind: str) -> nn.Module:
    """Overlapping, padded and dilated pools, one after pixels whose channels are last."""
    with seeded(3):
        pools = {"plain": nn.MaxPool2d(2, 1), "padded": nn.MaxPool2d(3, 2, padding=1, dilation=2)}
        turn = ChannelsLast() if kind == "last" else nn.Identity()
        pool = pools.get(kind, pools["plain"])
        return nn.Sequential(nn.Conv2d(2, 6, 3), turn, pool, nn.Conv2d(6, 4, 2), pool)


class ChannelsLast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("kind", ["plain", "padded", "last"])
@pytest.mark.parametrize("side", [20, 23])
def test_quick_pools_have_the_same_bits(kind: str, side: int) -> None:
    x, network = images(33, 2, side, side).x, pooled(kind)
    x[3, 0, 4, 4], x[5, 1, 2, 2] = float("nan"), float("inf")
    with torch.no_grad():
        plain = network(x)
        with quick_pools(network):
            quick = network(x)
    assert quick.stride() == plain.stride() and torch.equal(quick.isnan(), plain.isnan())
    assert bool(plain.isnan().any()) and torch.equal(quick.nan_to_num(), plain.nan_to_num())


def test_quick_pools_leave_a_model_as_it_was() -> None:
    model = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2, return_indices=True))
    seen = [len(pool._forward_hooks) for pool in model]
    with pytest.raises(RuntimeError), quick_pools(model):
        seen += [len(pool._forward_hooks) for pool in model]
        model[0](torch.ones(1, 1, 1, 1))
    assert seen == [0, 0, 1, 0] and not any(pool._forward_hooks for pool in model)
    with quick_pools(model):
        one = model[0](input=torch.ones(1, 2, 2, 2))
    assert one.shape == (1, 2, 1, 1)


def test_the_layout_moves_the_last_bits_only(grey: Callable[..., Task]) -> None:
    params = SgdParams(steps=10, batch_size=8)
    given = images(40, 3, 8, 8), Problem(3, small_cnn, per_example_loss)
    one, other = (Sgd().train(*each, params, Run("seed", CPU)) for each in (given, apply_layout(*given)))
    pairs = zip(one.predictor.parameters(), other.predictor.parameters(), strict=True)
    for own, laid_out in pairs:
        torch.testing.assert_close(own, laid_out, rtol=1e-4, atol=1e-6)
