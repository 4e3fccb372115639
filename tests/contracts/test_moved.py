"""Modules of 0.1 are found under the names they had: plug-ins and job scripts of that time still work."""

import importlib
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from workloads.moved import MOVED

PLUGIN = """
import numpy as np
from dp_accounting import NonPrivateDpEvent
from pydantic import Field

from harness.attacks.base import Attack, Evidence, Floats
from harness.attacks.moments import leave_one_out
from methods.base import Params, Problem, Released, Run
from methods.bounds import Rate
from methods.gradients import make_engine
from methods.optimizer import OptimizerParams, make_optimizer
from methods.sampling import ShuffleSampler
from workloads.base import Records
from workloads.errors import SpecError
from workloads.models.mlp import mlp


class OldParams(OptimizerParams):
    scale: Rate = Field(default=1.0, description="A scale.")


class Old:
    version, about, source, guarantee, caveats = "1", "a method of 0.1", "nobody", "none", ()
    Params = OldParams

    def train(self, members: Records, problem: Problem, params: OldParams, run: Run) -> Released:
        model = problem.model(run.seed("init"))
        optimizer = make_optimizer(model.parameters(), params)
        sampler = ShuffleSampler(len(members), params.batch_size, run.generator("sampling"))
        for _ in run.steps("train", 5, {"model": model, "optimizer": optimizer, "sampler": sampler}):
            batch = members.take(sampler.draw())
            loss = problem.loss(model(batch.x), batch.y).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.observe(loss=float(loss.detach()))
        return Released(model.eval(), NonPrivateDpEvent())


class Margin:
    version, about, source, caveats, shadows = "1", "an attack of 0.1", "nobody", (), 1
    Params = Params

    def scores(self, evidence: Evidence, params: Params) -> Floats:
        return evidence.phi - leave_one_out(evidence.phi, np.ones_like(evidence.members)).mean


method, attack = Old(), Margin()
"""


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_is_the_module_itself_and_names_the_new_one(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=MOVED[old]):
        found = importlib.import_module(old)
    assert found is importlib.import_module(MOVED[old])
    assert found.__spec__ is not None
    assert found.__spec__.name == found.__name__ == MOVED[old]


def test_a_name_that_never_was_is_still_missing() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("methods.nothing_of_that_name")


def test_old_names_of_the_door() -> None:
    import harness

    with (
        pytest.warns(DeprecationWarning, match="privbench.open_store"),
        pytest.raises(Exception, match="store"),
    ):
        harness.open_store("nowhere")


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    ["harness.job", "harness.backends.element", "harness.backends.keeper", "harness.backends.supervisor"],
)
def test_job_scripts_of_01_start(module: str, tmp_path: Path) -> None:
    """Each is started with a missing store and reports it: it was found and ran."""
    command = [sys.executable, "-W", "ignore", "-m", module, str(tmp_path / "none"), "record"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert "No module named" not in done.stderr
    assert "none" in done.stderr or "JSON" in done.stderr, done.stderr


@pytest.mark.slow
def test_a_plug_in_of_01_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old_plugin.py").write_text(PLUGIN)
    info = tmp_path / "old_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: old-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[privbench.methods]\nold = old_plugin:method\n[privbench.attacks]\nold-margin = old_plugin:attack\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    store = ["--store", str(tmp_path / "store")]
    options = ["--workload", "digits-linear", "--method", "old", "--models", "3", "--attack", "old-margin"]
    program = [sys.executable, "-P", "-m", "harness.cli"]
    done = subprocess.run([*program, "run", *options, *store], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = [*program, "query", "select method, attack from frontier", "--format", "json", *store]
    rows = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    assert {"method": "old", "attack": "old-margin"} in rows


def test_nothing_of_ours_imports_by_an_old_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        for name in ("harness.cli.app", "harness.jobs.loop", "methods", "workloads", "harness.report"):
            importlib.import_module(name)
