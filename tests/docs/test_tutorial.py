"""docs/tutorial.md, followed as a reader would: every file written, every command run in order."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

Blocks = list[tuple[str, str, str, str]]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tutorial")]

PROGRAMS = {"python": [sys.executable], "privbench": [sys.executable, "-m", "harness.cli"]}
NOT_RUN = ("make", "source", "pip")
"""The environment that the tests run in has what these make."""


def run(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def study(own_data: Path, environment: dict[str, str], blocks: Blocks) -> tuple[Path, dict[str, str]]:
    """The reader's folder after the last command, with half of the models, and the environment for more."""
    sweep = (own_data / "sweep.toml").read_text(encoding="utf-8")
    assert "models = 8" in sweep
    (own_data / "sweep.toml").write_text(sweep.replace("models = 8", "models = 4"), encoding="utf-8")
    path = os.pathsep.join([str(own_data), environment["PYTHONPATH"]])
    here = environment | {"PYTHONPATH": path, "COLUMNS": "100"}
    lines = [
        shlex.split(line)
        for page, language, _, text in blocks
        if (page, language) == ("docs/tutorial.md", "sh")
        for line in text.splitlines()
    ]
    assert {words[0] for words in lines} == {*PROGRAMS, *NOT_RUN}
    for first, *rest in lines:
        if first in PROGRAMS:
            run([*PROGRAMS[first], *rest], own_data, here)
    return own_data, here


def test_the_figure_and_the_page_are_there(study: tuple[Path, dict[str, str]]) -> None:
    folder, _ = study
    assert (folder / "figures/frontier.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "privbench-store/reports/index.html").is_file()


def test_it_shows_what_the_page_states(study: tuple[Path, dict[str, str]]) -> None:
    folder, here = study
    sql = "select label, auc_low, tpr_at_1pct, epsilon, valid from frontier where attack = 'strongest'"
    rows = json.loads(run([*PROGRAMS["privbench"], "query", sql, "--format", "json"], folder, here))
    assert {row["label"] for row in rows} == {"sgd", "dp-sgd ε=1", "dp-sgd ε=8"}
    assert all(row["valid"] and row["tpr_at_1pct"] is not None for row in rows)
    assert next(row["auc_low"] for row in rows if row["label"] == "sgd") > 0.5, "sgd memorises coin tosses"
