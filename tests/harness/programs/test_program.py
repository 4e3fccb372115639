"""A user's program as the method of a cell: what it sees, and what happens to its output and its errors."""

import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import NonPrivateDpEvent
from safetensors.numpy import load

import methods
from harness.backends.base import job_command
from harness.jobs.loop import Stop, run_task
from harness.plan.changes.task_code import OWN, asked_of, code_of
from harness.plan.program_audit import Extent, ProgramAudit, plan_audit
from harness.programs.ask import take_command, take_script
from harness.programs.given_records import Arrays
from harness.programs.program import ProgramParams, check_command
from harness.store import Store
from harness.store.result import Result
from methods.base import Problem, Released, Run
from tests.harness.programs.conftest import RECORDS, TRAIN, Trained, Write
from workloads.base import Records
from workloads.errors import SpecError

NETWORK = """
import torch

def train(x, y, seed):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    steps = torch.optim.Adam(model.parameters(), 0.05)
    x, y = torch.as_tensor(x).float(), torch.as_tensor(y)
    for _ in range(20):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        steps.step()
    return model
"""
BOOSTING = """
from sklearn.ensemble import HistGradientBoostingClassifier

def train(x, y, seed):
    return HistGradientBoostingClassifier(max_iter=5, random_state=seed).fit(x, y)
"""
LIGHTGBM = """
import lightgbm

def train(x, y, seed):
    settings = dict(objective="multiclass", num_class=3, seed=seed, verbose=-1, num_threads=1)
    return lightgbm.train(settings, lightgbm.Dataset(x, y), 5).predict
"""


def signals_of(store: Store, result: Result) -> dict[str, Any]:
    return load(store.read_artefact(result, "signals"))


@pytest.mark.parametrize(
    "train", [TRAIN, BOOSTING, LIGHTGBM, NETWORK], ids=["linear", "boosting", "lightgbm", "torch"]
)
def test_models_of_any_library(train: str, write: Write, first_training: Trained, store: Store) -> None:
    result = first_training(write(RECORDS + train))
    assert result.done, result.message
    assert result.training.metrics.test_accuracy > 0.5
    assert result.training.guarantee.kind == "none"
    found = signals_of(store, result)
    assert found["logits"].shape == (100, 3) and found["members"].sum() == 50


def test_tensors_are_given_to_who_gives_tensors(write: Write, first_training: Trained) -> None:
    checked = "assert {} in str(type(x)) + str(x.dtype), (type(x), x.dtype)\n    torch.manual_seed(seed)"
    tensors = RECORDS.replace("import numpy as np", "import numpy as np\nimport torch")
    tensors = tensors.replace("return x", "x, y = torch.tensor(x).float(), torch.tensor(y)\n    return x")
    network = NETWORK.replace("torch.manual_seed(seed)", checked.format("\"'torch.Tensor'>torch.float32\""))
    assert first_training(write(tensors + network)).done
    network = NETWORK.replace("torch.manual_seed(seed)", checked.format("\"'numpy.ndarray'>float64\""))
    assert first_training(write(RECORDS + network)).done


def test_a_class_that_no_member_has_gets_no_probability(
    write: Write, first_training: Trained, store: Store
) -> None:
    rare = RECORDS.replace("    return", "    y[:100] = y[:100] % 2; y[0] = 2; y[100:] = 0\n    return")
    alone = TRAIN.replace("fit(x, y)", "fit(x[y < 2], y[y < 2])")
    found = signals_of(store, first_training(write(rare + alone)))
    assert (found["logits"].argmax(1) < 2).all() and np.isfinite(found["logits"]).all()


