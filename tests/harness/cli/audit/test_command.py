"""`privbench audit`: exit codes, output at 80 columns, and files."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from harness.audit.leakage_audit import LeakageAudit
from harness.cli.app import app
from tests.harness.audit.conftest import simulate
from workloads.errors import DataError, SpecError

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("audited")
    members, others = simulate(1000, 1000, shadows=3)
    drifted = {**others, "features": others["features"] + 0.7}
    for name, arrays in (("members", members), ("others", others), ("drifted", drifted)):
        np.savez(folder / f"{name}.npz", **arrays)
    return {each.stem: str(each) for each in folder.glob("*.npz")}


def run(files: dict[str, str], out: Path, *words: str, others: str = "others") -> tuple[int, str]:
    given = ["--members", files["members"], "--others", files[others], "--out", str(out)]
    done = RUNNER.invoke(app, ["audit", *given, *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_it_prints_the_sentence_the_table_and_the_files(files: dict[str, str], tmp_path: Path) -> None:
    code, printed = run(files, tmp_path)
    assert code == 0
    found = LeakageAudit.model_validate_json((tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert found.meaning in printed
    assert found.condition in printed
    assert all(each.attack in printed for each in found.attacks)
    assert "epsilon" not in printed
    for kind in ("html", "pdf", "json"):
        assert f"{kind}: {tmp_path / f'audit.{kind}'}" in printed


def test_json_is_the_file(files: dict[str, str], tmp_path: Path) -> None:
    code, printed = run(files, tmp_path, "--json")
    assert code == 0
    assert json.loads(printed) == json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))


def test_a_broken_split_and_an_exceeded_limit_end_with_1(files: dict[str, str], tmp_path: Path) -> None:
    code, printed = run(files, tmp_path, others="drifted")
    assert code == 1
    assert printed.startswith("ALARM")
    assert "nothing about leakage" in printed
    assert run(files, tmp_path, "--fail-above", "lira:auc=0.55")[0] == 1
    assert run(files, tmp_path, "--fail-above", "tpr_at_1pct=0.9")[0] == 0


def test_a_ledger_is_priced(files: dict[str, str], tmp_path: Path) -> None:
    history = tmp_path / "history.json"
    history.write_text('{"history": [[1.1, 0.05, 40]], "mechanism": "rdp"}')
    code, printed = run(files, tmp_path, "--opacus-history", str(history), "--delta", "1e-6")
    assert code == 0
    assert "40 releases cost epsilon" in printed
    assert "at delta 1e-06" in printed


def test_wrong_use_is_refused(files: dict[str, str], tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["audit"])
    assert isinstance(done.exception, SpecError)
    assert done.exception.field == "members"
    with pytest.raises(DataError) as caught:
        run({**files, "others": str(tmp_path / "none.npz")}, tmp_path)
    assert caught.value.field == "others"
