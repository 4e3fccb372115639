"""Steps of several methods in turn: order, ratios, memory, failures, and where the figures go."""

import itertools
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

import methods
import workloads
from harness.cli.bench import show
from harness.jobs.bench.bench import refuse_missing_device
from harness.jobs.bench.interleaving import Lap, Player, play
from harness.jobs.bench.timing import Laps, compare, find_doubt
from harness.jobs.loop import Stop, run_task
from harness.jobs.run import Run
from harness.plan.benches import plan_benches, stamp_now
from harness.plan.measure import Measure
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep
from harness.report import write_overhead
from harness.report.costs import choose_costs
from harness.report.page.html import encode_data, page_data
from harness.report.reading import read
from harness.results.collect import collect
from harness.results.query import query
from harness.spec import Cell, Json, Task
from harness.store import Store
from harness.store.outcomes import Variant
from harness.store.result import Result
from workloads.errors import SpecError

Grid = dict[str, list[Any]]

CPU = torch.device("cpu")
MIB = 2**20
QUICK = Measure(steps=12, warm_up=2, memory_steps=4)

PLUGIN = '''
"""A method that takes 48 MiB in every step and rejects every other one, and a workload with a BatchNorm."""

from dataclasses import dataclass

import torch
from dp_accounting import NonPrivateDpEvent
from torch import nn

from methods.base import Params, Released
from workloads.embedded import workloads as digits


class HogParams(Params):
    steps: int = 5


class Hog:
    version, about, source, guarantee, caveats = "1", "takes memory", "none", "none", ()
    Params = HogParams

    def train(self, members, problem, params, run):
        model = problem.model(run.seed("init"))
        for step in run.steps("train", params.steps, {"model": model}):
            torch.ones(12 * 2**20).sum()
            run.verdict(step % 2 == 1)
        return Released(model, NonPrivateDpEvent())


@dataclass(frozen=True)
class Normed:
    name: str = "normed"
    version: str = "1"
    about: str = "digits with batch normalisation"
    source: str = "none"
    classes: int = 10
    n_train: int = 100

    def pool(self):
        return digits[0].pool()

    def test(self):
        return digits[0].test()

    def model(self, seed):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))


hog, normed = Hog(), Normed()
'''


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An installed package's method `hog` and workload `normed`, for this process and for others."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "privbench_hog.py").write_text(textwrap.dedent(PLUGIN))
    info = folder / "privbench_hog-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: privbench-hog\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[privbench.methods]\nhog = privbench_hog:hog\n[privbench.workloads]\nnormed = privbench_hog:normed\n"
    )
    families: tuple[Any, ...] = (methods.family, workloads.family)
    sys.path.insert(0, str(folder))
    for family in families:
        vars(family).pop("members", None)
    yield folder
    sys.path.remove(str(folder))
    for family in families:
        vars(family).pop("members", None)


@pytest.fixture(scope="module")
def benched(plugins: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Result]:
    """A store with one bench of sgd, dp-sgd by two engines, and the plug-in."""
    store = Store.open(tmp_path_factory.mktemp("bench") / "store", create=True)
    grid: Grid = {
        "workload": ["digits-linear"],
        "method": ["dp-sgd", "hog"],
        "engine": ["bookkeeping", "opacus"],
        "noise_multiplier": [1.0],
        "batch_size": [32],
    }
    (task,) = plan_benches(grid, Measure(steps=60, seconds=0.1, memory_steps=6))
    result = run(task, store)
    collect(store.path)
    return store, result


def run(task: Task, store: Store) -> Result:
    store.add(task)
    assert run_task(store, task.key, Stop()) == "done"
    result = store.result(task.key)
    assert result is not None
    return result


def variants(task: Task) -> Mapping[str, Cell]:
    assert task.timing is not None
    return task.timing.variants


def entry(result: Result, variant: str) -> Json:
    (found,) = [each for each in result.bench.bench.methods if each.variant == variant]
    return found.model_dump()


