"""The statements of the pages hold: links, commands, the sweep file, a reader's own data."""

import json
import os
import re
import shlex
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import methods
from harness import attacks
from harness.cli import app
from harness.plan.given_names import OF_THE_CELL
from harness.plan.plan import make_plan
from harness.plan.sweep_file import TOP, read_sweep
from workloads.base import Workload

Pages = dict[str, str]
Blocks = list[tuple[str, str, str, str]]

PLACEHOLDERS = re.compile(r"<\w+>|\bFILE\b|\bNAME\b|\bKEY\b|\bDIR\b")
EXAMPLES = {"METHOD": "sgd", "N": "8", "E": "1", "dp-gd": "dp-sgd"}
"""Placeholders of a synopsis, and methods of a guide, with values for them."""
GUIDES = {
    "docs/add-a-method.md",
    "docs/add-a-workload.md",
    "docs/add-an-attack.md",
    "docs/add-a-backend.md",
}


def commands(pages: Pages, blocks: Blocks) -> list[tuple[str, list[str]]]:
    """(page, arguments) of every `privbench ...` in a shell block or in running text."""
    found = [
        (page, line)
        for page, language, _, text in blocks
        if language == "sh"
        for line in text.splitlines()
        if line.startswith("privbench ")
    ]
    found += [
        (page, line) for page, text in pages.items() for line in re.findall(r"`(privbench [^`]+)`", text)
    ]
    return [(page, shlex.split(line, comments=True)[1:]) for page, line in found]


def parse(arguments: list[str]) -> None:
    """Parse as the program would, without running anything; raises if it would refuse."""
    command: Any = get_command(app.app)
    arguments = [EXAMPLES.get(each, each) for each in arguments]
    name = "privbench"
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(command.context_class(command), arguments)
    command.make_context(name, arguments)


def test_relative_links_lead_somewhere(pages: Pages, root: Path) -> None:
    broken = []
    for page, text in pages.items():
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            target, _, anchor = link.partition("#")
            if "://" in link:
                continue
            file = (root / page).parent / target if target else root / page
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if anchor else []
            anchors = [re.sub(r"[^\w\- ]", "", each).strip().lower().replace(" ", "-") for each in headings]
            if not file.exists() or (anchor and anchor not in anchors):
                broken.append(f"{page}: {link}")
    assert not broken


