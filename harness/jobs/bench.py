"""`privbench bench`: what a step of each method costs, relative to plain sgd in the same process.

For every workload and batch size the methods and sgd train side by side, a step each in turn
(interleaving.py). Sgd is there twice: how far its two copies differ shows how noisy the machine is.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, get_args
from uuid import uuid4

import numpy as np

import methods
import workloads
from harness.jobs.device import ACCELERATORS, prepared
from harness.jobs.interleaving import Player, Turn, play, share_one_heap, weigh
from harness.jobs.loop import failure
from harness.jobs.memory_layout import apply_layout
from harness.jobs.provenance import provenance
from harness.jobs.run import Run
from harness.jobs.timing import LEAST_STEPS, Laps, compare, find_doubt, lap_table
from harness.jobs.train import membership, per_example_loss
from harness.plan.plan import make_plan
from harness.plan.sweep_file import Grid, Sweep
from harness.spec import BenchTask, Cell, Json, Task, spelled
from harness.store import Store
from methods.base import Method, Problem
from methods.gradients import make_engine
from methods.training.sampling import refuse_larger_than
from workloads.base import Public, Records
from workloads.devices import find_device
from workloads.errors import DeviceError, SpecError, unknown
from workloads.recipe import recipe

YARDSTICK = "sgd"
AGAIN = "sgd again"
"""The yardstick's second copy."""
PLAIN: dict[str, list[Any]] = {"optimizer": ["sgd"], "momentum": [0.0], "weight_decay": [0.0]}
"""One update rule for all, unless another is given: a ratio tells of methods, not of optimizers."""
TWIN: dict[str, list[Any]] = {"sampling": ["poisson"]}
"""The yardstick draws as DP methods do, so that in every round all see the same batch."""
EPSILON = 8.0
"""For a method that needs one, where none is given; the time of a step does not depend on it."""
NO_FIGURES: Json = {
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high", "ratio_whole_step", "ratio_wall")),
    **dict.fromkeys(("median_cpu_seconds", "median_wall_seconds", "median_net_seconds")),
    **dict.fromkeys(("iqr_cpu_seconds", "iqr_wall_seconds", "seconds_per_update")),
    **dict.fromkeys(("peak_memory_bytes", "resting_memory_bytes", "memory_ratio")),
}


@dataclass(frozen=True)
class Measure:
    """How to measure."""

    device: str = "cpu"
    threads: int = 1
    steps: int = 300
    """Timed steps of each method at most."""
    seconds: float = 20.0
    """After which at least 50 steps are enough."""
    warm_up: int = 10
    memory_steps: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        least = {"threads": 1, "steps": 1, "warm_up": 1, "memory_steps": 2}
        problems = [
            f"{name} = {getattr(self, name)}: give a whole number, {bound} or more"
            for name, bound in least.items()
            if getattr(self, name) < bound
        ]
        if not self.seconds > 0:
            problems.append(f"seconds = {self.seconds}: give a number above 0")
        if self.device not in ACCELERATORS:
            problems.append(unknown("device", self.device, ACCELERATORS))
        else:
            try:
                find_device(self.device)
            except DeviceError as error:
                problems.append(str(error))
        if problems:
            raise SpecError(problems)

    @property
    def clock(self) -> str:
        """What ratios are made of: CPU time, or on a GPU the time between events, which `wall` holds."""
        return "cpu" if ACCELERATORS[self.device].host else "wall"


# -- what to measure -------------------------------------------------------------------------------


def plan_benches(grid: Mapping[str, list[Any]], measure: Measure) -> list[BenchTask]:
    """One task for each workload and batch size; SpecError with all that is wrong. Writes nothing.

    `grid` holds the lists `workload`, `method` and those of parameters, `batch_size` and `engine` among them.
    A parameter goes to the methods that have it; at least one must.
    """
    names = list(dict.fromkeys([YARDSTICK, *grid["method"]]))
    settings = {key: values for key, values in grid.items() if key not in ("workload", "method")}
    problems = _misplaced(settings, names)
    pairs = [
        (name, size)
        for name in dict.fromkeys(grid["workload"])
        for size in dict.fromkeys(settings.get("batch_size") or [_usual_batch(name)])
    ]
    good = [pair for pair in pairs if _fits(*pair, problems)]
    grids = tuple(
        Grid("bench", _lists(workload, method, settings | {"batch_size": [size]}), {}, ())
        for workload, size in good
        for method in names
    )
    cells = make_plan(Sweep("bench", 1, measure.seed, (), grids), problems, None).cells
    return [_task(cells, *pair, measure) for pair in good]


