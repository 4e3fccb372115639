"""Kept answers about a workload: valid until its code, its data or where they are change."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.plan.changes import reads
from harness.plan.changes.kept import kept_for

WORKLOAD = """
import os
from functools import cache
from pathlib import Path
{extra}

@cache
def rows():
    return Path(os.environ["LAB_DATA"], "rows.txt").read_text().split()

def listed():
    return sorted(file.name for file in Path(os.environ["LAB_DATA"]).iterdir())
"""
ASK = """
import sys
from harness.plan.changes import reads
from harness.plan.changes.kept import kept_for
def compute():
    print("computed")
    import labkept.heart
    return {answer}
for question in ("rows", "again"):
    print(kept_for("labheart", question, compute))
"""


class Lab:
    """A plug-in with data; asked in processes of their own, as `plan` is."""

    def __init__(self, home: Path) -> None:
        self.home, self.data = home, home / "data"
        self.data.mkdir()
        self.write("labkept-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: labkept\nVersion: 1\n")
        points = "[privbench.workloads]\nlabheart = labkept.heart:heart\n"
        self.write("labkept-1.dist-info/entry_points.txt", points)
        self.write("labkept/__init__.py", "")
        self.write("labkept/heart.py", WORKLOAD.format(extra=""))
        self.write("data/rows.txt", "a b c")

    def write(self, name: str, content: str) -> None:
        (self.home / name).parent.mkdir(exist_ok=True)
        (self.home / name).write_text(content)

    def ask(self, answer: str = "labkept.heart.rows()", **environment: str) -> tuple[int, str]:
        """How often it was computed for two questions, and the last answer."""
        given = os.environ | {
            "PYTHONPATH": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "LAB_DATA": str(self.data),
        }
        command = [sys.executable, "-c", ASK.format(answer=answer)]
        done = subprocess.run(
            command, env=given | environment, capture_output=True, text=True, check=True, cwd=self.home
        )
        lines = done.stdout.splitlines()
        return lines.count("computed"), lines[-1]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_an_answer_is_kept_for_other_processes(lab: Lab) -> None:
    assert lab.ask() == (2, "['a', 'b', 'c']")
    assert lab.ask() == (0, "['a', 'b', 'c']")


def data_of_equal_size(lab: Lab) -> None:
    lab.write("data/rows.txt", "a b d")


def touched(lab: Lab) -> None:
    os.utime(lab.data / "rows.txt")


def replaced(lab: Lab) -> None:
    state = (lab.data / "rows.txt").stat()
    lab.write("data/other.txt", "x y z")
    os.utime(lab.data / "other.txt", ns=(state.st_atime_ns, state.st_mtime_ns))
    (lab.data / "other.txt").replace(lab.data / "rows.txt")


def code(lab: Lab) -> None:
    lab.write("labkept/heart.py", WORKLOAD.format(extra="x = 1"))


@pytest.mark.slow
@pytest.mark.parametrize("change", [data_of_equal_size, touched, replaced, code])
def test_a_change_computes_it_anew(lab: Lab, change: Callable[[Lab], None]) -> None:
    """Also the second question's, whose data were in memory when it was asked."""
    lab.ask()
    change(lab)
    computed, last = lab.ask()
    assert computed == 2
    assert last == str((lab.data / "rows.txt").read_text().split())


@pytest.mark.slow
def test_comments_and_docstrings_change_nothing(lab: Lab) -> None:
    lab.ask()
    lab.write("labkept/heart.py", WORKLOAD.format(extra='# a comment\n"""A docstring."""'))
    assert lab.ask()[0] == 0


@pytest.mark.slow
def test_a_file_that_joins_a_listed_folder(lab: Lab) -> None:
    lab.ask("labkept.heart.listed()")
    lab.write("data/more.txt", "")
    assert lab.ask("labkept.heart.listed()") == (2, "['more.txt', 'rows.txt']")


@pytest.mark.slow
def test_a_variable_that_the_code_names(lab: Lab) -> None:
    lab.ask()
    other = lab.home / "elsewhere"
    other.mkdir()
    (other / "rows.txt").write_text("q")
    assert lab.ask(LAB_DATA=str(other)) == (2, "['q']")


@pytest.mark.slow
def test_a_relative_path_holds_in_its_folder_only(lab: Lab) -> None:
    assert lab.ask(LAB_DATA="data")[0] == 2
    assert lab.ask(LAB_DATA="data")[0] == 0
    (lab.home / "below/data").mkdir(parents=True)
    (lab.home / "below/data/rows.txt").write_text("z")
    lab.home, home = lab.home / "below", lab.home
    environment = {"PYTHONPATH": str(home), "XDG_CACHE_HOME": str(home / "cache"), "LAB_DATA": "data"}
    assert lab.ask(**environment) == (2, "['z']")


@pytest.mark.slow
@pytest.mark.parametrize(
    "extra",
    [
        "import h5py",
        "def load(): return pandas.read_parquet('x')",
        "from pyarrow import parquet",
        "import tables",
    ],
)
def test_what_native_code_reads_is_not_kept(lab: Lab, extra: str) -> None:
    lab.write("labkept/heart.py", WORKLOAD.format(extra=f"def late():\n    {extra}"))
    lab.ask()
    assert lab.ask()[0] == 2


@pytest.mark.slow
def test_a_module_of_ones_own_called_tables_is_kept(lab: Lab) -> None:
    lab.write("labkept/tables.py", "rows = []")
    lab.write("labkept/heart.py", WORKLOAD.format(extra="from .tables import rows as tables"))
    lab.ask()
    assert lab.ask()[0] == 0


@pytest.mark.slow
def test_data_of_another_process_are_not_kept(lab: Lab) -> None:
    asked = "__import__('subprocess').run(['true']) and 1"
    lab.ask(asked)
    assert lab.ask(asked)[0] == 2


def test_a_failure_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(reads, "_projects", {})  # other tests of this process may have read from elsewhere
    calls = []

    def compute() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("no data yet")
        return 7

    with pytest.raises(OSError, match="no data yet"):
        kept_for("digits-mlp", "test", compute)
    assert kept_for("digits-mlp", "test", compute) == 7
    assert kept_for("digits-mlp", "test", compute) == 7
    assert len(calls) == 2
