"""Records of tunes as `privbench tune` writes them, with real points and simulated scores."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.spec import Cell, Notes, Plugin, Task, configuration_of
from harness.store import Store
from harness.store.tunes import (
    AxisRecord,
    SearchRecord,
    StudyRecord,
    TrialRecord,
    TuneRecord,
    TuneWarning,
    write_tune,
)
from methods.search import points
from tests.harness.simulated import publish, training

SEED = 1_000_003
N_TRAIN = 718
UNCOUNTED = ("epsilon", "delta", "noise_multiplier")
STEP = AxisRecord(name="step", field="learning_rate", place=0, low=0.1, high=16, scale="log")
RATE = AxisRecord(name="rate", field="batch_size", place=1, low=1 / 16, high=1, scale="log")
EPOCHS = AxisRecord(name="epochs", field="steps", place=2, low=4, high=100, scale="log")
CLIP = AxisRecord(name="clip", field="clip", place=3, low=0.1, high=3, scale="log")
BETA = AxisRecord(name="beta", field="beta", place=4, low=-1, high=0, scale="linear")
EVERY = AxisRecord(
    name="generator_every", field="generator_every", place=5, low=0, high=1, scale="linear", choices=[1, 2, 3]
)
AXES = {
    "dp-sgd": [STEP, RATE, EPOCHS, CLIP],
    "dpsur": [STEP, RATE, EPOCHS, CLIP, BETA],
    "dp-gan": [RATE, EPOCHS, CLIP, EVERY],
}
"""By method; the space of another one is that of dp-sgd."""
BEST = {"step": 0.55, "rate": 0.6, "epochs": 0.75, "clip": 0.35, "beta": 0.3, "generator_every": 0.5}
"""The best coordinate of each axis."""
TOPS = {"dp-sgd": 0.8, "dpsur": 0.55, "dp-gan": 0.16}


def on_axis(axis: AxisRecord, coordinate: float) -> Any:
    """The value on an axis."""
    if axis.choices:
        return axis.choices[min(int(coordinate * len(axis.choices)), len(axis.choices) - 1)]
    if axis.scale == "linear":
        return axis.low + (axis.high - axis.low) * coordinate
    return axis.low * (axis.high / axis.low) ** coordinate


def params_of(axes: Sequence[AxisRecord], point: Sequence[float]) -> dict[str, Any]:
    """The parameters of a trial: those of rates and epochs in steps and records."""
    drawn = {axis.name: on_axis(axis, point[axis.place]) for axis in axes}
    given: dict[str, Any] = {}
    for axis in axes:
        value = drawn[axis.name]
        if axis.name == "rate":
            value = max(1, round(value * N_TRAIN))
        elif axis.name == "epochs":
            value = max(1, round(value / drawn["rate"]))
        elif axis.name == "step":
            value = value / drawn["clip"]
        given[axis.field] = value if isinstance(value, int) else float(f"{value:.3g}")
    return given


def score_of(method: str, epsilon: float | None, point: Sequence[float], noise: str) -> float:
    """The accuracy of one model: a hill over the searched axes, and the luck of a model."""
    axes = AXES.get(method, AXES["dp-sgd"])
    height = TOPS.get(method, 0.75) + (0.12 if epsilon is None or epsilon > 4 else 0)
    off = sum((point[axis.place] - BEST[axis.name]) ** 2 for axis in axes)
    luck = int.from_bytes(hashlib.sha256(noise.encode()).digest()[:4], "big") / 2**32 - 0.5
    return min(1.0, max(0.02, 0.1 + (height - 0.1) * math.exp(-1.6 * off) + 0.06 * luck))


def trial_cell(
    workload: str, method: str, epsilon: float | None, params: Mapping[str, Any], seed: int
) -> Cell:
    """The cell of a configuration."""
    asked = {} if epsilon is None else {"epsilon": epsilon, "delta": 1e-5, "noise_multiplier": 1.5}
    return Cell(Plugin(workload, "1"), N_TRAIN, Plugin(method, "1"), {**params, **asked}, seed)


def make_search(
    workload: str,
    method: str,
    epsilon: float | None,
    every: Sequence[Sequence[Sequence[float]]],
    confirm: int,
    **changes: Any,
) -> SearchRecord:
    """The search of one method at one epsilon."""
    axes = AXES.get(method, AXES["dp-sgd"])
    studies = []
    for study, placed in enumerate(every):
        scores, cells = [], []
        for number, point in enumerate(placed):
            noise = f"{workload} {method} {epsilon} {study} {number}"
            scores.append([score_of(method, epsilon, point, noise)])
            cells.append(trial_cell(workload, method, epsilon, params_of(axes, point), SEED + study))
        best = sorted(range(len(scores)), key=lambda number: -scores[number][0])[:confirm]
        for number in best:
            more = (f"{workload} {method} {epsilon} {study} {number} {model}" for model in range(3))
            scores[number] += [score_of(method, epsilon, placed[number], noise) for noise in more]
        trials = [
            TrialRecord(
                number=number,
                cell=cells[number].key,
                params=params_of(axes, placed[number]),
                scores=scores[number],
                confirmed=number in best,
                seconds=1.5 * len(scores[number]),
            )
            for number in range(len(placed))
        ]
        able = [trials[number] for number in best or range(len(trials))]
        chosen = max(able, key=lambda each: each.score)
        studies.append(StudyRecord(study=study, seed=SEED + study, trials=trials, chosen=chosen.number))
    return SearchRecord(
        workload=workload,
        workload_version="1",
        method=method,
        method_version="1",
        levels={} if epsilon is None else {"epsilon": epsilon},
        n_train=N_TRAIN,
        tuned_at=N_TRAIN,
        validation_records=719,
        majority=0.102,
        axes=axes,
        studies=studies,
        seconds=sum(trial.seconds for study in studies for trial in study.trials),
        **{"reference": [0.71, 0.73], **changes},
    )


def make_tune(
    name: str = "fair",
    workloads: Sequence[str] = ("digits-mlp",),
    methods: Sequence[str] = ("dp-sgd", "dpsur"),
    epsilons: Sequence[float | None] = (1.0, 8.0),
    trials: int = 16,
    studies: int = 3,
    confirm: int = 3,
    **changes: Any,
) -> TuneRecord:
    """A tune of these methods, each at these epsilons; with a warning where nothing was learnt."""
    every = [[list(point) for point in points(trials, SEED, study)] for study in range(studies)]
    searches = []
    for workload in workloads:
        for method in methods:
            for epsilon in epsilons:
                text = "best of 48 is 15.8 %, the commonest class is 10.2 %: nothing was learnt in this space"
                warned = [TuneWarning(name="majority", text=text)] if method == "dp-gan" else []
                searches.append(make_search(workload, method, epsilon, every, confirm, warnings=warned))
    return TuneRecord(
        name=name,
        made="2026-01-02T03:04:05+00:00",
        trials=trials,
        studies=studies,
        models=1,
        confirm=confirm,
        seed=SEED,
        scipy="1.16.0",
        points=every,
        searches=searches,
        **changes,
    )


def task_of(search: SearchRecord, study: StudyRecord, trial: TrialRecord, index: int, **notes: Any) -> Task:
    """The training of one model of a trial."""
    epsilon = search.levels.get("epsilon")
    cell = trial_cell(search.workload, search.method, epsilon, trial.params, study.seed)
    return Task(
        "train", cell, index, notes=Notes(configuration=configuration_of(cell.params, UNCOUNTED), **notes)
    )


def store_tune(store: Store, record: TuneRecord) -> None:
    """The record, and the results of all of its trials."""
    for search in record.searches:
        for study in search.studies:
            for trial in study.trials:
                for index, score in enumerate(trial.scores):
                    task = task_of(search, study, trial, index)
                    publish(store, task, training(task, score), steps=3)
    write_tune(store, record)