def test_every_guide_is_reached_from_the_readme(pages: Pages) -> None:
    assert {page for page in pages if page != "README.md" and page in pages["README.md"]} >= (
        GUIDES | {"docs/numbers.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    )


@pytest.mark.slow
def test_every_command_in_the_pages_parses(pages: Pages, blocks: Blocks) -> None:
    found = commands(pages, blocks)
    assert {page for page, _ in found} >= {"README.md", *GUIDES}
    program: Any = get_command(app.app)
    words = {*program.commands, "--help", *(word for each in program.params for word in each.opts)}
    wrong = []
    for page, arguments in found:
        if len(arguments) == 1:  # named in passing, with nothing to parse
            assert arguments[0] in words, (page, arguments)
            continue
        try:
            parse([PLACEHOLDERS.sub("word", each) for each in arguments])
        except Exception as error:  # noqa: BLE001 - whatever the program would complain about
            wrong.append(f"{page}: privbench {shlex.join(arguments)}: {error}")
    assert wrong == []


def test_a_wrong_command_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["run", "--no-such-option"])


def test_the_readme_is_short(pages: Pages, blocks: Blocks) -> None:
    assert len(pages["README.md"].encode()) <= 10_000
    printed = [text for page, language, _, text in blocks if (page, language) == ("README.md", "")]
    assert printed
    assert max(len(line) for text in printed for line in text.splitlines()) <= 100


def test_the_readme_names_every_method_and_attack(pages: Pages) -> None:
    names = {*methods.family.names(), *attacks.family.names()} - {"strongest"}
    assert {name for name in names if f"`{name}`" not in pages["README.md"]} == set()


def test_the_readme_brings_data_of_ones_own(
    blocks: Blocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = [text for page, _, file, text in blocks if (page, file) == ("README.md", "my_data.py")]
    (project,) = [text for page, _, file, text in blocks if (page, file) == ("README.md", "pyproject.toml")]
    points = tomllib.loads(project)["project"]["entry-points"]["privbench.workloads"]
    (tmp_path / "my_data.py").write_text(code.replace("/data/", f"{tmp_path}/"))
    rows = np.hstack([np.random.default_rng(0).normal(size=(50, 12)), np.arange(50)[:, None] % 2])
    for name in ("pool.csv", "test.csv"):
        np.savetxt(tmp_path / name, rows, delimiter=",")
    monkeypatch.syspath_prepend(str(tmp_path))
    (point,) = (EntryPoint(name, value, "privbench.workloads") for name, value in points.items())
    workload: Workload = point.load()
    assert workload.name == point.name
    assert workload.model(0)(workload.pool().x).shape == (50, workload.classes)
    assert workload.test().y.tolist() == [0, 1] * 25


@pytest.mark.slow
def test_the_sweep_of_the_readme_plans_as_stated(
    blocks: Blocks, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    (text,) = [text for page, *kind, text in blocks if [page, *kind] == ["README.md", "toml", ""]]
    plan = make_plan(*read_sweep(tomllib.loads(text), "readme"), None)
    planned = [cell.method.name for cell in plan.cells]
    assert (planned.count("sgd"), planned.count("dp-sgd")) == (2, 6)
    assert len(plan.tasks) == 8 * (8 + 6), "the declared attacks and the blind check always run"


@pytest.mark.slow
def test_the_page_of_the_sweep_file_has_every_key_and_plans(
    pages: Pages, blocks: Blocks, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    page = pages["docs/sweep-file.md"]
    words = {*TOP, *OF_THE_CELL, "zip", "exclude", "workload", "method", "epsilon", "shadows", "measure"}
    assert {word for word in words if not re.search(rf"\b{word}\b", page)} == set()
    (text,) = [
        text for where, language, _, text in blocks if (where, language) == ("docs/sweep-file.md", "toml")
    ]
    plan = make_plan(*read_sweep(tomllib.loads(text), "page"), None)
    planned = [cell.method.name for cell in plan.cells]
    assert (planned.count("sgd"), planned.count("dp-sgd")) == (2, 3)


@pytest.mark.slow
def test_every_sweep_of_the_pages_plans(
    blocks: Blocks, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tutorial's sweep needs its reader's workload; test_tutorial.py runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    sweeps = {
        page: tomllib.loads(text)
        for page, language, file, text in blocks
        if language == "toml" and not file and ("[[grid]]" in text or "[[bench]]" in text)
    }
    assert sweeps.keys() >= {"README.md", "docs/audit.md", "docs/bench.md", "docs/sweep-file.md"}
    for page, content in sweeps.items():
        plan = make_plan(*read_sweep(content, "page"), None)
        assert plan.tasks, page


def test_numbers_names_files_and_functions_that_are_there(pages: Pages, root: Path) -> None:
    text = pages["docs/numbers.md"]
    files = re.findall(r"`((?:harness|db)/[\w/.]+\.(?:py|sql))`", text)
    assert len(files) > 15
    assert not [file for file in files if not (root / file).is_file()]
    for name, file in re.findall(r"`(\w+)`\s+in\s+`((?:harness|db)/[\w/.]+)`", text):
        assert re.search(rf"(def|view) {name}\b", (root / file).read_text()), (name, file)


def test_the_page_of_published_numbers_says_what_the_command_does(pages: Pages) -> None:
    row = re.compile(r"^\| [a-z-]+ \| `(\S+)` \| .* \| (\d+) \| (\d+) \| \d+ \|$", re.MULTILINE)
    done = CliRunner().invoke(app.app, ["list", "published", "--json"])
    listed = [(each["name"], str(each["lines"]), str(each["runnable"])) for each in json.loads(done.output)]
    assert row.findall(pages["docs/reproduce.md"]) == listed


def test_the_picture_is_small_enough_for_a_readme(root: Path) -> None:
    picture = (root / "docs/img/frontier.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 200_000


@pytest.mark.data
@pytest.mark.skipif(not os.environ.get("PRIVBENCH_DATA"), reason="$PRIVBENCH_DATA is not set")
def test_the_arrays_of_the_page_on_data_are_there(blocks: Blocks) -> None:
    (code,) = [text for page, language, _, text in blocks if (page, language) == ("docs/data.md", "python")]
    names: dict[str, Any] = {}
    exec(compile(code, "docs/data.md", "exec"), names)
    assert names["arrays"]["train_x"].shape == (50_000, 3, 32, 32)
