"""Programs of users in folders of their own, and a store to give them to."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.jobs.loop import Stop, run_task
from harness.plan.program_audit import Extent, ProgramAudit, plan_audit
from harness.programs.ask import Given, take_script
from harness.programs.given_records import Arrays
from harness.store import Store
from harness.store.result import Result

RECORDS = """
import numpy as np

def data():
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 160)
    x = random.normal(size=(160, 4)) + y[:, None]
    return x[:100], y[:100], x[100:], y[100:]
"""
TRAIN = """
from sklearn.linear_model import LogisticRegression

def train(x, y, seed):
    return LogisticRegression(C=10, random_state=seed).fit(x, y)
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes `train.py`, or a script of another name, into a folder and returns it."""

    def put(text: str = RECORDS + TRAIN, name: str = "train.py") -> Path:
        file = tmp_path / "theirs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return put


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store", create=True)


@pytest.fixture
def arrays() -> Arrays:
    random = np.random.default_rng(0)
    y = random.integers(0, 3, 160)
    x = random.normal(size=(160, 4)) + y[:, None]
    return {"x": x[:100], "y": y[:100], "test_x": x[100:], "test_y": y[100:]}


Trained = Callable[[Path | Given], Result]


@pytest.fixture
def first_training(store: Store) -> Trained:
    """Gives a script to the store and runs its first training in this process."""

    def run(given: Path | Given) -> Result:
        if isinstance(given, Path):
            given = take_script(store, given)
        plan = plan_audit(ProgramAudit(given, Extent(models=1)), store)
        store.add(*plan.tasks)
        run_task(store, plan.tasks[0].key, Stop())
        found = store.result(plan.tasks[0].key)
        assert found is not None
        return found

    return run