def _misplaced(settings: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """A complaint for every parameter that none of the methods has."""
    has = {field for name in names for field in _fields(name)}
    return [unknown("parameter", name, has) for name in settings if name not in has]


def _fields(method: str) -> Mapping[str, Any]:
    known = methods.family.members.get(method)
    return known.Params.model_fields if known else {}


def _usual_batch(workload: str) -> int:
    """The batch size with which sgd trains this workload; 1 for an unknown name, refused later."""
    if workload not in workloads.family.members:
        return 1
    has = _fields(YARDSTICK)
    setting = recipe(workloads.family.get(workload)).settings(YARDSTICK, has).get("batch_size")
    return int(setting.at(None)) if setting else int(has["batch_size"].default)


def _fits(workload: str, size: Any, problems: list[str]) -> bool:
    """Whether batches of this size can be drawn; where not, `problems` tells."""
    if workload not in workloads.family.members or not isinstance(size, int) or size < 1:
        return True  # refused with the other mistakes when parameters are validated
    try:
        refuse_larger_than(workloads.family.get(workload).n_train, size)
    except SpecError as error:
        problems.append(f"bench ({workload}): {error}")
        return False
    return True


def _lists(workload: str, method: str, settings: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The grid of one method: the settings it has, and what a step needs that nobody gave."""
    fields = _fields(method)
    asked = PLAIN | (TWIN if method == YARDSTICK else {}) | dict(settings)
    lists = {name: values for name, values in asked.items() if name in fields}
    free = getattr(methods.family.members.get(method), "free", "epsilon")
    settled = (
        recipe(workloads.family.get(workload)).settings(method, fields) if _known(workload, method) else {}
    )
    if "epsilon" in fields and not {"epsilon", free} & {*lists, *settled}:
        lists["epsilon"] = [EPSILON]
    return {"workload": [workload], "method": [method], **lists}


def _known(workload: str, method: str) -> bool:
    return workload in workloads.family.members and method in methods.family.members


def _task(cells: Sequence[Cell], workload: str, size: int, measure: Measure) -> BenchTask:
    own = [
        cell
        for cell in cells
        if cell.workload.name == workload and cell.params.get("batch_size") in (None, size)
    ]
    named = dict(zip(_names(own), own, strict=True))
    stamp = f"{datetime.now(UTC).isoformat()} {uuid4().hex}"
    return BenchTask(named | {AGAIN: own[0]}, size, asdict(measure), stamp)


def _names(cells: Sequence[Cell]) -> list[str]:
    """The method, its engine where it has one, and the parameters in which variants of one method differ."""
    names = []
    for cell in cells:
        others = [each.params for each in cells if each.method == cell.method]
        differs = [name for name in cell.params if any(each[name] != cell.params[name] for each in others)]
        free = getattr(methods.family.get(cell.method.name), "free", None)
        if "epsilon" in differs and free in differs:
            differs.remove(str(free))
        engine = [cell.params["engine"]] if "engine" in cell.params else []
        told = [_said(name, cell.params[name]) for name in differs if name != "engine"]
        names.append(" ".join([cell.method.name, *engine, *told]))
    return names


def _said(name: str, value: Any) -> str:
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"


# -- measuring -------------------------------------------------------------------------------------


def run_bench(task: BenchTask, store: Store) -> Json:
    """Measure, record the task in the store, and give what was found: the document of `bench --json`."""
    store.add(task)
    measure = Measure(**task.settings)
    result: Json = {"key": task.key, "kind": "bench", "started": datetime.now(UTC).isoformat()}
    clock, device = time.monotonic(), find_device(measure.device)
    try:
        with prepared(device, measure.threads):
            result |= {"provenance": provenance(device)}
            document, turns = examine(task, measure)
        laps = store.write_artefact(task.key, "laps.parquet", lap_table(turns, list(task.cells)))
        result |= {"status": "done", "reason": None, "message": None, "traceback": None}
        result |= {"artefacts": {"laps": laps}, "bench": spelled(document)}
    except Exception as error:
        result |= failure(error)
        raise
    finally:
        if "status" in result:  # Ctrl-C leaves no result
            result |= {"finished": datetime.now(UTC).isoformat()}
            store.publish({**result, "wall_seconds": time.monotonic() - clock})
    return {"key": task.key, **document}


def examine(task: BenchTask, measure: Measure) -> tuple[Json, list[Turn]]:
    """The figures of every variant, and every timed turn."""
    workload = workloads.family.get(task.yardstick.workload.name)
    device = find_device(measure.device)
    pool = workload.pool()
    mask = membership(Task("train", task.yardstick), len(pool))
    members = pool.take(mask.nonzero().squeeze(1)).to(device)
    public = workload.public().x.to(device) if isinstance(workload, Public) else None
    problem = Problem(workload.classes, workload.model, per_example_loss, public)
    members, problem = apply_layout(members, problem)
    malloc = malloc_settings() | ({"M_ARENA_MAX": "1"} if share_one_heap() else {})
    players = [
        Player(name, _training(cell, members, problem), device, measure.threads, measure.seed)
        for name, cell in task.cells.items()
    ]
    try:
        least = min(LEAST_STEPS, measure.steps)
        turns = play(players, measure.warm_up, least, measure.steps, measure.seconds, measure.seed)
        weights = [weigh(player, device, measure.steps, measure.memory_steps) for player in players]
    finally:
        for player in players:
            player.leave()
    model = workload.model(0)
    return {
        "workload": workload.name,
        "n_train": workload.n_train,
        "batch_size": task.batch_size,
        "parameters": sum(each.numel() for each in model.parameters() if each.requires_grad),
        "threads": measure.threads,
        "device": measure.device,
        "clock": measure.clock,
        "malloc": malloc,
        **_judged(task, players, turns, weights, measure),
    }, turns


def _training(cell: Cell, members: Records, problem: Problem) -> Any:
    method: Method = methods.family.get(cell.method.name)
    params = method.Params(**cell.params)

    def train(run: Run) -> object:
        return method.train(members, problem, params, run)

    return train


def malloc_settings() -> dict[str, str]:
    """The environment's word on memory allocation: it decides what large temporary tensors cost."""
    names = ("LD_PRELOAD", "GLIBC_TUNABLES", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    return {name: value for name, value in sorted(os.environ.items()) if name in names or "MALLOC" in name}


def _judged(
    task: BenchTask,
    players: Sequence[Player],
    turns: Sequence[Turn],
    weights: Sequence[Sequence[tuple[int, int]]],
    measure: Measure,
) -> Json:
    """Every variant's entry, and whether the machine was quiet enough."""
    laps = [Laps([turn.lap for turn in turns if turn.player == place]) for place in range(len(players))]
    base = None if players[0].error else laps[0]
    entries = []
    for place, (name, cell) in enumerate(task.cells.items()):
        role = "yardstick" if place == 0 else "control" if name == AGAIN else "method"
        entry = {**_head(name, role, cell), **NO_FIGURES, "steps": 0, "clocks": {}, "phases": {}}
        error = players[place].error
        if error is None:
            entry |= laps[place].figures(measure.clock) | _memory(weights[place], weights[0])
            entry |= compare(laps[place], base, measure.clock, measure.seed) if base else {}
            entry |= {"status": "done", "reason": None, "message": None, "engine_used": used(cell)}
        else:
            row = failure(error)
            entry |= {field: row[field] for field in ("status", "reason", "message")}
        entries.append(entry)
    doubt = f"{YARDSTICK} failed, so there is nothing to compare with"
    if base and not players[-1].error:
        doubt = find_doubt(entries[-1], laps[-1], base, measure.clock) or ""
    return {"trustworthy": not doubt, "reason": doubt or None, "methods": entries}


def _head(name: str, role: str, cell: Cell) -> Json:
    logical = cell.params.get("batch_size")
    return {
        "variant": name,
        "role": role,
        "method": AGAIN if role == "control" else cell.method.name,
        "method_version": cell.method.version,
        "guarantee_kind": methods.family.get(cell.method.name).guarantee,
        "engine": cell.params.get("engine"),
        "engine_used": None,
        "params": dict(cell.params),
        "step_params": step_params(cell),
        "logical_batch_size": logical,
        "physical_batch_size": cell.params.get("physical_batch_size") or logical,
    }


def step_params(cell: Cell) -> Json:
    """The parameters that decide what a step computes: all but real numbers (rates, noise) and `steps`."""
    fields = methods.family.get(cell.method.name).Params.model_fields
    return {
        name: value
        for name, value in cell.params.items()
        if name != "steps" and not is_real(fields[name].annotation)
    }


def is_real(annotation: Any) -> bool:
    """Whether a parameter is a real number, or none."""
    return annotation is float or any(is_real(each) for each in get_args(annotation))


def used(cell: Cell) -> str | None:
    """The engine a method computes gradients with; `auto` is decided by the model alone."""
    engine = cell.params.get("engine")
    if engine != "auto":
        return engine
    made = make_engine(workloads.family.get(cell.workload.name).model(0), per_example_loss)
    made.release()
    return made.name


def _memory(own: Sequence[tuple[int, int]], base: Sequence[tuple[int, int]]) -> Json:
    """The upper quartile of the peaks, and its ratio to the yardstick's.

    The level before a step may still hold the last batch, so about half of the peaks come out too low.
    """
    peaks = [int(np.quantile([peak for peak, _ in each], 0.75)) if each else None for each in (own, base)]
    ratio = None if peaks[0] is None or not peaks[1] else peaks[0] / peaks[1]
    resting = max((level for _, level in own), default=None)
    return {"peak_memory_bytes": peaks[0], "resting_memory_bytes": resting, "memory_ratio": ratio}


def failed(documents: Sequence[Json]) -> bool:
    """Whether some variant failed."""
    return any(entry["status"] == "failed" for each in documents for entry in each["methods"])
