"""What a step of pd-sgd costs against one of sgd: CPU time on one thread, without drawing batches.

Not part of `make test`: a busy machine moves every ratio. Run with `pytest -m benchmark -s tests/benchmarks`.
"""

import math
from typing import Any

import pytest

from harness.plan.benches import Measure, plan_benches
from harness.jobs.bench import examine

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
    document, _ = examine(task, measure)
    found = {entry["variant"]: entry for entry in document["methods"]}
    ratio, doubt = found["pd-sgd"]["ratio"], abs(found["sgd again"]["ratio"] - 1)
    with capsys.disabled():
        print(  # noqa: T201 - the table is what a benchmark is for
            f"\n{workload:22} B{document['batch_size']:<5} pd-sgd / sgd {ratio:.2f} "
            f"[{found['pd-sgd']['ratio_low']:.2f}, {found['pd-sgd']['ratio_high']:.2f}] "
            f"(must {MUST}, floor 3; sgd against itself +-{doubt:.1%})"
        )
    assert found["pd-sgd"]["seconds_per_update"] is not None, "steps were accepted"
    assert ratio <= MUST * (1 + doubt)
