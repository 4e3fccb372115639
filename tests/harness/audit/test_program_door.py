"""An audit of a training from the script to its result, through worker processes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from typer.testing import CliRunner

import privbench
from harness.audit.leakage_audit import LeakageAudit
from harness.audit.program_result import false_alarms
from harness.cli.app import app
from harness.report import write_all
from harness.results.query import query
from harness.store import Store
from workloads.errors import SpecError

SCRIPT = """
import numpy as np

def data():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 300)
    x = random.normal(size=(300, 20)) + 0.3 * y[:, None]
    return x[:200], y[:200], x[200:], y[200:]

def train(x, y, seed):
    from sklearn.neighbors import KNeighborsClassifier
    return KNeighborsClassifier(1).fit(x, y)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script, and the store of its audit."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "memoriser.py").write_text(SCRIPT)
    return folder


@pytest.fixture(scope="module")
def audited(folder: Path) -> Iterator[LeakageAudit]:
    """A 1-nearest-neighbour classifier, which memorises its members."""
    sys.path.insert(0, str(folder))
    try:
        import memoriser  # type: ignore[import-not-found]

        yield privbench.audit(
            memoriser.train,
            memoriser.data,
            models=4,
            canaries=40,
            store=folder / "store",
            slots=2,
            ledger=GaussianDpEvent(40.0),
            fail_above=["lira:auc=0.6", "loss:auc=1"],
        )
    finally:
        sys.path.remove(str(folder))
        del sys.modules["memoriser"]


@pytest.mark.slow
def test_the_result_says_what_leaks(audited: LeakageAudit) -> None:
    assert audited.rung == "training" and audited.headline == "strongest"
    assert audited.target == "4 models trained by memoriser.py"
    assert (audited.data.members, audited.data.others, audited.data.population) == (100, 100, 60)
    assert (audited.data.models, audited.data.shadows, audited.data.features) == (4, 3, 20)
    assert audited.data.member_accuracy == 1.0
    lira = audited.figures("lira").metrics
    assert lira.auc is not None and lira.auc > 0.6 and lira.models == 4
    assert "t" in str(lira.interval)
    assert audited.split.valid is True
    assert {each.attack for each in audited.skipped} == {"label-only", "white-box"}
    assert len(audited.worst) > 0 and all(each.flagged <= each.trained for each in audited.worst)
    assert any("deterministic, or ignores its seed" in each for each in audited.warnings)


@pytest.mark.slow
def test_canaries_and_a_ledger_raise_the_alarm(audited: LeakageAudit) -> None:
    bound = audited.canary_audits["audit-one-run"]
    assert audited.ledger is not None
    price = audited.ledger.guarantee.epsilon
    assert price is not None and bound.epsilon > price
    assert bound.alarm and bound.epsilon_priced == pytest.approx(price)
    assert [each.exceeded for each in audited.limits] == [True, False]
    assert len(audited.alarms) == 2


@pytest.mark.slow
def test_the_same_audit_by_the_command_trains_nothing(audited: LeakageAudit, folder: Path) -> None:
    """The cache is keyed by script and records; the command's exit code is the alarm."""
    before = sorted((folder / "store/tasks").rglob("result.json"))
    times = [each.stat().st_mtime_ns for each in before]
    arguments = ["audit", str(folder / "memoriser.py"), "--models", "4", "--canaries", "40"]
    where = ["--store", str(folder / "store"), "--out", str(folder / "page")]
    result = CliRunner().invoke(app, [*arguments, *where, "--json"])
    assert result.exit_code == 0, result.output
    shown = LeakageAudit.model_validate_json(result.stdout)
    assert list(shown.attacks) == list(audited.attacks) and list(shown.worst) == list(audited.worst)
    assert sorted((folder / "store/tasks").rglob("result.json")) == before
    assert [each.stat().st_mtime_ns for each in before] == times
    assert (folder / "page/audit.json").is_file()
    result = CliRunner().invoke(app, [*arguments, *where, "--fail-above", "lira:auc=0.6"])
    assert result.exit_code == 1, result.output
    assert "ALARM" in result.stdout and "proves epsilon >=" in result.stdout


@pytest.mark.slow
def test_ordinary_reports_work_on_its_store(audited: LeakageAudit, folder: Path, tmp_path: Path) -> None:
    rows = query(folder / "store", "select guarantee_kind, tested, attack, models from frontier").rows
    assert {row[2] for row in rows} >= {"strongest", "lira", "loss"}
    assert {row[0] for row in rows} == {"none"}
    assert {row[3] for row in rows} == {4}, "the training for the seed is in no figure"
    assert any(file.suffix == ".html" for file in write_all(folder / "store", tmp_path))


@pytest.mark.slow
def test_a_training_that_fails_ends_with_its_cause(folder: Path) -> None:
    script = folder / "broken.py"
    script.write_text(SCRIPT.replace("    from sklearn", "    raise ValueError('no luck')\n    from sklearn"))
    arguments = ["audit", str(script), "--models", "2", "--store", str(folder / "broken"), "--slots", "2"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "ValueError: no luck (broken.py, line 11, in train)" in result.stderr
    failed = list(Store.open(folder / "broken").results())
    assert {each.reason for _, each in failed} == {"error", "upstream"}


def test_wrong_use_is_refused(folder: Path) -> None:
    script = str(folder / "memoriser.py")
    for arguments, field in (
        ([script, "--command", "a"], "SCRIPT"),
        (["--data", "a.npz"], "SCRIPT"),
        (["--command", "a {members} {records} {predictions}"], "--data"),
        ([script, "--members", "a.npz"], "--members"),
    ):
        result = CliRunner().invoke(app, ["audit", *arguments, "--store", str(folder / "none")])
        assert isinstance(result.exception, SpecError) and result.exception.field == field
    assert not (folder / "none").exists()
    with pytest.raises(SpecError) as refused:
        privbench.audit(len, (), (), models=2)
    assert refused.value.field == "others"


def test_false_alarms_of_a_member() -> None:
    """By hand: of three others, one scores as high as the first member, none as high as the second."""
    scores = np.array([[2.0, 5.0, 1.0, 2.0, 0.0]])
    members = np.array([[True, True, False, False, False]])
    assert np.allclose(false_alarms(scores, members)[0, :2], [2 / 4, 1 / 4])
    assert np.isinf(false_alarms(scores, members)[0, 2:]).all()
