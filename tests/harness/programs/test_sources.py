"""Which files a script needs of its own folder."""

from pathlib import Path

import pytest

from harness.programs.sources import needed_files
from workloads.errors import SpecError


def test_what_it_imports_counts_directly_or_not(tmp_path: Path) -> None:
    files = {
        "train.py": "import numpy\nfrom nets import small\n\ndef train():\n    import late.inside\n",
        "nets.py": "import shared",
        "shared.py": "",
        "late/__init__.py": "from . import beside",
        "late/inside.py": "from .beside import x\nfrom ..shared import y",
        "late/beside.py": "",
        "late/unused.py": "",
        "other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    unused = {"late/unused.py", "other.py"}
    assert {str(file) for file in needed_files(tmp_path, Path("train.py"))} == files.keys() - unused


def test_a_package_on_the_way_counts(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("")
    (tmp_path / "mine/train.py").write_text("")
    assert needed_files(tmp_path, Path("mine/train.py")) == [Path("mine/__init__.py"), Path("mine/train.py")]


def test_a_file_that_is_not_python(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def train(:\n")
    with pytest.raises(SpecError) as refused:
        needed_files(tmp_path, Path("train.py"))
    assert (refused.value.field, refused.value.value) == ("train.py", 1)
