"""examples/slurm: the profile is one, and the sweep plans."""

from pathlib import Path

import pytest

from harness.backends.profile import read_as
from harness.backends.slurm.profile import Profile
from harness.plan.plan import make_plan
from harness.plan.sweep_file import find_sweep, read_sweep

FOLDER = Path(__file__).resolve().parents[2] / "examples/slurm"


def test_the_profile_is_right() -> None:
    profile = read_as(Profile, FOLDER / "profile.toml")
    assert (profile.gpus, profile.for_attacks.gpus) == (1, 0)


@pytest.mark.slow
def test_the_sweep_plans_without_its_data(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    plan = make_plan(*read_sweep(*find_sweep(str(FOLDER / "sweep.toml"))), None)
    assert [cell.method.name for cell in plan.cells] == ["sgd", "selena", *["dp-sgd"] * 5]
    assert "7 cells of 16 models" in (FOLDER / "sweep.toml").read_text(encoding="utf-8")
