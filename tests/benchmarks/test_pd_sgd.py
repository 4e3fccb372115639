"""What a step of pd-sgd costs against one of sgd: CPU time on one thread, without drawing batches.

Not part of `make test`: a busy machine moves every ratio. Run with `pytest -m benchmark -s tests/benchmarks`.
"""

import math
from typing import Any

import pytest

from harness.jobs.bench.bench import bench
from harness.jobs.device import prepared
from harness.plan.benches import Measure, plan_benches
from harness.store.outcomes import Bench
from workloads.devices import CPU

pytestmark = pytest.mark.benchmark

MUST = 3.6
"""With T = 3 and no rejection a step computes three gradients: 3 is the floor."""


@pytest.mark.parametrize(
    ("workload", "steps"),
    [("shape-linear-768x10", 400), ("shape-linear-600x100", 150), ("shape-wrn16-4", 60)],
)
def test_three_witnesses_cost_little_more_than_three_gradients(
    workload: str, steps: int, capsys: pytest.CaptureFixture[str]
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
    ratio, doubt = ours.ratio, abs(again.ratio - 1)
    with capsys.disabled():
        print(  # noqa: T201 - the table is what a benchmark is for
            f"\n{workload:22} B{outcome.bench.batch_size:<5} pd-sgd / sgd {ratio:.2f} "
            f"[{ours.ratio_low:.2f}, {ours.ratio_high:.2f}] "
            f"(must {MUST}, floor 3; sgd against itself +-{doubt:.1%})"
        )
    assert ours.seconds_per_update is not None, "steps were accepted"
    assert ratio <= MUST * (1 + doubt)
