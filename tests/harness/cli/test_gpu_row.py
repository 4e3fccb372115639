"""The GPU row of `privbench doctor`, with a stand-in for nvidia-smi and this machine's torch."""

import os
from pathlib import Path

import pytest
import torch

from harness.cli.doctor import gpu_row

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which torch sees")


@pytest.fixture(autouse=True)
def two_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    lines = "GPU-a, 0, Default, NVIDIA A100\\nGPU-b, 1, Default, NVIDIA A100\\n"
    program.write_text(f"#!/bin/sh\ncase $1 in -L) ;; *) printf '{lines}' ;; esac\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in ("CUDA_VISIBLE_DEVICES", "PRIVBENCH_DEVICE"):
        monkeypatch.delenv(name, raising=False)


def test_a_torch_that_does_not_see_the_driver_s_cards_is_reported() -> None:
    row = gpu_row()
    assert row["state"] == "missing"
    assert row["found"].startswith("nvidia-smi sees 2, torch sees 0: torch ")


def test_cards_that_the_user_hides_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    row = gpu_row()
    assert row["state"] == "good"
    assert row["found"] == "nvidia-smi sees 2, CUDA_VISIBLE_DEVICES allows 0, torch sees 0"


def test_without_cards_there_is_nothing_to_miss(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    assert (gpu_row()["state"], gpu_row()["found"]) == ("not here", "nvidia-smi sees 0, torch sees 0")


def test_a_variable_that_names_no_card_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    row = gpu_row()
    assert row["state"] == "missing"
    assert "'5' names 0 GPUs" in row["found"]