def training(draws: list[float], steps: int) -> Any:
    """A training of some steps, each with one draw."""

    def train(run: Run) -> None:
        for _ in run.steps("train", steps, {}):
            draws.append(float(torch.rand((), generator=run.generator("sampling"))))

    return train


def test_everyone_steps_once_a_round_in_changing_order_on_the_same_draws() -> None:
    draws: list[list[float]] = [[], [], []]
    players = [Player(str(i), training(draws[i], 3 + i), CPU, 1, seed=7) for i in range(3)]
    try:
        turns = play(players, warm_up=2, least=20, most=20, seconds=0.0, seed=1)
    finally:
        for player in players:
            player.leave()
    orders = [[turn.player for turn in turns if turn.round == number] for number in range(20)]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert len({tuple(order) for order in orders}) > 3
    # Trainings of 3, 4 and 5 steps restarted at different times, and still drew the same in every round.
    assert draws[0] == draws[1] == draws[2]
    assert len(set(draws[0])) == len(draws[0]) == 22


def test_time_ends_the_rounds_but_not_before_the_least() -> None:
    player = Player("one", training([], 5), CPU, 1, seed=0)
    try:
        turns = play([player], warm_up=1, least=7, most=100, seconds=0.0, seed=0)
    finally:
        player.leave()
    assert len(turns) == 7


def test_a_training_without_a_step_fails_instead_of_beginning_forever() -> None:
    player = Player("idle", lambda run: None, CPU, 1, seed=0)
    assert player.take_turn(0) is None
    assert "made no step" in str(player.error)


