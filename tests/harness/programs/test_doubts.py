"""Doubts about a training: one that ignores its seed, one that ignores its members."""

import pytest

from harness.jobs.loop import Stop, run_task
from harness.plan.program_audit import Extent, ProgramAudit, plan_audit, repeated
from harness.programs.ask import take_script
from harness.programs.doubts import SAME_MEMBERS, SAME_SEED, find_doubts
from harness.store import Store
from tests.harness.programs.conftest import RECORDS, Write

DETERMINISTIC = "    w = np.linalg.lstsq(x, np.eye(3)[y], rcond=None)[0]"
SEEDED = f"{DETERMINISTIC} + 0.01 * np.random.default_rng(seed).normal(size=(4, 3))"
CONSTANT = "    w = np.ones((4, 3)) * np.arange(3)"
DISTRACTED = "    w = np.random.default_rng(seed).normal(size=(4, 3))"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (SEEDED, None),
        (DETERMINISTIC, SAME_SEED),
        (CONSTANT, SAME_MEMBERS.format(first=0, second=1)),
        (DISTRACTED, None),  # other seeds hide it, and the figures show that nothing leaks
    ],
)
def test_a_warning_for_what_makes_no_difference(
    body: str, expected: str | None, write: Write, store: Store
) -> None:
    train = f"{RECORDS}\n\ndef train(x, y, seed):\n{body}\n    return lambda x: x @ w + 5\n"
    given = take_script(store, write(train))
    plan = plan_audit(ProgramAudit(given, Extent(models=2)), store)
    store.add(*plan.tasks)
    trainings = [task.key for task in plan.tasks if task.kind == "train"]
    assert trainings[-1] == repeated(plan).key
    assert {run_task(store, key, Stop()) for key in trainings} == {"done"}
    found = list(find_doubts(store, trainings[:-1], trainings[-1]))
    assert found == ([] if expected is None else [expected])


def test_what_failed_gives_no_doubts(write: Write, store: Store) -> None:
    given = take_script(store, write(f"{RECORDS}\n\ndef train(x, y, seed):\n    raise ValueError\n"))
    plan = plan_audit(ProgramAudit(given, Extent(models=2)), store)
    store.add(*plan.tasks)
    keys = [task.key for task in plan.tasks if task.kind == "train"]
    assert run_task(store, keys[0], Stop()) == "failed"
    assert list(find_doubts(store, keys[:-1], keys[-1])) == []
