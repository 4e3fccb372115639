"""Fingerprints of source code: what counts, what does not, and that nothing is imported."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import methods
import workloads
from harness import attacks
from workloads.fingerprint import (
    in_checkout,
    member_module,
    own_fingerprint,
    source_fingerprint,
    walk,
)

Project = Callable[[dict[str, str]], Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Writes files to a folder on the path."""
    home = tmp_path / "project"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(home)

    def write(files: dict[str, str]) -> Path:
        for name, content in files.items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        return home

    return write


def digest(module: str = "labplugin.heart") -> str:
    return source_fingerprint(module).digest


BEFORE = '''"""Heart disease."""

WIDTH = 16  # units


class Heart:
    """A workload."""

    classes = 2
    """Healthy or ill."""

    def model(self, seed):
        """A network."""
        return f"{WIDTH}{seed:>3} units"
'''
REWORDED = """# a comment
WIDTH = (
    16
)
class Heart:
    classes = 2

    def model(self,
              seed):
        'Another docstring.'
        return f'{WIDTH}{seed:>3}' ' units'  # joined
"""


def test_comments_docstrings_and_formatting_do_not_count(project: Project) -> None:
    project({"labplugin/__init__.py": "", "labplugin/heart.py": BEFORE})
    before = digest()
    project({"labplugin/heart.py": REWORDED})
    assert digest() == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("16", "17"),
        ("16", "16.0"),
        ("classes = 2", "classes = '2'"),
        (":>3}", ":>4}"),
        ("seed):", "seed=0):"),
        ("model", "build"),
        ("return", "return not"),
    ],
)
def test_code_counts(project: Project, old: str, new: str) -> None:
    project({"labplugin/__init__.py": "", "labplugin/heart.py": BEFORE})
    before = digest()
    project({"labplugin/heart.py": BEFORE.replace(old, new)})
    assert digest() != before


def test_a_change_of_equal_size_at_once_counts(project: Project) -> None:
    project({"labplugin/__init__.py": "", "labplugin/heart.py": "A = 1"})
    found = {digest()}
    for value in range(2, 9):
        project({"labplugin/heart.py": f"A = {value}"})
        found.add(digest())
    assert len(found) == 8


def test_what_a_module_imports_from_its_project_counts(project: Project) -> None:
    project(
        {
            "labplugin/__init__.py": "from .top import x",
            "labplugin/top.py": "x = 1",
            "labplugin/heart.py": "import labplugin.nets.wide\nfrom labplugin import names\n"
            "import labsibling\ndef late():\n    from . import tables\n    from .nets.deep import net\n"
            "import importlib\nimportlib.import_module('labplugin.named')\n"
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from labplugin import types\n",
            "labplugin/names.py": "",
            "labplugin/named.py": "",
            "labplugin/nets/__init__.py": "",
            "labplugin/nets/wide.py": "from ..parts import part",
            "labplugin/nets/deep.py": "import torch, numpy",
            "labplugin/parts.py": "from labplugin import heart  # a cycle",
            "labplugin/tables.py": "",
            "labplugin/types.py": "",
            "labplugin/unused.py": "",
            "labsibling/__init__.py": "from labsibling.inner import *",
            "labsibling/inner.py": "",
            "labplugin/data.csv": "1,2",
        }
    )
    inside = ["__init__", "heart", "named", "names", "nets/__init__", "nets/deep", "nets/wide", "parts"]
    expected = [f"labplugin/{each}.py" for each in [*inside, "tables", "top"]]
    assert list(source_fingerprint("labplugin.heart").files) == [
        *expected,
        "labsibling/__init__.py",
        "labsibling/inner.py",
    ]


def test_only_files_that_changed_have_another_digest(project: Project) -> None:
    files = {
        "labplugin/__init__.py": "",
        "labplugin/heart.py": "from .nets import a",
        "labplugin/nets.py": "",
    }
    project(files)
    before = source_fingerprint("labplugin.heart").files
    project({"labplugin/nets.py": "a = 1"})
    after = source_fingerprint("labplugin.heart").files
    assert {file for file in after if after[file] != before[file]} == {"labplugin/nets.py"}


