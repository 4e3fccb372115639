"""`privbench doctor --gpu` without a GPU, and with one that torch does not see."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.selftest.cards import nameless
from workloads.errors import BackendError

SMI = """#!/bin/sh
case "$1" in
-L) echo 'GPU 0: A card (UUID: GPU-aaaa)' ;;
*) echo 'GPU-aaaa, 0, Default, A card' ;;
esac
"""


@pytest.fixture
def without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("PRIVBENCH_DEVICE", raising=False)


@pytest.mark.usefixtures("without_gpus")
def test_without_a_card_the_error_states_what_was_found() -> None:
    done = CliRunner().invoke(app.app, ["doctor", "--gpu"])
    assert isinstance(done.exception, BackendError)
    assert "nvidia-smi shows 0" in str(done.exception)


@pytest.mark.slow
@pytest.mark.usefixtures("without_gpus")
def test_a_card_that_torch_does_not_see_fails_and_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    file = tmp_path / "gpu.json"
    done = CliRunner().invoke(app.app, ["doctor", "--gpu", "--quick", "--out", str(file)])
    assert done.exit_code == 1
    document = json.loads(file.read_text())
    assert document["gpus"] == 1 and document["cards"] == [{"model": "A card", "exclusive": False}]
    (finding,) = document["findings"]
    assert finding["state"] == "failed"
    assert "torch sees no GPU here" in finding["message"]


def test_a_shared_report_identifies_no_machine() -> None:
    figures = {"gpu_uuid": "GPU-aaaa", "error": 0.1}
    here = str(Path(__file__).resolve().parents[3])
    finding = {"number": 1, "message": None, "traceback": f"{here}/methods/sgd.py", "figures": figures}
    (sent,) = nameless({"findings": [finding]})["findings"]
    assert sent["figures"] == {"error": 0.1}
    assert sent["traceback"] == "PRIVBENCH/methods/sgd.py"
