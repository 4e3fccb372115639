"""Every block of every page is run by a test, or says what it needs that not every machine has."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from methods import family
from tests.docs.conftest import describe, write_files, write_outputs
from workloads.recipe import Recipe

Pages = dict[str, str]
Blocks = list[tuple[str, str, str, str]]

RUN_ELSEWHERE = {
    ("docs/tutorial.md", "sh"): "test_tutorial.py",
    ("docs/tutorial.md", "python"): "test_tutorial.py",
    ("docs/tutorial.md", "toml"): "test_tutorial.py",
    ("docs/querying.md", "sql"): "test_querying.py",
    ("docs/notebook.md", "python"): "test_querying.py",
    ("docs/audit-a-model.md", "python"): "test_audit_guide.py",
    ("docs/add-a-backend.md", "python"): "test_backend_guide.py",
    ("docs/add-a-method.md", "python"): "test_examples.py",
    ("docs/add-a-workload.md", "python"): "test_examples.py",
    ("docs/add-an-attack.md", "python"): "test_examples.py",
    ("docs/audit-a-training.md", "python"): "test_training_page.py",
    ("docs/audit-a-training.md", "sh"): "test_training_page.py",
    ("docs/results/reproduction.md", "sh"): "tests/campaigns/reproduction",
    ("README.md", "python"): "test_pages.py",
}
"""Page and language to the test that runs its blocks; test_pages.py plans sweeps, and shell is run here."""
FRAGMENTS = {"docs/add-a-method.md", "docs/add-an-attack.md"}
"""Pages with a piece of a recipe or sweep, which is completed here."""
PRINTED = {"", "text"}
"""Languages of what a program printed, and of drawings."""
INSTALLS = ("pip install",)
"""The fixtures install what these would."""
OF_BACKENDS = {"--backend", "--profile", "--slots", "--threads", "--timeout", "--store"}
"""Options of `run` and `enqueue` with a value that `plan` lacks, or that name somebody's folder."""

# Into a file, a line for a line, because workers print, too; all in one process, because torch takes seconds
# to load.
RUNNER = """
import json, sys, time
from typer.testing import CliRunner
from harness.cli import app
with open(sys.argv[1], "w", encoding="utf-8") as out:
    for line in sys.stdin:
        began = time.perf_counter()
        done = CliRunner().invoke(app.app, json.loads(line))
        seconds = time.perf_counter() - began
        print(json.dumps([done.exit_code, f"{seconds:.1f} s\\n{done.output}{done.exception!r}"]), file=out)
"""


def lines(blocks: Blocks) -> list[tuple[str, str]]:
    """(page, line) of every shell block that is run here."""
    return [
        (page, line)
        for page, language, note, text in blocks
        if language == "sh" and not note.startswith("needs-") and (page, language) not in RUN_ELSEWHERE
        for line in text.splitlines()
        if not line.startswith(INSTALLS)
    ]


def as_run(line: str, task: str) -> list[str]:
    """The arguments that stand for a line: trainings are planned, and the page's names are the store's."""
    verb, *words = shlex.split(line, comments=True)[1:]
    if verb == "tune":
        return ["tune", *words, *([] if "--budget-epsilon" in words else ["--dry"])]
    if verb in ("run", "enqueue", "quickstart"):
        kept = [word for word, before in zip(words, ["", *words], strict=False) if before not in OF_BACKENDS]
        words = [word for word in kept if word not in OF_BACKENDS]
        return ["plan", *words, "--no-probe"] if verb != "quickstart" else ["plan", verb, "--no-probe"]
    stands = {"quickstart": "examples", "NAME": "examples", "DIR": "privbench-store", "3fa94c": task}
    stands |= {"first-store": "privbench-store", "workload = 'digits-mlp'": "workload = 'digits-linear'"}
    probe = [] if "--cluster" in words else ["--no-probe"]  # a schedule needs times
    more = {"plan": probe, "bench": ["--seconds", "0.1"], "purge": ["--dry-run"]}
    words = words if verb == "plan" else [stands.get(word, word) for word in words]
    return [verb, *words, *more.get(verb, [])]


def unrun(blocks: Blocks) -> list[tuple[str, str, str]]:
    """(page, language, first line) of blocks that no test runs and that are not marked."""
    return [
        (page, language, text.partition("\n")[0])
        for page, language, note, text in blocks
        if language not in PRINTED
        and not note.startswith("needs-")
        and (page, language) not in RUN_ELSEWHERE
        and not (
            language == "toml" and (note or "[[grid]]" in text or "[[bench]]" in text or page in FRAGMENTS)
        )
        and not (
            language == "sh" and all(each.startswith(("privbench ", *INSTALLS)) for each in text.splitlines())
        )
    ]


