"""Results of changed code or data are found and not mixed, unless accepted."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import workloads
from harness.enqueue import enqueue
from harness.plan.changes.changed import (
    Change,
    ChangedCode,
    check_plan,
    compare,
    differing_data,
    differing_files,
)
from harness.plan.changes.task_code import asked_of, code_of
from harness.plan.changes.task_data import keep_data
from harness.plan.plan import Plan
from harness.plan.sweep_file import Sweep
from harness.spec import Cell, Json, Plugin, Task
from harness.store import Store
from harness.store.fingerprints import accepted, store_secret, write_sources
from workloads.base import Records
from workloads.records import LazyRecords, describe

HEART = (
    "from labchanged.nets import width\nfrom privbench import Records\n\n\nclass Heart:\n    units = width\n"
)
FILES = {
    "labchanged-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: labchanged\nVersion: 1\n",
    "labchanged-1.dist-info/entry_points.txt": "[privbench.workloads]\nlabheart = labchanged.heart:heart\n",
    "labchanged/__init__.py": "",
    "labchanged/heart.py": HEART,
    "labchanged/nets.py": '"""Networks."""\nwidth = 16\n',
}


class Heart:
    """The records of the plug-in, as its class would give them."""

    def __init__(self) -> None:
        self.x, self.y = torch.arange(12.0).reshape(6, 2), torch.arange(6) % 2

    def pool(self) -> Records:
        return Records(self.x[:4], self.y[:4])

    def test(self) -> Records:
        return Records(self.x[4:], self.y[4:])


class Lab:
    """A plug-in, and a store with finished tasks of it."""

    def __init__(self, home: Path, heart: Heart) -> None:
        self.home, self.heart = home, heart
        for name, content in FILES.items():
            self.write(name, content)
        self.store = Store.open(home / "store", create=True)
        cell = Cell(Plugin("labheart", "1"), 2, Plugin("sgd", "1"), {"steps": 3}, 0)
        trainings = [Task("train", cell, index=index) for index in range(2)]
        self.tasks = [*trainings, Task("attack", cell, 0, 2, Plugin("loss", "1"), {})]
        self.provenance = [self.finish(task) for task in self.tasks]

    def write(self, name: str, content: str) -> None:
        file = self.home / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)

    def finish(self, task: Task) -> Json:
        """The provenance that a worker records now."""
        parts = code_of(asked_of(task))
        for part in parts.values():
            write_sources(self.store, part.digest, part.files)
        secret = store_secret(self.store, create=True)
        assert secret is not None
        described = {"pool": describe(self.heart.pool()), "test": describe(self.heart.test())}
        data = keep_data("labheart", described, secret)
        return {"code": {name: part.digest for name, part in parts.items()}, "data": data}

    @property
    def plan(self) -> Plan:
        recorded = {task.key: found for task, found in zip(self.tasks, self.provenance, strict=True)}
        return Plan(
            Sweep("s", 2, 0, (), ()),
            (self.tasks[0].cell,),
            tuple(self.tasks),
            frozenset(recorded),
            {},
            recorded=recorded,
        )

    def changes(self) -> dict[str, tuple[str, ...]]:
        found = compare(zip(self.tasks, self.provenance, strict=True), self.store)
        return {each.member: each.details for each in found.changes}


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(tmp_path)
    heart = Heart()
    monkeypatch.setitem(workloads.family.members, "labheart", heart)
    # The records of a test are in no file, so what is kept would never become stale.
    monkeypatch.setattr(
        "harness.plan.changes.task_data.kept_for", lambda name, asked, compute, anew=False: compute()
    )
    return Lab(tmp_path, heart)


def test_nothing_changed(lab: Lab) -> None:
    assert lab.changes() == {}
    assert check_plan(lab.plan, lab.store, accept=False) == lab.plan


def test_a_comment_or_a_docstring_is_no_change(lab: Lab) -> None:
    lab.write("labchanged/nets.py", '"""Other words."""\n# a comment\nwidth = 16\n')
    lab.write("labchanged/heart.py", HEART.replace("class Heart:\n", 'class Heart:\n    """Words."""\n\n'))
    assert lab.changes() == {}


def test_a_changed_file_is_named_and_refused(lab: Lab) -> None:
    lab.write("labchanged/heart.py", HEART.replace("= width", "= width + 1"))
    with pytest.raises(ChangedCode) as refused:
        check_plan(lab.plan, lab.store, accept=False)
    (change,) = refused.value.changes
    assert (change.member, change.details) == ("workload labheart", ("labchanged/heart.py changed",))
    assert change.tasks == 3
    assert refused.value.field == "--accept-changed-code"


def test_a_helper_that_it_imports_counts(lab: Lab) -> None:
    lab.write("labchanged/nets.py", "from labchanged.layers import depth\nwidth = 16\n")
    lab.write("labchanged/layers.py", "depth = 2")
    assert lab.changes() == {
        "workload labheart": ("labchanged/nets.py changed", "labchanged/layers.py added")
    }


def test_a_file_that_is_gone(lab: Lab) -> None:
    lab.write("labchanged/heart.py", "class Heart:\n    units = 16\n")
    assert lab.changes() == {"workload labheart": ("labchanged/heart.py changed", "labchanged/nets.py gone")}


def new_values(heart: Heart) -> None:
    heart.x = heart.x + 1


def fewer_records(heart: Heart) -> None:
    heart.x, heart.y = heart.x[:5], heart.y[:5]


def another_dtype(heart: Heart) -> None:
    heart.x = heart.x.double()


def other_labels(heart: Heart) -> None:
    heart.y = 1 - heart.y


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (new_values, ("values of the pool's examples changed", "values of the test's examples changed")),
        (
            fewer_records,
            (
                "shape of the test's examples changed from [2, 2] to [1, 2]",
                "shape of the test's labels changed from [2] to [1]",
            ),
        ),
        (
            another_dtype,
            tuple(
                f"dtype of the {part}'s examples changed from float32 to float64" for part in ("pool", "test")
            ),
        ),
        (other_labels, ("values of the pool's labels changed", "values of the test's labels changed")),
    ],
)
def test_changed_data_are_refused(
    lab: Lab, change: Callable[[Heart], None], expected: tuple[str, ...]
) -> None:
    change(lab.heart)
    assert lab.changes() == {"data of labheart": expected}


def test_an_accepted_change_is_recorded_and_stands(lab: Lab) -> None:
    lab.write("labchanged/nets.py", "width = 17\n")
    plan = check_plan(lab.plan, lab.store, accept=True)
    assert [each.details for each in plan.accepted] == [["labchanged/nets.py changed"]]
    assert not list(accepted(lab.store))  # planning writes nothing
    from harness.backends.base import Settings

    enqueue(plan, lab.store, "local", Settings())
    assert lab.store.sweep("s").accepted == list(plan.accepted) == list(accepted(lab.store))
    assert check_plan(lab.plan, lab.store, accept=False).accepted == plan.accepted
    lab.write("labchanged/nets.py", "width = 18\n")
    with pytest.raises(ChangedCode):
        check_plan(lab.plan, lab.store, accept=False)


def test_results_without_a_fingerprint_get_a_note(lab: Lab) -> None:
    lab.provenance[:2] = [{"host": "old"}, {}]
    plan = check_plan(lab.plan, lab.store, accept=False)
    assert len(plan.warnings) == 1
    assert compare(zip(lab.tasks, lab.provenance, strict=True), lab.store).unknown == 2


def test_a_store_of_an_earlier_protocol_has_none() -> None:
    store = Store.open(Path(__file__).parents[3] / "data/store-of-protocol-0")
    done = [(task, result.provenance) for task, result in store.results() if result.done]
    found = compare(done, store)
    assert (found.changes, found.unknown) == ((), len(done))
    assert found.note is not None


def test_ours_counts_in_a_checkout_only(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = "0" * 16
    now = code_of(asked_of(lab.tasks[0]))["privbench"].files
    write_sources(lab.store, digest, {**now, "methods/sgd.py": "another"})
    lab.provenance[0]["code"]["privbench"] = digest
    assert lab.changes() == {"privbench": ("methods/sgd.py changed",)}
    monkeypatch.setattr("workloads.fingerprint.in_checkout", lambda: False)
    assert lab.changes() == {}


def test_data_of_another_secret_or_elsewhere_are_not_compared(lab: Lab) -> None:
    new_values(lab.heart)
    (lab.store.path / "secret").write_text("another")
    assert lab.changes() == {}


def test_a_fingerprint_of_data_is_keyed_by_the_store(lab: Lab, tmp_path: Path) -> None:
    described = {"pool": describe(lab.heart.pool())}
    other = store_secret(Store.open(tmp_path / "other", create=True), create=True)
    secret = store_secret(lab.store)
    assert other != secret
    assert other is not None and secret is not None
    found = [keep_data("labheart", described, each)["pool"]["x"]["digest"] for each in (secret, other)]
    plain = described["pool"]["x"]["digest"]
    assert len({*found, plain}) == 3
    assert (lab.store.path / "secret").stat().st_mode & 0o077 == 0


def test_descriptions_of_records() -> None:
    x, y = torch.rand(5000, 3), torch.arange(5000)
    held = describe(Records(x, y))
    assert held == describe(Records(x.clone(), y.clone()))
    changed = x.clone()
    changed[4999, 2] += 1e-6
    assert describe(Records(changed, y))["x"] != held["x"]
    x += 1  # in place: what was hashed before is another
    assert describe(Records(x, y))["x"] != held["x"]
    items = torch.utils.data.TensorDataset(x, y)
    lazy = describe(LazyRecords(items, y))
    assert lazy["x"]["shape"] == [5000, 3]
    assert lazy["x"]["sampled"] == 1024
    assert describe(Records(x[:0], y[:0]))["x"]["shape"] == [0, 3]


def test_differences() -> None:
    assert differing_files({"a": "1", "b": "1"}, {"b": "2", "c": "1"}) == ("b changed", "c added", "a gone")
    assert list(differing_data({}, {})) == []


@pytest.mark.slow
def test_a_plugin_edited_between_two_runs(tmp_path: Path) -> None:
    """By the command line and real workers: refused, named, accepted, and shown in the views."""
    files = FILES | {
        "labchanged/heart.py": """
