"""One attack task: load the signals of a cell's models, run the attack, judge its output."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load
from safetensors.torch import load as load_weights
from torch import nn

from harness import attacks
from harness.attacks.base import Evidence, Shared, When
from harness.jobs.judge import judge
from harness.jobs.run import Run
from harness.jobs.setup import Setup, same_version
from harness.jobs.step_gradient import CPU, share
from harness.jobs.train import Made, describe_data
from harness.plan.canaries import KINDS
from harness.spec import Cell, Task
from harness.store import Store
from harness.store.fingerprints import short_digest
from harness.store.result import Result
from methods.base import Rebuilt
from workloads.base import Records, Sensitive
from workloads.errors import Upstream

log = logging.getLogger(__name__)


def attack(task: Task, store: Store) -> Made:
    """Run one attack on one cell: every model in turn is the target, the others are its shadows."""
    if task.attack is None:
        raise ValueError("an attack task needs an attack")
    attacker = attacks.family.load(task.attack.name)
    same_version("attack", task.attack, attacker.version)
    results = read_trainings(task.cell, task.models, store)
    setup = Setup(task.cell, 0, CPU)
    evidence = gather(task, store, results, setup)
    params = attacker.Params(**task.attack_params)
    guarantees = [each.training.guarantee for each in results]
    data = describe_data(setup)
    warn_of_mixed(results)
    return replace(judge(task.attack.name, attacker, evidence, params, guarantees), data=data)


def warn_of_mixed(results: list[Result]) -> None:
    """Warn if the models of a cell were trained by different code or on different data.

    A warning and no failure: a user may have accepted the change, and only they know whether it matters.
    """
    for what in ("code", "data"):
        found = {short_digest(each.provenance.get(what) or {}) for each in results} - {None}
        if len(found) > 1:
            log.warning(
                "the %d models of this cell were trained with %d different fingerprints of %s: the attack "
                "treats them as alike; see column mixed_%s of the view frontier",
                len(results),
                len(found),
                what,
                what,
            )


def read_trainings(cell: Cell, models: int, store: Store) -> list[Result]:
    """The results of a cell's models."""
    results = []
    for key in map(cell.training_key, range(models)):
        result = store.result(key)
        if result is None or not result.done:
            raise Upstream(f"training {key} has no result to attack")
        results.append(result)
    return results


def gather(task: Task, store: Store, results: list[Result], given: Setup | None = None) -> Evidence:
    """Build the evidence of a cell from the signals of its trainings; models are loaded on demand."""
    signals = read_signals(results, store)
    shadows = read_signals(read_trainings(task.shadows, task.models, store), store) if task.shadows else None
    setup = given or Setup(task.cell, 0, CPU)
    records, workload = setup.records, setup.workload
    released = lru_cache(maxsize=1)(partial(load_model, setup, store, results))
    return Evidence(
        logits=signals["logits"],
        labels=signals["labels"][0],
        members=signals["members"],
        set_aside=signals["set_aside"],
        population_logits=signals["test_logits"],
        population_labels=signals["test_labels"][0],
        shadow_logits=shadows["logits"] if shadows else None,
        shadow_population_logits=shadows["test_logits"] if shadows else None,
        shadow_set_aside=shadows["set_aside"] if shadows else None,
        pool=records.candidates,
        population=records.test,
        canaries=records.count,
        copies=records.copies,
        threat=KINDS[task.cell.canary].threat if task.cell.canary else None,
        released=released,
        shared=partial(share_step, setup, released),
        sensitive=workload.sensitive if isinstance(workload, Sensitive) else None,
    )


def read_signals(results: list[Result], store: Store) -> dict[str, NDArray[Any]]:
    """Load the signals of these trainings, stacked by model."""
    read = [load(store.read_artefact(result, "signals")) for result in results]
    for each in read:  # old trainings lack the mask
        each.setdefault("set_aside", np.zeros_like(each["members"]))
    return {name: np.stack([each[name] for each in read]) for name in read[0]}


def load_model(setup: Setup, store: Store, results: list[Result], index: int) -> nn.Module:
    """Load the released model `index` of the cell, in evaluation mode on the CPU."""
    if isinstance(setup.method, Rebuilt):
        model = setup.method.skeleton(setup.plain_problem, setup.params)
    else:
        model = setup.records.model(0)
    model.load_state_dict(load_weights(store.read_artefact(results[index], "model")))
    return model.eval()


def share_step(
    setup: Setup, released: Callable[[int], nn.Module], index: int, records: Records, when: When
) -> Shared:
    """The gradient shared by one step of model `index` on these records only: its first step, or one more."""
    training = setup.cell.training_key(index)
    seed = Run(training, CPU).seed("init")
    model = released(index) if when == "end" else setup.records.model(seed).eval()
    return share(setup.method, setup.params, setup.plain_problem, model, records, training, when)
