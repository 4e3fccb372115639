"""The documentation as data, and the guides' examples as plug-ins of other packages that really run."""

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from tests.harness.audit.conftest import simulate

ROOT = Path(__file__).resolve().parents[2]

Pages = dict[str, str]
"""Path inside the project to text."""
Blocks = list[tuple[str, str, str, str]]
"""(page, language, file name or empty, text) of every fenced block."""

FENCE = re.compile(r"^( *)```(\w*) ?([\w./-]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
"""In lists, too, where blocks are indented."""

GUIDES = (
    "docs/add-a-method.md",
    "docs/add-a-workload.md",
    "docs/add-an-attack.md",
    "docs/add-a-backend.md",
)

# All guides that add to a sweep at once: one process loads torch, not three.
SWEEP = """
name = "examples"
models = 3
attacks = ["calibrated-margin", { attack = "calibrated-margin", references = "others" }]
[[grid]]
workload = "breast-cancer"
method = "sgd"
[[grid]]
workload = "digits-linear"
method = "sgd"
steps = 60
[[grid]]
workload = "digits-linear"
method = "noisy-sgd"
steps = 60
[[grid]]
workload = "digits-linear"
method = "dp-gd"
epsilon = 8
steps = 30
"""


@pytest.fixture(scope="session")
def root() -> Path:
    """The project."""
    return ROOT


@pytest.fixture(scope="session")
def pages() -> Pages:
    """Every page of the documentation."""
    files = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


@pytest.fixture(scope="session")
def blocks(pages: Pages) -> Blocks:
    """Every fenced block of every page."""
    return [
        (page, language, file, textwrap.dedent(block))
        for page, text in pages.items()
        for _, language, file, block in FENCE.findall(text)
    ]


@pytest.fixture(scope="session")
def plugins(blocks: Blocks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as pip would fill it: each guide's files as the package its own pyproject.toml describes."""
    site = tmp_path_factory.mktemp("site")
    for page in GUIDES:
        files = {file: text for where, _, file, text in blocks if where == page and file}
        name = describe(site, files.pop("pyproject.toml"))
        write_files(site / name, files)
        (site / name / "__init__.py").touch()
    return site


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write blocks under the file names on the page."""
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")


def describe(site: Path, pyproject: str) -> str:
    """Write the metadata that pip would write for a project; return the name of its package."""
    project = tomllib.loads(pyproject)["project"]
    name = str(project["name"]).replace("-", "_")
    info = site / f"{name}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{point} = {value}" for point, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return name


@pytest.fixture(scope="session")
def own_data(blocks: Blocks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder with every file of the tutorial, installed as `pip install --editable` would."""
    folder = tmp_path_factory.mktemp("tutorial")
    files = {file: text for page, _, file, text in blocks if page == "docs/tutorial.md" and file}
    write_files(folder, files)
    describe(folder, files["pyproject.toml"])
    return folder


@pytest.fixture(scope="session")
def environment(plugins: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a process that finds the plug-ins."""
    path = os.pathsep.join(filter(None, [str(plugins), str(ROOT), os.environ.get("PYTHONPATH")]))
    cache = str(tmp_path_factory.getbasetemp() / "cache")
    return {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": cache, "COLUMNS": "200"}


@pytest.fixture(scope="session")
def store(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store after `privbench run` of a sweep that uses every example."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "examples.toml").write_text(SWEEP, encoding="utf-8")
    arguments = ["run", "examples.toml", "--store", "store", "--slots", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "store"


def write_outputs(folder: Path) -> None:
    """What a reader of docs/audit-a-model.md has: outputs as arrays and as a table, and Opacus's history."""
    members, others = simulate(1000, 1000, shadows=3)
    for name, arrays in (("members", members), ("others", others)):
        np.savez(folder / f"{name}.npz", **arrays)
    labels, logits = (np.concatenate([members[name], others[name]]) for name in ("labels", "logits"))
    columns = {f"logit_{place}": each for place, each in enumerate(logits.T)}
    columns |= {"label": labels, "member": (np.arange(2000) < 1000).astype(int)}
    csv.write_csv(pa.table(columns), folder / "outputs.csv")
    (folder / "history.json").write_text(
        '{"history": [[1.1, 0.05, 40]], "mechanism": "rdp"}', encoding="utf-8"
    )
