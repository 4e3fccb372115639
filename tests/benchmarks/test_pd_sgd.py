"""What a step of pd-sgd costs against one of sgd: CPU time on one thread, without drawing batches.

Not part of `make test`: a busy machine moves every ratio. Run with `pytest -m benchmark -s tests/benchmarks`.
"""

import math
from typing import TYPE_CHECKING, Any

import pytest

from harness.jobs.bench.bench import bench
from harness.jobs.device import prepared
from harness.plan.benches import plan_benches
from harness.plan.measure import Measure
from harness.store.outcomes import Bench
from tests.benchmarks.pairs import Estimate
from workloads.devices import CPU

if TYPE_CHECKING:
    from tests.benchmarks.table import Table

pytestmark = pytest.mark.benchmark

MUST = 3.2
"""With T = 3 and no rejection a step computes three gradients: 3 is the floor."""


@pytest.mark.parametrize(
    ("workload", "steps"),
    [("shape-linear-768x10", 400), ("shape-linear-600x100", 150), ("shape-wrn16-4", 60)],
)
def test_three_witnesses_cost_little_more_than_three_gradients(
    workload: str, steps: int, table: "Table"
) -> None:
    grid: dict[str, list[Any]] = {"workload": [workload], "method": ["pd-sgd"], "T": [3], "gamma": [math.inf]}
    measure = Measure(steps=steps, seconds=math.inf, memory_steps=2)
    (task,) = plan_benches(grid, measure)
    with prepared(CPU, measure.threads):
        outcome = bench(task, CPU, lambda: False).outcome
    assert isinstance(outcome, Bench)
    found = {entry.variant: entry for entry in outcome.bench.methods}
    ours, again = found["pd-sgd"], found["sgd again"]
    assert ours.ratio is not None and again.ratio is not None
    assert ours.ratio_low is not None and ours.ratio_high is not None
    assert ours.seconds_per_update is not None, "steps were accepted"
    ratio = Estimate(ours.ratio, ours.ratio_low, ours.ratio_high)
    name = f"{workload}, B={outcome.bench.batch_size}"
    doubt = f"sgd against itself {again.ratio:.2f}; floor 3"
    table.hold("pd-sgd step (T = 3) / sgd step", name, ratio, MUST, steps, doubt)
