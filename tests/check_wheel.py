"""Build the wheel, install it in a clean environment, and use it from an empty folder.

And from one that has packages of our names.

Run by `make wheel`. The clean environment borrows the installed dependencies of this one (a `.pth`
file) instead of downloading torch again; the checkout itself is not on its path.
"""

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = {"db", "harness", "methods", "privbench", "workloads"}
CHECK = """
import importlib.metadata, pathlib, sys
import harness, methods, privbench, workloads, db
for package in (harness, methods, privbench, workloads, db):
    assert pathlib.Path(package.__file__).is_relative_to(sys.prefix), package.__file__
from harness.plan.sweep_file import ready_made
from harness.cli.members import listing, page
assert "quickstart" in ready_made()
assert page("workload", "digits-mlp")["recipe"], "the recipes are missing from the wheel"
assert db.view_names(), "views.sql is missing from the wheel"
from harness.papers.published_tables import published
assert published(), "the published numbers are missing from the wheel"
from harness.report.page.html import PLOTLY
code = pathlib.Path(harness.__file__).parent / "report" / "page" / PLOTLY
assert code.is_file(), "plotly.js is missing from the wheel"
assert list(code.parent.glob("*LICENSE*")), "the licence of plotly.js is missing from the wheel"
assert (pathlib.Path(privbench.__file__).parent / "py.typed").is_file(), "the door is not typed"
assert page("workload", "digits-mlp")["pool"] == 1437, "the manifest is missing from the wheel"
assert {row["name"] for row in listing("attacks")} >= {"loss", "lira"}
assert "torch" not in sys.modules, "listing members of the wheel loads torch: the manifest is not used"
assert {row["name"] for row in listing("methods")} >= {"sgd", "dp-sgd"}
"""


def run(*command: str | Path, cwd: Path) -> str:
    """The command's output; its error output is shown if it fails."""
    done = subprocess.run(
        [str(each) for each in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Exit with a message at the first thing that is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "source").mkdir()
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        # Built from a copy: setuptools leaves build/ behind, with files that were deleted since.
        for each in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / each, folder / "source" / each)
        for each in OURS:
            shutil.copytree(ROOT / each, folder / "source" / each)
        run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, folder / "source", cwd=folder)
        (wheel,) = folder.glob("*.whl")
        top = {each.split("/")[0] for each in zipfile.ZipFile(wheel).namelist()}
        strangers = {each for each in top if not each.endswith(".dist-info")} - OURS
        if strangers:
            sys.exit(f"the wheel installs {sorted(strangers)} at top level; only {sorted(OURS)} are ours")
        venv.create(folder / "clean", with_pip=True)
        python = folder / "clean" / "bin" / "python"
        run(python, "-m", "pip", "--quiet", "install", "--no-deps", wheel, cwd=folder)
        purelib = Path(
            run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
        )
        borrowed = Path(sysconfig.get_path("purelib"))
        # addsitedir would also run this environment's own .pth files, and so find the checkout.
        (purelib / "borrowed.pth").write_text(f"{borrowed}\n")
        run(python, "-c", CHECK, cwd=folder)
        program = folder / "clean" / "bin" / "privbench"
        shadows = folder / "shadows"
        for each in OURS:
            (shadows / each).mkdir(parents=True)
            (shadows / each / "__init__.py").write_text(f"raise ImportError('the {each} of the user')")
        options = ("--workload", "digits-linear", "--method", "sgd", "--models", "3", "--set", "steps=20")
        run(program, "run", *options, "--attack", "loss", "--store", folder / "store", cwd=shadows)
        listed = run(program, "list", "sweeps", "--json", cwd=folder)
        if "quickstart" not in listed:
            sys.exit(f"the installed program does not list its sweeps: {listed}")
        sys.stdout.write(f"{wheel.name} installs and runs in a clean environment\n")


if __name__ == "__main__":
    main()
