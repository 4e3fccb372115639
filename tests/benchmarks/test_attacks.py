"""What attacks on a large cell cost; the bounds are for an idle machine, in CPU seconds of one thread."""

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from harness.attacks.base import Evidence
from harness.attacks.lira import Lira, LiraParams
from harness.attacks.rmia import share_beaten
from workloads.base import Records

MODELS, RECORDS, POPULATION = 64, 50_000, 2_500

pytestmark = pytest.mark.benchmark


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def test_lira_with_every_model_as_target() -> None:
    random = np.random.default_rng(0)
    logits = random.standard_normal((MODELS, RECORDS, 2), dtype=np.float32)
    evidence = Evidence(
        logits=logits,
        labels=random.integers(0, 2, RECORDS),
        members=random.random((MODELS, RECORDS)) < 0.5,
        population_logits=logits[:, :1],
        population_labels=np.zeros(1, dtype=np.int64),
        pool=Records(torch.zeros(1, 1), torch.zeros(1)),
    )
    assert evidence.phi.shape == (MODELS, RECORDS)  # made once for all attacks
    seconds = min(cpu_seconds(lambda: Lira().scores(evidence, LiraParams())) for _ in range(3))
    print(f"lira, {MODELS} models x {RECORDS} records, all targets: {seconds:.2f} CPU s")  # noqa: T201
    assert seconds < 0.5


def test_rmia_by_sorting_against_all_pairs() -> None:
    random = np.random.default_rng(0)
    own, population = random.standard_normal(RECORDS), random.standard_normal(POPULATION)

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
