"""Failures by cause."""

from pathlib import Path

import pytest

from harness.backends.causes import group_failures, group_texts
from harness.backends.status import Progress
from harness.cli.output import failures, troubles
from harness.spec import Cell, Plugin, Task
from harness.store import Store
from tests.harness.simulated import ended, sweep_record

CELLS = [
    Cell(Plugin(name, "1"), 5, Plugin("dp-sgd", "1"), {"epsilon": epsilon}, 0)
    for name in ("digits", "texts")
    for epsilon in (1.0, 4.0)
]
TASKS = [Task("train", cell, index=index) for cell in CELLS for index in range(3)]


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    """Twelve failed trainings: nine diverged at different steps, two out of memory, one upstream."""
    store = Store.open(tmp_path / "store", create=True)
    store.write_sweep(sweep_record("sweep", *TASKS))
    for place, task in enumerate(TASKS):
        store.add(task)
        reason, message = "diverged", f"loss is not finite at step {place} of phase 'train'\nmore {place}"
        if place >= 9:
            reason, message = "out_of_memory", "tried to allocate 7.5 GiB"
        if place == 11:
            reason, message = "upstream", f"1 tasks it needs have failed: {TASKS[0].key[:12]}"
        assert store.publish(ended(task, "failed", reason=reason, message=message))
    return Progress.of(store, "sweep")


def test_tasks_that_failed_alike_are_one_cause(progress: Progress) -> None:
    causes = group_failures(progress.store, progress.failures)
    assert [(each.reason, len(each.keys)) for each in causes] == [
        ("diverged", 9), ("out_of_memory", 2), ("upstream", 1)
    ]  # fmt: skip
    first = causes[0]
    assert first.cells == {
        ("digits", "dp-sgd ε=1"): 3,
        ("digits", "dp-sgd ε=4"): 3,
        ("texts", "dp-sgd ε=1"): 3,
    }
    assert first.example in {task.key for task in TASKS[:9]}
    assert "\n" not in first.message
    assert first.row()["tasks"] == 9


def test_a_cause_is_printed_once_with_its_cells_and_the_log_command(
    progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    troubles(progress)
    shown = capsys.readouterr().out
    assert shown.count("not finite") == 1
    assert "9 tasks failed: diverged" in shown
    assert "digits: dp-sgd ε=1 (3), dp-sgd ε=4 (3)" in shown
    (cause, *_) = group_failures(progress.store, progress.failures)
    assert f"privbench logs {cause.example[:12]} --store {progress.store.path}" in shown
    assert f"privbench retry sweep --store {progress.store.path}" in shown


def test_no_failure_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    failures([], "sweep")
    assert capsys.readouterr().out == ""


def test_warnings_alike_but_for_numbers_are_one() -> None:
    texts = {"3 gradients were cut": ["a", "b"], "17 gradients were cut": ["c"], "other": ["a"]}
    assert group_texts(texts) == {"3 gradients were cut": ["a", "b", "c"], "other": ["a"]}


def test_a_failure_without_a_readable_spec_is_still_counted(progress: Progress) -> None:
    for task in TASKS:
        (progress.store.folder(task.key) / "spec.json").write_text("{")
    causes = group_failures(progress.store, progress.failures)
    assert sum(len(each.keys) for each in causes) == len(TASKS)
