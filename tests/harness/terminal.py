"""Commands in processes of their own, which report what they loaded; and a plug-in for them to find."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAVY = ("torch", "opacus", "dp_accounting", "sklearn", "scipy.stats", "sqlalchemy", "pandas")
"""Packages that take half a second or more to import."""
REPORT = f"""
import json, sys
from harness.cli.app import main
sys.argv = ["privbench", *sys.argv[1:]]
try:
    main()
    code = 0
except SystemExit as ended:
    code = ended.code
loaded = [each for each in {HEAVY!r} if each in sys.modules]
print(json.dumps({{"code": code or 0, "loaded": loaded, "plugin": "own_plugin.members" in sys.modules}}))
"""
MEMBERS = '''"""A workload of a file's rows, and a method."""

from dataclasses import dataclass
from pathlib import Path

import torch

from methods.sgd import Sgd
from privbench import Records, mlp

ROWS = len((Path(__file__).parent / "rows.csv").read_text().splitlines())


@dataclass(frozen=True)
class Own:
    name: str = "own-data"
    version: str = "1"
    about: str = "rows of a file"
    source: str = "ours"
    classes: int = 2
    n_train: int = ROWS // 2

    def pool(self) -> Records:
        return Records(torch.zeros(ROWS, 4), torch.zeros(ROWS, dtype=torch.int64))

    def test(self) -> Records:
        return Records(torch.zeros(6, 4), torch.zeros(6, dtype=torch.int64))

    def model(self, seed: int) -> torch.nn.Module:
        return mlp((4, 2), seed)


class OwnMethod(Sgd):
    version = "1"
    about = "plain steps"


workload = Own()
method = OwnMethod()
'''
RECIPE = """
[default]
steps = { value = 3, source = "ours" }
batch_size = { value = 5, source = "ours" }
"""
SWEEP = """
name = "small"
models = 2
attacks = ["loss"]
[[grid]]
workload = "digits-linear"
method = "dp-sgd"
epsilon = 8
steps = 3
"""
"""A sweep of seconds: one private cell, two models, one attack and what runs beside it."""
ENTRY_POINTS = """
[privbench.workloads]
own-data = own_plugin.members:workload
[privbench.methods]
own-method = own_plugin.members:method
"""


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    output: str
    errors: str
    code: int
    loaded: list[str]
    """Heavy packages that it loaded."""
    plugin: bool
    """Whether it loaded the plug-in."""

    @property
    def json(self) -> Any:
        return json.loads(self.output)


@dataclass(frozen=True)
class Terminal:
    """Runs commands in a folder with a cache of its own."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def __call__(self, *words: str) -> Ended:
        here = {"XDG_CACHE_HOME": str(self.folder / "cache"), **self.variables}
        done = subprocess.run(
            [sys.executable, "-c", REPORT, *words],
            cwd=self.folder,
            env=os.environ | here,
            capture_output=True,
            text=True,
            check=False,
        )
        *shown, report = done.stdout.splitlines() or [""]
        assert report, done.stderr
        found = json.loads(report)
        return Ended("\n".join(shown), done.stderr, found["code"], found["loaded"], found["plugin"])

    def beside(self, package: Path) -> "Terminal":
        """The same, with a plug-in on the path."""
        path = [str(package.parent), os.environ.get("PYTHONPATH", "")]
        return Terminal(self.folder, self.variables | {"PYTHONPATH": os.pathsep.join(filter(None, path))})


def write_plugin(folder: Path) -> Path:
    """Write the plug-in's package below a folder, as pip would install it."""
    package = folder / "own_plugin"
    (package / "recipes").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "members.py").write_text(MEMBERS, encoding="utf-8")
    (package / "rows.csv").write_text("0,0\n" * 40, encoding="utf-8")
    (package / "recipes" / "own-data.toml").write_text(RECIPE, encoding="utf-8")
    info = folder / "own_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-plugin\nVersion: 1\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    return package