from pathlib import Path

import torch

from labchanged.nets import width
from privbench import Records, mlp


class Heart:
    name, version, about, source, classes, n_train = "labheart", "1", "a test", "drawn", 2, 20

    def _split(self, rows):
        x = torch.tensor([float(row) for row in Path(__file__).with_name("rows.txt").read_text().split()])
        return Records(x[rows, None].repeat(1, 3), (x[rows] > 0).long())

    def pool(self):
        return self._split(slice(0, 40))

    def test(self):
        return self._split(slice(40, 60))

    def model(self, seed):
        return mlp((3, width, 2), seed)


heart = Heart()
""",
        "labchanged/rows.txt": " ".join(
            map(str, torch.randn(60, generator=torch.Generator().manual_seed(1)).tolist())
        ),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def call(*words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "harness.cli", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, done.stderr

    setting = ["--set", "steps=3", "--set", "batch_size=10", "--set", "learning_rate=0.1", "--attack", "loss"]
    asked = ["--workload", "labheart", "--method", "sgd", *setting, "--models"]
    sweep = ["run", "--slots", "1", *asked]
    assert call(*sweep, "2")[0] == 0, call(*sweep, "2")
    (tmp_path / "labchanged/nets.py").write_text("width = 17\n")
    code, _, refusal = call(*sweep, "3")
    assert code == 2
    assert "labchanged/nets.py" in refusal
    neighbour = ["plan", *asked, "2", "--seed", "5"]
    code, _, refusal = call(*neighbour)
    assert code == 2  # no task in common, but one table
    assert "labchanged/nets.py" in refusal
    (tmp_path / "labchanged/heart.py").write_text(
        files["labchanged/heart.py"].replace('"labheart", "1"', '"labheart", "2"')
    )
    assert call(*neighbour)[0] == 0
    (tmp_path / "labchanged/heart.py").write_text(files["labchanged/heart.py"])
    code, printed, refusal = call(*sweep, "3", "--accept-changed-code")
    assert code == 0, refusal
    assert "MIXED" in printed
    sql = "select models, mixed_code, mixed_data from frontier where attack = 'loss'"
    rows = json.loads(call("query", sql, "--format", "json")[1])
    assert {row["models"]: (row["mixed_code"], row["mixed_data"]) for row in rows} == {3: (True, False)}
    store = Store(tmp_path / "privbench-store")
    recorded = [each.member for name in store.sweep_names() for each in store.sweep(name).accepted]
    assert "workload labheart" in recorded
    warned = [result for task, result in store.results() if task.models == 3 and result.warnings]
    assert warned
    (tmp_path / "labchanged/rows.txt").write_text(" ".join(["0.5", "-0.5"] * 30))
    code, _, refusal = call(*sweep, "3")
    assert code == 2
    assert "data of labheart" in refusal


def test_one_file_in_many_fingerprints_is_told_once() -> None:
    changes = [Change("privbench", f"old {each}", f"new {each}", ("a.py changed",), 3) for each in range(4)]
    refused = ChangedCode(changes)
    (problem,) = refused.problems
    assert problem.startswith("privbench: a.py changed since 12 finished tasks")
    assert refused.changes == tuple(changes), "each is accepted by its fingerprints"