ONE_HEAP = """
import ctypes, threading
from pathlib import Path
from harness.jobs.bench.interleaving import share_one_heap

assert share_one_heap()
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
places = []
thread = threading.Thread(target=lambda: places.append(malloc(1000)))
thread.start()
thread.join()
(heap,) = [line.split()[0] for line in Path("/proc/self/maps").read_text().splitlines() if "[heap]" in line]
low, high = (int(end, 16) for end in heap.split("-"))
print(low <= places[0] < high)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's map of the memory")
def test_a_training_in_a_thread_allocates_where_one_alone_would() -> None:
    command = [sys.executable, "-W", "ignore", "-c", ONE_HEAP]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)
    assert done.stdout == "True\n"


def laps(seconds: list[float], drawing: float = 0.0, accepted: Sequence[bool | None] = (None,)) -> Laps:
    clocks = {"drawing": (drawing, drawing)} if drawing else {}
    verdicts = itertools.cycle(accepted)
    return Laps([Lap("train", 2 * each, each, clocks, next(verdicts), first=False) for each in seconds])


def test_the_ratio_leaves_the_batch_out_and_the_whole_step_does_not() -> None:
    ratios = compare(laps([5.0] * 60, drawing=1.0), laps([3.0] * 60, drawing=1.0), "cpu", seed=0)
    assert (ratios["ratio"], ratios["ratio_low"], ratios["ratio_high"]) == (2.0, 2.0, 2.0)
    assert ratios["ratio_whole_step"] == pytest.approx(5 / 3)
    assert ratios["ratio_wall"] == pytest.approx(9 / 5)


def test_the_interval_holds_the_ratio_and_knows_that_rounds_are_paired() -> None:
    slow = [1.0 + 0.5 * (i % 7) for i in range(70)]
    paired = compare(laps([1.5 * each for each in slow]), laps(slow), "cpu", seed=0)
    assert (paired["ratio_low"], paired["ratio_high"]) == (pytest.approx(1.5), pytest.approx(1.5))
    mixed = compare(laps(slow[::-1]), laps(slow), "cpu", seed=0)
    assert mixed["ratio_low"] < mixed["ratio"] < mixed["ratio_high"]


def test_figures_are_medians_and_middle_halves_which_a_few_slow_steps_do_not_move() -> None:
    quiet = [float(1 + i % 5) for i in range(60)]
    slow = [1000.0, *quiet, 1000.0]
    figures = laps(slow).figures("cpu")
    assert (figures["median_cpu_seconds"], figures["iqr_cpu_seconds"]) == (3.0, 2.0)
    assert (figures["median_wall_seconds"], figures["iqr_wall_seconds"]) == (6.0, 4.0)
    assert compare(laps(slow), laps([1.5, *quiet, 1.5]), "cpu", seed=0)["ratio"] == 1.0


def test_time_of_an_update_counts_rejected_steps() -> None:
    assert laps([2.0] * 4, accepted=(True, False)).figures("cpu")["seconds_per_update"] == 4.0
    assert laps([2.0] * 4).figures("cpu")["seconds_per_update"] is None


CONTROL: Json = {
    **dict.fromkeys(("engine", "engine_used", "reason", "message"), None),
    **dict.fromkeys(("logical_batch_size", "physical_batch_size"), 32),
    "variant": "sgd again",
    "role": "control",
    "method": "sgd",
    "method_version": "1",
    "guarantee_kind": "none",
    "params": {},
    "status": "done",
}


@pytest.mark.parametrize(
    ("again", "doubt"),
    [
        ([1.0] * 60, None),
        ([1.0] * 49, "only 49 timed steps"),
        ([1.3] * 60, "took 1.30 times the first"),
        ([0.6, 1.0, 1.0, 1.4] * 15, None),
        ([0.5, 1.0, 1.5] * 20, "in the middle half of the rounds"),
        ([0.7] * 29 + [1.0] * 2 + [1.3] * 29, "(95 %)"),
    ],
)
def test_a_noisy_machine_is_recognised(again: list[float], doubt: str | None) -> None:
    second, first = laps(again), laps([1.0] * len(again))
    ratios = compare(second, first, "cpu", seed=0)
    control = Variant(**CONTROL, **ratios)
    found = find_doubt(control, second, first, "cpu", "sgd")
    assert found is None if doubt is None else doubt in str(found)


@pytest.mark.slow
def test_figures_of_a_real_bench(benched: tuple[Store, Result]) -> None:
    _, document = benched
    found = document.bench.bench
    variants = [each.variant for each in found.methods]
    assert variants == ["sgd", "dp-sgd bookkeeping", "dp-sgd opacus", "hog", "sgd again"]
    assert {each.status for each in found.methods} == {"done"}
    assert entry(document, "sgd")["ratio"] == 1.0
    again = entry(document, "sgd again")
    assert 0.5 < again["ratio"] < 2.0
    assert again["ratio_low"] <= again["ratio"] <= again["ratio_high"]
    # A step of Opacus's hooks cannot be as quick as a plain one; far above is a busy machine.
    assert 1.1 < entry(document, "dp-sgd opacus")["ratio"] < 50
    assert set(again["clocks"]) == {"drawing", "gradients", "update"}
    assert all(each.steps >= 50 for each in found.methods)
    assert entry(document, "dp-sgd bookkeeping")["engine_used"] == "bookkeeping"
    assert (found.batch_size, found.parameters, found.threads) == (32, 650, 1)
    if sys.platform.startswith("linux"):
        assert found.malloc["M_ARENA_MAX"] == "1", "in a bench all threads share one heap, as recorded"


@pytest.mark.slow
def test_memory_of_a_step_is_what_it_takes(benched: tuple[Store, Result]) -> None:
    _, document = benched
    assert 40 * MIB < entry(document, "hog")["peak_memory_bytes"] < 120 * MIB
    assert entry(document, "sgd")["peak_memory_bytes"] < 20 * MIB
    assert entry(document, "hog")["resting_memory_bytes"] > 100 * MIB


@pytest.mark.slow
def test_a_method_that_rejects_has_a_time_per_update(benched: tuple[Store, Result]) -> None:
    _, document = benched
    hog = entry(document, "hog")
    # It makes two updates in five steps.
    assert hog["seconds_per_update"] > 1.2 * hog["median_net_seconds"]
    assert entry(document, "sgd")["seconds_per_update"] is None


def test_every_timed_step_is_kept_in_the_order_it_ran(benched: tuple[Store, Result]) -> None:
    store, result = benched
    rows = pq.read_table(store.artefact(result, "laps")).to_pylist()
    assert len(rows) == 5 * entry(result, "sgd")["steps"]
    orders = [[row["variant"] for row in rows[i : i + 5]] for i in range(0, len(rows), 5)]
    assert all(len(set(order)) == 5 for order in orders)
    assert len({tuple(order) for order in orders}) > 5
    assert [row["place"] for row in rows[:5]] == [0, 1, 2, 3, 4]


def test_rows_of_the_database(benched: tuple[Store, Result]) -> None:
    store, document = benched
    sql = "select variant, role, ratio, batch_size, trustworthy, newest, params from bench order by ratio"
    rows = query(store.path, sql).arrow.to_pylist()
    assert {row["role"] for row in rows} == {"yardstick", "control", "method"}
    assert {row["variant"]: row["ratio"] for row in rows} == {
        each.variant: each.ratio for each in document.bench.bench.methods
    }
    assert all(row["newest"] and row["batch_size"] == 32 for row in rows)
    task = query(store.path, "select kind, cell, method, workload, threads from task").rows
    assert task == [("bench", None, None, "digits-linear", 1)]
    assert collect(store.path).new == 0


@pytest.mark.slow
def test_a_bench_is_the_overhead_of_the_cells_whose_step_it_timed(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    grid: Grid = {"workload": ["digits-linear"], "method": ["dp-sgd"], "batch_size": [32]}
    (task,) = plan_benches(grid | {"engine": ["bookkeeping"]}, QUICK)
    run(task, store)
    step = {"workload": "digits-linear", "batch_size": 32, "steps": 3}
    private = step | {"method": "dp-sgd", "engine": "bookkeeping", "optimizer": "sgd"}
    grids = [step | {"method": "sgd"}, private | {"epsilon": 1}, private | {"epsilon": 2, "momentum": 0.5}]
    grids += [private | change | {"epsilon": 4} for change in ({"batch_size": 64}, {"clipping": "per_layer"})]
    plan = make_plan(*read_sweep({"grid": grids, "models": 1}, "timed"), None)
    trainings = [each for each in plan.tasks if each.kind == "train"]
    store.add(*trainings)
    assert {run_task(store, each.key, Stop()) for each in trainings} == {"done"}
    collect(store.path)
    sql = "select c.label, m.variant from bench_match m join cell c on c.key = m.cell order by c.label"
    timed = [("dp-sgd ε=1", "dp-sgd bookkeeping"), ("dp-sgd ε=2", "dp-sgd bookkeeping"), ("sgd", "sgd")]
    assert query(store.path, sql).rows == timed


def test_a_ratio_below_one_is_explained(
    benched: tuple[Store, Result], capsys: pytest.CaptureFixture[str]
) -> None:
    _, document = benched
    found = document.bench.bench
    explained = []
    for ratio in (0.8, 1.2):
        slow = [each.model_copy(update={"ratio": max(each.ratio or 0.0, 1.0)}) for each in found.methods]
        changed = [slow[0], slow[1].model_copy(update={"ratio": ratio}), *slow[2:]]
        show(document.key, found.model_copy(update={"methods": changed}))
        captured = capsys.readouterr()
        explained.append(
            "pays for autograd and the engine does not" in " ".join((captured.out + captured.err).split())
        )
    assert explained == [True, False]


@pytest.mark.slow
def test_reports_draw_benches(benched: tuple[Store, Result], tmp_path: Path) -> None:
    store, _ = benched
    pictures = [
        file for file in write_overhead(store.path, tmp_path) if file.suffix in (".png", ".svg", ".pdf")
    ]
    assert len(pictures) == 3
    assert all(file.stat().st_size > 10_000 for file in pictures)
    assert "dp-sgd bookkeeping, B=32" in encode_data(page_data(read(store.path)))


def test_a_bench_is_preferred_to_training_runs_with_print_beside_it() -> None:
    machine = {"device": "cpu", "threads": 1, "guarantee_kind": "none", "workload": "shape-wrn16-4"}
    run = machine | {"group": "shape-wrn16-4", "cell": "c", "label": "x", "models": 2, "batch_size": 8}
    run |= {"step_overhead": None, "example_overhead": 9.0, "overhead_by": "per example"}
    run |= {"extra_memory_bytes": None, "memory_overhead": None}
    figures = (
        "ratio",
        "ratio_low",
        "ratio_high",
        "median_wall_seconds",
        "median_cpu_seconds",
        "memory_ratio",
    )
    bench = machine | {"group": "shape-wrn16-4", "method": "dp-sgd", "variant": "dp-sgd auto"}
    bench |= dict.fromkeys(figures, 1.5) | {"peak_memory_bytes": 1, "batch_size": 8, "trustworthy": True}

    def sources(trustworthy: bool, *methods: str, **changes: Any) -> list[tuple[str, str]]:
        runs = [run | {"method": name} | changes for name in methods]
        reading = read_like(runs, [bench | {"trustworthy": trustworthy}])
        return [(row["method"], row["source"]) for row in choose_costs(reading)]

    printed = [("pd-sgd", "paper")]
    both = sources(True, "sgd", "dp-sgd")
    lines = [("sgd", "training"), ("dp-sgd", "training"), ("dp-sgd", "bench"), ("dp-sgd", "paper"), *printed]
    assert both == lines, "of another step than the cell's"
    timed = sources(True, "dp-sgd", overhead_by="bench", step_overhead=1.5)
    assert timed == [("dp-sgd", "bench"), ("dp-sgd", "paper"), *printed], "the cell's line shows it"
    noisy = sources(False, "sgd", "dp-sgd")
    assert noisy == [("sgd", "training"), ("dp-sgd", "training"), ("dp-sgd", "paper"), *printed]
    alone = sources(False, "sgd")
    assert alone == [("sgd", "training"), ("dp-sgd", "bench"), ("dp-sgd", "paper"), *printed]


def read_like(overhead: list[Json], bench: list[Json]) -> Any:
    from harness.report.reading import Reading

    return Reading(frontier=[], overhead=list(overhead), bench=list(bench), baselines=frozenset({"sgd"}))


@pytest.mark.slow
def test_a_sweep_of_benches_alone_runs_prints_its_figures_and_is_finished(tmp_path: Path) -> None:
    sweep = tmp_path / "timed.toml"
    sweep.write_text(
        '[[bench]]\nworkload = "digits-linear"\nmethod = "dp-sgd"\nmeasure = { steps = 12, seconds = 1 }\n'
    )
    command = [sys.executable, "-P", "-m", "harness.cli", "run", str(sweep), "--store", str(tmp_path / "s")]
    root = str(Path(__file__).resolve().parents[3])
    environment = {**os.environ, "PYTHONPATH": root, "COLUMNS": "160"}
    first, second = (
        subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        for _ in range(2)
    )
    assert first.returncode == 0, first.stdout + first.stderr
    assert "0 cells, 1 tasks, 1 to run." in first.stdout and "step / sgd" in first.stdout
    assert second.returncode == 0, second.stdout + second.stderr
    assert "0 to run." in second.stdout and "step / sgd" in second.stdout


def test_a_condition_keeps_the_benches_of_what_it_selects(benched: tuple[Store, Result]) -> None:
    store, _ = benched
    assert len(read(store.path).bench) == 4
    with pytest.raises(SpecError) as refused:
        read(store.path, "method = 'dp-sgd'", view="overhead")
    assert refused.value.field == "--where"


@pytest.mark.slow
def test_one_failure_names_the_layer_and_the_rest_continues(plugins: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "harness.cli", "bench", "--workload", "normed"]
    command += [
        "--method",
        "sgd,dp-sgd",
        "--batch-size",
        "16",
        "--steps",
        "10",
        "--set",
        "noise_multiplier=1",
        "--json",
    ]
    environment = os.environ | {"PRIVBENCH_STORE": str(tmp_path / "store"), "OMP_NUM_THREADS": "1"}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    environment["PYTHONPATH"] = os.pathsep.join([str(plugins), environment.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=180)
    assert done.returncode == 1, done.stderr
    (document,) = json.loads(done.stdout)
    found = {each["variant"]: each for each in document["methods"]}
    broken = found["dp-sgd auto"]
    assert (broken["status"], broken["ratio"], broken["steps"]) == ("failed", None, 0)
    assert "'2' (BatchNorm1d)" in broken["message"]
    assert "GroupNorm" in broken["message"]
    assert found["sgd"]["status"] == "done"
    assert document["trustworthy"] is False
    assert "only 10 timed steps" in document["reason"]
    failures = query(tmp_path / "store", "select kind, label, reason from failures").rows
    assert failures == [("bench", "dp-sgd auto", "error")]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"workload": ["digits-mpl"]}, "did you mean 'digits-mlp'?"),
        ({"method": ["dp-sdg"]}, "did you mean 'dp-sgd'?"),
        ({"batch_size": [4000]}, "batch_size = 4000 is larger than the 718 members"),
        ({"batch_size": [0]}, "batch_size must be > 0"),
        ({"clipp": [1.0]}, "did you mean 'clip'?"),
        ({"engine": ["opacuss"]}, "engine"),
        ({"epsilon": [-1.0]}, "epsilon must be > 0"),
    ],
)
def test_wrong_settings_are_reported(changes: dict[str, list[Any]], problem: str) -> None:
    grid: Grid = {"workload": ["digits-mlp"], "method": ["dp-sgd"], "noise_multiplier": [1.0]}
    grid |= changes
    if "epsilon" in changes:
        del grid["noise_multiplier"]
    with pytest.raises(SpecError) as caught:
        plan_benches(grid, QUICK)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "settings", [{"steps": 0}, {"threads": 0}, {"seconds": 0.0}, {"steps": True}, {"device": 3}]
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=next(iter(settings))):
        Measure(**settings)


@pytest.mark.parametrize("device", ["gpu", "cuda"])
def test_a_missing_device_is_refused_before_anything_runs(device: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SpecError, match="device"):
        refuse_missing_device(device)
    refuse_missing_device("cpu")


def test_a_bench_started_by_hand_has_its_own_key_and_the_same_plain_update_rule() -> None:
    grid: Grid = {"workload": ["digits-mlp"], "method": ["dp-sgd"], "noise_multiplier": [1.0]}
    (one,), (two,) = (plan_benches(grid, QUICK, stamp_now()) for _ in range(2))
    assert one.key != two.key
    (swept,), (again,) = plan_benches(grid, QUICK), plan_benches(grid, QUICK)
    assert swept.key == again.key not in {one.key, two.key}
    cells = variants(one).values()
    assert {cell.params["momentum"] for cell in cells} == {0.0}
    assert {cell.params["batch_size"] for cell in cells} == {64}
    assert one.cell.params["sampling"] == "poisson"


def test_lists_multiply_and_variants_are_distinguished() -> None:
    grid: Grid = {"workload": ["digits-mlp"], "method": ["dp-sgd"], "noise_multiplier": [1.0]}
    tasks = plan_benches(grid | {"clip": [0.5, 2.0], "batch_size": [16, 32]}, QUICK)
    assert [task.timing and task.timing.batch_size for task in tasks] == [16, 32]
    assert list(variants(tasks[0])) == ["sgd", "dp-sgd auto clip=0.5", "dp-sgd auto clip=2", "sgd again"]
