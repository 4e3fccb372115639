"""No backend is known by name outside its folder: a fourth one is one folder."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness.backends
from harness.backends import DEFAULT, family

HARNESS = Path(harness.backends.__file__).parents[1]
BACKENDS = HARNESS / "backends"
NAMES = sorted(each.name for each in BACKENDS.iterdir() if each.name in family.names())
IMAGES = HARNESS / "cli" / "image.py"
"""`privbench image` builds the images of one backend and is named after what it does."""


def modules() -> Iterator[tuple[Path, ast.Module, str]]:
    """Every module of the harness."""
    for file in sorted(HARNESS.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        yield file, ast.parse(text), text


def imported(tree: ast.Module) -> Iterator[str]:
    """The full names of what a module imports, lazily or not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_project_s_own_are_folders() -> None:
    assert NAMES == ["docker", "local", "slurm"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_backend_is_imported_by_its_own_folder_alone(name: str) -> None:
    users = {
        file
        for file, tree, _ in modules()
        for each in imported(tree)
        if f"{each}.".startswith(f"harness.backends.{name}.") and BACKENDS / name not in file.parents
    }
    assert users - {IMAGES} == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_backend_is_named_by_its_own_folder_alone(name: str) -> None:
    """As a string, except for the default, which is named once."""
    users = {
        (file.relative_to(HARNESS).as_posix(), node.lineno)
        for file, tree, _ in modules()
        if BACKENDS / name not in file.parents
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == name
    }
    allowed = {"backends/__init__.py"} if name == DEFAULT else set()
    assert {file for file, _ in users} == allowed
    assert len(users) == len(allowed)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["slurm", "docker", "submitit", "sbatch", "squeue"])
def test_no_scheduler_or_engine_is_mentioned_elsewhere(word: str) -> None:
    """In no text, comment or variable of the environment."""
    owners = [BACKENDS / name for name in NAMES]
    users = {
        str(file)
        for file, _, text in modules()
        if re.search(word, text, re.IGNORECASE) and not {*owners} & {*file.parents}
    }
    assert users - {str(IMAGES)} == set()
