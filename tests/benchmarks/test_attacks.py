"""What attacks on a large cell cost; the bounds are for an idle machine, in CPU seconds of one thread."""

import resource
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from harness.attacks import family
from harness.attacks.base import Evidence
from harness.jobs.judge import judge
from harness.leakage import influence
from harness.leakage.influence import Scored
from harness.leakage.intervals import estimate
from harness.leakage.scoring import lira_bayes, share_beaten
from workloads.base import Records

MODELS, RECORDS, POPULATION, CLASSES = 64, 50_000, 10_000, 10
TEN: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("loss", {}), ("population", {}), ("reference", {}), ("shadow", {}), ("strongest", {})),
    *(("lira", {"mode": mode}) for mode in ("bayes", "online", "offline")),
    *(("rmia", {"mode": mode}) for mode in ("online", "offline")),
)
"""Array work on stored signals; what teaches classifiers or asks models is bounded by those."""
GIGABYTE = 2**30

pytestmark = pytest.mark.benchmark


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """Models of levels of their own, and members that a few records stand out among."""
    random = np.random.default_rng(0)
    members = np.stack([random.permutation(RECORDS) < RECORDS // 2 for _ in range(MODELS)])
    labels, others = random.integers(0, CLASSES, RECORDS), random.integers(0, CLASSES, POPULATION)
    logits = random.standard_normal((MODELS, RECORDS, CLASSES), dtype=np.float32)
    gap = random.gamma(0.5, 1.0, RECORDS).astype(np.float32) * members
    logits[:, np.arange(RECORDS), labels] += random.normal(3, 2, RECORDS).astype(np.float32) + gap
    population = random.standard_normal((MODELS, POPULATION, CLASSES), dtype=np.float32)
    population[:, np.arange(POPULATION), others] += random.normal(3, 2, POPULATION).astype(np.float32)
    pool = Records(torch.zeros(1, 1), torch.zeros(1))
    return Evidence(logits, labels, members, population, others, pool)


def test_the_single_pieces(evidence: Evidence) -> None:
    phi, members = evidence.phi, evidence.members  # made once for all attacks
    scores = lira_bayes(phi, members, ~members)
    rate: influence.Figure = partial(influence.tpr, rate=Fraction(1, 100))
    pieces: dict[str, tuple[float, Callable[[], object]]] = {
        "lira bayes": (2.0, lambda: lira_bayes(phi, members, ~members)),
        "AUC with variance": (1.5, lambda: estimate(influence.auc, Scored(scores, members), "record")),
        "one TPR with variance": (1.2, lambda: estimate(rate, Scored(scores, members), "record")),
    }
    spent = {name: min(cpu_seconds(work) for _ in range(3)) for name, (_, work) in pieces.items()}
    for name, seconds in spent.items():
        print(f"{name}, {MODELS} models x {RECORDS} records: {seconds:.2f} CPU s")  # noqa: T201
    assert all(spent[name] < bound for name, (bound, _) in pieces.items())


def test_ten_attacks_with_all_figures(evidence: Evidence) -> None:
    total = 0.0
    for name, params in TEN:
        attack = family.get(name)
        seconds = cpu_seconds(partial(judge, name, attack, evidence, attack.Params(**params), []))
        total += seconds
        print(f"{name} {params or ''}: {seconds:.1f} CPU s")  # noqa: T201
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIGABYTE
    print(f"ten attacks with all figures: {total:.0f} CPU s, peak {peak:.2f} GB")  # noqa: T201
    assert total < 90
    assert peak < 2


def test_rmia_by_sorting_against_all_pairs() -> None:
    random = np.random.default_rng(0)
    own, population = random.standard_normal(RECORDS), random.standard_normal(2_500)

    def by_pairs() -> None:
        (own[:, None] >= population).mean(axis=1)

    sorting = min(cpu_seconds(lambda: share_beaten(own, population, 1.0)) for _ in range(5))
    pairs = min(cpu_seconds(by_pairs) for _ in range(2))
    print(f"rmia, one target: {sorting * 1000:.1f} CPU ms by sorting, {pairs * 1000:.0f} by pairs")  # noqa: T201
    np.testing.assert_array_equal(
        share_beaten(own, population, 1.0), (own[:, None] >= population).mean(axis=1)
    )
    assert sorting < 0.05
    assert sorting < pairs