def test_no_block_is_neither_run_nor_marked(blocks: Blocks) -> None:
    assert unrun(blocks) == []
    assert {
        place for place in RUN_ELSEWHERE if place not in {(page, kind) for page, kind, *_ in blocks}
    } == set()


@pytest.mark.parametrize(
    ("language", "text"),
    [("sh", "make test\n"), ("python", "1\n"), ("sql", "select 1\n"), ("toml", "a = 1\n")],
)
def test_a_block_that_nobody_runs_is_found(language: str, text: str) -> None:
    page = "docs/new.md"
    assert unrun([(page, language, "", text)]) == [(page, language, text.rstrip())]
    assert unrun([(page, language, "needs-gpu", text)]) == []


def test_the_recipes_of_the_guide_are_valid(blocks: Blocks) -> None:
    settings, search = (
        Recipe.model_validate(tomllib.loads(text))
        for page, language, note, text in blocks
        if (page, language, note) == ("docs/add-a-method.md", "toml", "")
    )
    given = settings.settings("noisy-sgd", {"learning_rate", "noise"})
    assert given.keys() == {"learning_rate", "noise"}
    assert search.search.keys() == {"epochs", "noisy-sgd"}
    assert "learning_rate" in family.get("sgd").Params.model_fields


@pytest.fixture(scope="module")
def folder(store: Path, blocks: Blocks, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader stands: a store, the project's files, a sweep, and the README's own data installed."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(store, folder / "privbench-store")
    for name in ("examples", "slurm"):
        (folder / name).symlink_to(root / name)
    files = {
        file: text
        for page, _, file, text in blocks
        if page == "README.md" and file.endswith((".py", ".toml"))
    }
    write_files(folder, {"my_data.py": files["my_data.py"].replace("/data/", f"{folder}/")})
    describe(folder, files["pyproject.toml"])
    describe(folder, (root / "examples/plugin/pyproject.toml").read_text(encoding="utf-8"))
    rows = np.hstack([np.random.default_rng(0).normal(size=(800, 12)), np.arange(800)[:, None] % 2])
    for name in ("pool.csv", "test.csv"):
        np.savetxt(folder / name, rows, delimiter=",")
    (sweep,) = (text for page, *kind, text in blocks if [page, *kind] == ["README.md", "toml", ""])
    (attacks,) = (
        text for page, *kind, text in blocks if [page, *kind] == ["docs/add-an-attack.md", "toml", ""]
    )
    write_outputs(folder)
    grid = '[[grid]]\nworkload = "digits-linear"\nmethod = "sgd"\n'
    write_files(folder, {"sweep.toml": sweep, "attacks.toml": f'name = "attacks"\n{attacks}{grid}'})
    return folder


@pytest.fixture(scope="module")
def reader(folder: Path, root: Path, environment: dict[str, str]) -> dict[str, str]:
    """The environment of a reader's processes."""
    path = [str(folder), str(root / "examples/plugin"), environment["PYTHONPATH"]]
    return environment | {"PYTHONPATH": os.pathsep.join(path)}


@pytest.mark.slow
@pytest.mark.xdist_group("docs")
def test_every_command_runs(folder: Path, reader: dict[str, str], blocks: Blocks) -> None:
    task = next(iter((folder / "privbench-store/tasks").glob("*/*"))).name
    found = [(page, line) for page, line in lines(blocks) if not line.startswith("privbench serve")]
    found.append(("docs/add-an-attack.md", "privbench plan attacks.toml"))
    answers = folder / "answers.jsonl"
    subprocess.run(
        [sys.executable, "-c", RUNNER, str(answers)],
        input="".join(f"{json.dumps(as_run(line, task))}\n" for _, line in found),
        cwd=folder,
        env=reader,
        capture_output=True,
        text=True,
        check=True,
    )
    done = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    wrong = [
        f"{page}: {line}\n{output}"
        for (page, line), (code, output) in zip(found, done, strict=True)
        if code != 0
    ]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.xdist_group("docs")
def test_every_server_serves_until_it_is_interrupted(
    folder: Path, reader: dict[str, str], blocks: Blocks
) -> None:
    served = {line for _, line in lines(blocks) if line.startswith("privbench serve")}
    assert len(served) >= 3
    for line in sorted(served):
        words = [sys.executable, "-m", "harness.cli", *as_run(line, ""), "--port", "0"]
        with subprocess.Popen(words, cwd=folder, env=reader, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            printed = iter(server.stdout.readline, "")
            address = next(filter(None, (re.search(r"http://[^/]+(:\d+/\S*)", each) for each in printed)))
            with urlopen(f"http://127.0.0.1{address[1]}") as page:
                assert page.status == 200, line
            server.send_signal(signal.SIGINT)
        assert server.returncode == 0, line