def test_what_a_program_sees_and_may_do(write: Write, first_training: Trained, store: Store) -> None:
    """It prints, moves away, imports its own `harness/`, and finds none of our packages."""
    write("value = 7", "harness/__init__.py")
    write("", "workloads.py")
    script = write(
        RECORDS
        + """
import os, sys
import harness, privbench
import workloads

def train(x, y, seed):
    print("done", flush=True)
    os.chdir("/")
    assert harness.value == 7
    assert os.path.dirname(workloads.__file__) == os.path.dirname(__file__)
    try:
        import methods
    except ModuleNotFoundError as error:
        print("hidden:", error.name)
    else:
        raise AssertionError(methods.__file__)
    assert len(x) == 50 and 0 <= seed < 2**31
    open("/dev/stdout", "w").close()
    from sklearn.naive_bayes import GaussianNB
    return GaussianNB().fit(x, y)
"""
    )
    result = first_training(script)
    assert result.done, result.message
    log = (store.folder(result.key) / "log.txt").read_text()
    assert "done" in log and "hidden: methods" in log


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('too few')", "ValueError: too few (train.py, line 12, in train)"),
        ("return helper(x)", "NameError: name 'helper' is not defined (train.py, line 12, in train)"),
        ("raise SystemExit(3)", "SystemExit: 3 (train.py, line 12, in train)"),
        ("return 3", "train() returned a int: return a torch module"),
        ("return lambda x: x[:, :2]", "the predictions have shape (160, 2), not (160, 3)"),
        ("return lambda x: x[:, :3] * 0", "the predictions lie between 0 and 1 but do not sum to 1"),
        ("return lambda x: x[:, :3] / 0", "of 160 of 160 records are NaN or infinite"),
        ("return lambda x: [['a', 'b', 'c']] * len(x)", "values of type <U1 were returned"),
        ("import os; os._exit(3)", "the program ended with exit code 3"),
        ("import os; os._exit(0)", "the program wrote no predictions"),
        ("import os; os.kill(os.getpid(), 9)", "the program was killed by signal 9"),
        ("open('settings.toml')", "name further files with --with"),
    ],
)
def test_a_failure_is_a_row_with_its_cause(
    body: str, message: str, write: Write, first_training: Trained, store: Store
) -> None:
    result = first_training(write(f"{RECORDS}\n\ndef train(x, y, seed):\n    {body}\n"))
    assert result.reason == "error"
    assert message in str(result.message)
    if "line 12" in message:
        assert f"    {body}\n" in (store.folder(result.key) / "log.txt").read_text()


def test_further_files_travel_with_it(write: Write, first_training: Trained, store: Store) -> None:
    settings = write("3", "conf/settings.toml")
    write("from pathlib import Path\nC = float(Path('conf/settings.toml').read_text())", "settings.py")
    script = write(
        RECORDS + TRAIN.replace("C=10", "C=settings.C").replace("from", "import settings\nfrom", 1)
    )
    given = take_script(store, script, [settings.parent])
    settings.unlink()
    script.unlink()
    assert first_training(given).done


def test_the_code_that_runs_it_is_in_its_fingerprint(write: Write, store: Store) -> None:
    """Also what the child process executes: a change of it is refused as any other."""
    given = take_script(store, write())
    task = plan_audit(ProgramAudit(given, Extent(models=1)), store).tasks[0]
    files = code_of(asked_of(task))[OWN].files
    assert {
        f"harness/programs/{name}.py" for name in ("runner", "predictions", "given_records")
    } <= files.keys()


def test_global_generators_are_seeded(write: Write, first_training: Trained, store: Store) -> None:
    """A function that draws from them is reproducible, also after a resume."""
    drawn = """
import random

def train(x, y, seed):
    w = np.random.normal(size=(4, 3)) * random.random()
    return lambda x: x @ w
"""
    result = first_training(write(RECORDS + drawn))
    before = signals_of(store, result)
    store.reset(result.key)
    run_task(store, result.key, Stop())
    again = store.result(result.key)
    assert again is not None
    assert np.array_equal(before["logits"], signals_of(store, again)["logits"])


# -- commands --------------------------------------------------------------------------------------

CENTROIDS = r"""
FNR == 1 { file++; next }
file == 1 { n[$1]++; for (i = 2; i <= NF; i++) sum[$1, i] += $i; next }
{
    total = 0
    for (c = 0; c < 3; c++) {
        d = 0
        for (i = 1; i <= NF; i++) d += ($i - sum[c, i + 1] / n[c])^2
        p[c] = exp(-d); total += p[c]
    }
    print p[0] / total "," p[1] / total "," p[2] / total > out
}
"""


def test_a_program_in_another_language(
    arrays: Arrays, first_training: Trained, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "centroids.awk").write_text(CENTROIDS)
    rows = [
        f"{y},{part}," + ",".join(map(repr, x.tolist()))
        for part, x_name, y_name in (("pool", "x", "y"), ("test", "test_x", "test_y"))
        for x, y in zip(arrays[x_name], arrays[y_name], strict=True)
    ]
    (tmp_path / "data.csv").write_text("\n".join(["y,part,a,b,c,d", *rows]))
    command = "awk -F, -v out={predictions} -f centroids.awk {members} {records}"
    given = take_command(store, command, tmp_path / "data.csv")
    assert given.method.startswith("centroids-")
    (tmp_path / "centroids.awk").unlink()  # it is in the store
    result = first_training(given)
    assert result.done, result.message
    assert result.training.metrics.test_accuracy > 0.5