def test_installed_elsewhere_it_is_the_same(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    home = project({"labplugin/__init__.py": "", "labplugin/heart.py": BEFORE, "labplugin/nets.py": "a = 1"})
    before = source_fingerprint("labplugin.heart")
    elsewhere = home.parent / "site-packages"
    home.rename(elsewhere)
    monkeypatch.syspath_prepend(elsewhere)
    assert source_fingerprint("labplugin.heart") == before


def test_a_single_module_counts_its_neighbours_but_not_in_site_packages(project: Project) -> None:
    home = project({"labsingle.py": "import labneighbour, json, torch", "labneighbour.py": ""})
    assert list(source_fingerprint("labsingle").files) == ["labneighbour.py", "labsingle.py"]
    installed = home / "site-packages"
    installed.mkdir()
    for file in home.glob("*.py"):
        file.rename(installed / file.name)
    sys.path.insert(0, str(installed))
    try:
        assert list(source_fingerprint("labsingle").files) == ["labsingle.py"]
    finally:
        sys.path.remove(str(installed))


def test_what_cannot_be_parsed_or_found_is_no_error(project: Project) -> None:
    project(
        {
            "labplugin/__init__.py": "",
            "labplugin/heart.py": "def broken(:",
            "labplugin/deep.py": "1" + "+1" * 9999,
        }
    )
    broken = digest()
    project({"labplugin/heart.py": "def broken(:  # still"})
    assert digest() != broken
    assert len(digest("labplugin.deep")) == len(broken)
    assert source_fingerprint("labplugin.missing").files == {}
    assert source_fingerprint("labmissing.heart").files == {}
    assert source_fingerprint("sys").files == {}


def test_a_plugin_knows_what_it_uses_of_ours(project: Project) -> None:
    project(
        {
            "labplugin/__init__.py": "",
            "labplugin/heart.py": "from privbench import Records, make_optimizer\n"
            "from methods.base import Params",
        }
    )
    walked = walk(["labplugin.heart"])
    assert walked.ours >= {"workloads.base", "methods.training.optimizer", "methods.base"}
    assert set(walked.files) == {"labplugin/__init__.py", "labplugin/heart.py"}


def test_nothing_is_imported_and_no_torch() -> None:
    code = (
        "import sys; from workloads.fingerprint import own_fingerprint, member_module, source_fingerprint\n"
        "own_fingerprint(); member_module('workload', 'cifar10-vit-head')\n"
        "print([name for name in sys.modules if name in ('torch', 'numpy', 'methods', 'workloads.embedded')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_member_is_found_in_its_file() -> None:
    for origin, name, _ in workloads.family._files():
        assert member_module("workload", name) == f"workloads.{Path(origin).stem}"
    for kind, family in (("method", methods.family), ("attack", attacks.family)):
        for name in family.own:
            found = member_module(kind, name)
            assert found is not None
            assert source_fingerprint(found).files
    assert member_module("method", "no-such-method") is None
    assert member_module("workload", "no-such-workload") is None


def test_ours_is_what_decides_numbers() -> None:
    files = set(source_fingerprint("methods.dp_sgd", "harness.jobs.train").files)
    assert files >= {
        "methods/dp_sgd.py",
        "methods/gradients/contributions.py",
        "methods/training/sampling.py",
        "harness/jobs/run.py",
        "harness/plan/canaries.py",
        "harness/accounting/pricing.py",
    }
    rooms = {file.split("/")[1] for file in files if file.startswith("harness/")}
    assert rooms.isdisjoint({"cli", "report", "results", "store", "backends"})
    assert not {file for file in files if file.startswith("methods/pate")}


def test_a_release_is_known_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert in_checkout()
    assert own_fingerprint("methods.sgd").files
    monkeypatch.setattr("workloads.fingerprint.in_checkout", lambda: False)
    release = own_fingerprint("methods.sgd")
    assert release.files == {}
    assert own_fingerprint() == release
    monkeypatch.setattr("workloads.fingerprint.release", lambda: "9.9")
    assert own_fingerprint() != release
