"""One bench task: the step cost of each method relative to the plain baseline in the same process."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import numpy as np
import torch

import methods
from harness.jobs.bench.interleaving import Player, Turn, play, share_one_heap, weigh
from harness.jobs.bench.timing import LEAST_STEPS, Laps, compare, find_doubt, lap_table
from harness.jobs.device import ACCELERATORS, accelerator
from harness.jobs.failures import failure
from harness.jobs.run import Interrupted, Run
from harness.jobs.setup import Setup, per_example_loss
from harness.jobs.train import Made, watch
from harness.plan.measure import Measure
from harness.spec import Cell, Json, Task, Timing
from harness.store.outcomes import Bench, Benched, Variant
from methods.gradients import make_engine
from workloads.devices import find_device
from workloads.errors import DeviceError, SpecError, unknown


def refuse_missing_device(name: str) -> None:
    """SpecError for a device that is unknown or missing."""
    if name not in ACCELERATORS:
        raise SpecError(unknown("device", name, ACCELERATORS))
    try:
        find_device(name)
    except DeviceError as error:
        raise SpecError(str(error)) from error


class Rounds:
    """The progress of a bench, for the heartbeat; it can be stopped between rounds."""

    def __init__(self, measure: Measure, stop: Callable[[], bool]) -> None:
        self.measure, self.stop = measure, stop
        self.position = ("bench", 0, measure.steps)
        """Phase, timed rounds, maximum rounds."""

    def begin(self, number: int) -> None:
        """Begin round `number`; those of the warm-up are negative."""
        if self.stop():
            raise Interrupted("a bench restarts: resuming it would mix two states of the machine")
        self.position = ("bench" if number >= 0 else "warm-up", max(number, 0), self.measure.steps)


def bench(task: Task, device: torch.device, stop: Callable[[], bool]) -> Made:
    """Time the steps of all variants, interleaved; the artefact holds the time of every step."""
    if task.timing is None:
        raise ValueError("a bench task needs timing settings")
    measure = Measure(**task.timing.settings)
    rounds = Rounds(measure, stop)
    watch(rounds)
    setups = set_up(task.timing, device)
    malloc = malloc_settings() | ({"M_ARENA_MAX": "1"} if share_one_heap() else {})
    players = [
        Player(name, _training(setup), device, measure.threads, measure.seed)
        for name, setup in setups.items()
    ]
    try:
        least = min(LEAST_STEPS, measure.steps)
        turns = play(
            players, measure.warm_up, least, measure.steps, measure.seconds, measure.seed, rounds.begin
        )
        weights = [weigh(player, device, measure.steps, measure.memory_steps) for player in players]
    finally:
        for player in players:
            player.leave()
    baseline = next(iter(setups.values()))
    clock = "cpu" if accelerator(device).host else "wall"
    variants, doubt = _judged(setups, players, turns, weights, clock, measure.seed)
    model = baseline.records.model(0)
    benched = Benched(
        workload=baseline.workload.name,
        n_train=task.cell.n_train,
        batch_size=task.timing.batch_size,
        parameters=sum(each.numel() for each in model.parameters() if each.requires_grad),
        threads=measure.threads,
        device=device.type,
        clock=clock,
        malloc=malloc,
        trustworthy=doubt is None,
        reason=doubt,
        methods=variants,
    )
    return Made(Bench(bench=benched), {"laps.parquet": lap_table(turns, list(task.timing.variants))})


def set_up(timing: Timing, device: torch.device) -> dict[str, Setup]:
    """Set up model 0 of every variant, sharing one copy of the members."""
    found: dict[str, Setup] = {}
    for name, cell in timing.variants.items():
        found[name] = Setup(cell, 0, device, like=next(iter(found.values()), None))
    return found


def _training(setup: Setup) -> Callable[[Run], object]:
    return lambda run: setup.method.train(setup.members, setup.problem, setup.params, run)


def malloc_settings() -> dict[str, str]:
    """Environment variables of memory allocation, which affects the cost of large temporary tensors."""
    names = ("LD_PRELOAD", "GLIBC_TUNABLES", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    return {name: value for name, value in sorted(os.environ.items()) if name in names or "MALLOC" in name}


def _judged(
    setups: Mapping[str, Setup],
    players: Sequence[Player],
    turns: Sequence[Turn],
    weights: Sequence[Sequence[tuple[int, int]]],
    clock: str,
    seed: int,
) -> tuple[list[Variant], str | None]:
    """The figures of every variant, and why they cannot be trusted, if so."""
    laps = [Laps([turn.lap for turn in turns if turn.player == place]) for place in range(len(players))]
    base = None if players[0].error else laps[0]
    last = len(players) - 1
    variants = []
    for place, (name, setup) in enumerate(setups.items()):
        role = "yardstick" if place == 0 else "control" if place == last else "method"
        found = _head(name, role, setup.cell)
        error = players[place].error
        if error is None:
            found |= laps[place].figures(clock) | _memory(weights[place], weights[0])
            found |= compare(laps[place], base, clock, seed) if base else {}
            found |= {"status": "done", "reason": None, "message": None, "engine_used": used(setup)}
        else:
            why = failure(error)
            found |= {"status": "failed", "reason": why.reason, "message": why.message}
        variants.append(Variant(**found))
    baseline = setups[players[0].name].cell.method.name
    if base is None or players[last].error:
        return variants, f"the baseline {baseline} failed"
    return variants, find_doubt(variants[last], laps[last], base, clock, baseline)


def _head(name: str, role: str, cell: Cell) -> Json:
    logical = cell.params.get("batch_size")
    return {
        "variant": name,
        "role": role,
        "method": name if role == "control" else cell.method.name,
        "method_version": cell.method.version,
        "guarantee_kind": methods.family.get(cell.method.name).guarantee,
        "engine": cell.params.get("engine"),
        "engine_used": None,
        "params": dict(cell.params),
        "step_params": step_params(cell),
        "logical_batch_size": logical,
        "physical_batch_size": cell.params.get("physical_batch_size") or logical,
    }


def step_params(cell: Cell) -> dict[str, Any]:
    """The parameters that determine the cost of a step: all but real numbers (rates, noise) and `steps`."""
    fields = methods.family.get(cell.method.name).Params.model_fields
    return {
        name: value
        for name, value in cell.params.items()
        if name != "steps" and not is_real(fields[name].annotation)
    }


def is_real(annotation: Any) -> bool:
    """Whether a parameter's type is float or a union with float."""
    return annotation is float or any(is_real(each) for each in get_args(annotation))


def used(setup: Setup) -> str | None:
    """The gradient engine of a method; `auto` is resolved by the model alone."""
    engine: str | None = setup.cell.params.get("engine")
    if engine != "auto":
        return engine
    made = make_engine(setup.records.model(0), per_example_loss)
    made.release()
    return made.name


def _memory(own: Sequence[tuple[int, int]], base: Sequence[tuple[int, int]]) -> Json:
    """The upper quartile of the peaks, and its ratio to the baseline's.

    The resting level may include the last batch, so about half of the peaks are too low.
    """
    peaks = [int(np.quantile([peak for peak, _ in each], 0.75)) if each else None for each in (own, base)]
    ratio = None if peaks[0] is None or not peaks[1] else peaks[0] / peaks[1]
    resting = max((level for _, level in own), default=None)
    return {"peak_memory_bytes": peaks[0], "resting_memory_bytes": resting, "memory_ratio": ratio}
