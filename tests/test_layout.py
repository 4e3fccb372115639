"""The layout of the packages: what a reader who lists a folder may rely on."""

from collections import defaultdict
from pathlib import Path

import methods

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("harness", "methods", "workloads", "db", "privbench")
ROOMS = {"gradients", "mechanisms", "training"}
"""What methods share."""
MOST_MODULES = 21
ONE_MEANING = {
    "__init__",
    "__main__",
    "backend",  # in the folder of each backend
    "base",  # the protocols of a family
    "bench",  # the command, and the task on a node
    "errors",
    "image",  # the command, and what it does with Docker
    "profile",  # how profiles are read, and SLURM's own
}
"""Module names that several folders share because they mean the same."""


def modules(folder: Path) -> list[Path]:
    """The modules directly in a folder."""
    return sorted(folder.glob("*.py"))


def folders() -> list[Path]:
    """Every folder of the packages that holds modules."""
    found = [each for name in PACKAGES for each in (ROOT / name).rglob("*") if each.is_dir()]
    return [each for each in [*(ROOT / name for name in PACKAGES), *found] if modules(each)]


def test_methods_lists_the_methods_and_three_rooms() -> None:
    shared = ROOMS | {"base", "search", "__init__"}
    expected = {name.replace("-", "_") for name in methods.family.names()} | shared
    found = {each.stem for each in (ROOT / "methods").iterdir() if each.name != "__pycache__"}
    strays = found - expected
    assert not strays, (
        f"neither a method nor a known folder: {sorted(strays)}; helpers belong to their method"
    )


def test_harness_has_three_modules_of_its_own() -> None:
    assert {each.stem for each in modules(ROOT / "harness")} == {"__init__", "spec", "enqueue", "job"}


def test_no_folder_is_crowded() -> None:
    crowded = {str(each.relative_to(ROOT)): len(modules(each)) for each in folders()}
    assert {name: count for name, count in crowded.items() if count > MOST_MODULES + 1} == {}


def test_a_name_has_one_meaning() -> None:
    homes = defaultdict(list)
    for folder in folders():
        for module in modules(folder):
            homes[module.stem].append(str(module.relative_to(ROOT)))
    twice = {name: files for name, files in homes.items() if len(files) > 1 and name not in ONE_MEANING}
    assert twice == {}


def test_tests_mirror_the_tree() -> None:
    """Every folder of tests below a package's name exists in the package."""
    named = {"harness", "methods", "workloads", "db", "privbench"}
    special = {"cluster", "containers"}  # on a real cluster, in real containers
    for package in named & {each.name for each in (ROOT / "tests").iterdir()}:
        for folder in (ROOT / "tests" / package).rglob("*"):
            inside = folder.relative_to(ROOT / "tests")
            if folder.is_dir() and folder.name not in {"__pycache__", *special}:
                assert (ROOT / inside).is_dir() or (ROOT / f"{inside}.py").is_file(), inside