def test_a_command_that_fails(arrays: Arrays, first_training: Trained, store: Store, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", allow_pickle=False, **arrays)
    words = "sh -c 'echo no licence; exit 4' {members} {records} {predictions}"
    result = first_training(take_command(store, words, tmp_path / "data.npz"))
    assert result.message == "the program ended with exit code 4; its last words: no licence"
    absent = "/no/such/program {members} {records} {predictions}"
    result = first_training(take_command(store, absent, tmp_path / "data.npz"))
    assert result.message == "the program /no/such/program cannot be started: No such file or directory"


def test_a_command_without_its_placeholders() -> None:
    with pytest.raises(SpecError) as refused:
        check_command(["train", "--in", "{members}"])
    assert refused.value.field == "--command"
    assert "no {records} and no {predictions}" in str(refused.value)


# -- equal numbers ---------------------------------------------------------------------------------


SOFTMAX = """
def train(x, y, seed):
    w = np.random.default_rng(seed).normal(size=(4, 3))
    for _ in range(50):
        p = np.exp(x @ w)
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        w -= 0.05 * x.T @ p
    return lambda x: x @ w
"""


class Plugged:
    """The same training as a method of a plug-in: in this process, and it releases its model."""

    version, about, source, guarantee = "1", "", "", "none"
    caveats = ()
    Params = ProgramParams

    def train(self, members: Records, problem: Problem, params: ProgramParams, run: Run) -> Released:
        given: dict[str, Any] = {"np": np}
        exec(SOFTMAX, given)
        predict = given["train"](members.x.numpy(), members.y.numpy(), run.seed("program") >> 32)
        model = self.skeleton(problem, params)
        model.weight.data = torch.tensor(predict(np.eye(4))).T
        return Released(model, NonPrivateDpEvent())

    def skeleton(self, problem: Problem, params: ProgramParams) -> Any:
        return torch.nn.Linear(4, 3, bias=False, dtype=torch.float64)


def test_an_ordinary_sweep_gives_equal_numbers(write: Write, store: Store, tmp_path: Path) -> None:
    """Masks, seeds, predictions, coins and scores are those of a plug-in of the same name."""
    given = take_script(store, write(RECORDS + SOFTMAX))
    asked = ProgramAudit(given, Extent(models=3, canaries=10, attack="loss,lira"))
    plan = plan_audit(asked, store)
    other = Store.open(tmp_path / "other", create=True)
    for each in (store, other):
        each.add(*plan.tasks)
    assert {run_task(store, task.key, Stop()) for task in plan.tasks} == {"done"}
    program = methods.family.members[given.method]
    plugged: Any = Plugged()
    methods.family.members[given.method] = plugged
    try:
        assert {run_task(other, task.key, Stop()) for task in plan.tasks} == {"done"}
    finally:
        methods.family.members[given.method] = program
    compared = 0
    for task in plan.tasks:
        one, two = store.result(task.key), other.result(task.key)
        assert one is not None and two is not None
        for name in {"signals", "scores"} & one.artefacts.keys():
            ours, theirs = load(store.read_artefact(one, name)), load(other.read_artefact(two, name))
            assert ours.keys() == theirs.keys()
            for part in ours:
                assert np.allclose(ours[part], theirs[part], rtol=1e-5, atol=1e-5), (task.label, name, part)
            compared += 1
        if "audit" in one.figures:
            assert one.figures["audit"] == two.figures["audit"]
    assert compared >= 7


@pytest.mark.slow
def test_a_killed_training_is_not_left_behind(write: Write, store: Store, tmp_path: Path) -> None:
    """The child dies with its parent."""
    mark = tmp_path / "pid"
    script = write(
        f"{RECORDS}\n\ndef train(x, y, seed):\n    import os, time\n"
        f"    open({str(mark)!r}, 'w').write(str(os.getpid()))\n    time.sleep(600)\n"
    )
    plan = plan_audit(ProgramAudit(take_script(store, script), Extent(models=1)), store)
    store.add(*plan.tasks)
    with subprocess.Popen(job_command(store, plan.tasks[0].key)) as worker:
        deadline = time.monotonic() + 60
        while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
            time.sleep(0.1)
        child = Path("/proc") / mark.read_text()
        assert child.exists()
        worker.kill()
    while child.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not child.exists()
