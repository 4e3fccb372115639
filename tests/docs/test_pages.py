"""What the pages say is so: links, commands, columns, the sweep file."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.main import get_command

import db
from harness.cli import app
from harness.plan.plan import make_plan
from harness.plan.sweep_file import read_sweep

Pages = dict[str, str]
Blocks = list[tuple[str, str, str, str]]

PLACEHOLDERS = re.compile(r"<\w+>|\bFILE\b|\bNAME\b|\bKEY\b|\bDIR\b")
EXAMPLES = {"METHOD": "sgd", "N": "8", "E": "1", "dp-gd": "dp-sgd"}
"""Words of a synopsis, and methods of a guide, with what may stand for them."""
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
    """Parse as the program would, without running anything; raises where it would complain."""
    command: Any = get_command(app.app)
    arguments = [EXAMPLES.get(each, each) for each in arguments]
    name = "privbench"
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(command.context_class(command), arguments)
    command.make_context(name, arguments)


def table_after(page: str, heading: str) -> list[tuple[str, str]]:
    """(first column without backticks, second column) of the first table after a heading."""
    section = page.split(f"\n{heading}\n", 1)[1]
    rows = re.search(r"^\|---.*\n((?:\|.*\n)+)", section, re.MULTILINE)
    assert rows, f"no table after {heading}"
    cells = [line.strip("|").split("|", 1) for line in rows[1].splitlines()]
    return [(first.strip().strip("`"), second.strip()) for first, second in cells]


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


def test_every_command_in_the_pages_parses(pages: Pages, blocks: Blocks) -> None:
    found = commands(pages, blocks)
    assert {page for page, _ in found} >= {"README.md", *GUIDES}
    program: Any = get_command(app.app)
    words = {*program.commands, *(word for each in program.params for word in each.opts)}
    for page, arguments in found:
        if len(arguments) == 1:  # named in passing, with nothing to parse
            assert arguments[0] in words, (page, arguments)
            continue
        parse([PLACEHOLDERS.sub("word", each) for each in arguments])


def test_a_wrong_command_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse(["run", "--no-such-option"])


def test_the_readme_lists_exactly_the_commands_there_are(pages: Pages) -> None:
    listed = [first.removeprefix("privbench ") for first, _ in table_after(pages["README.md"], "## Commands")]
    assert sorted(listed) == sorted(get_command(app.app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "view",
    ["frontier", "audit", "attribute", "reconstruction", "overhead", "bench", "reproduction", "failures"],
)
def test_the_readme_documents_every_column_in_order(view: str, pages: Pages, tmp_path: Path) -> None:
    engine = db.open_database(tmp_path / "empty.duckdb")
    try:
        with engine.connect() as connection:
            columns = list(connection.execute(sa.text(f"select * from {view}")).keys())
    finally:
        engine.dispose()
    table = table_after(pages["README.md"], f"### `{view}`")
    assert [column for column, _ in table] == columns
    assert all(meaning for _, meaning in table)


def test_the_readme_names_every_view_and_table(pages: Pages) -> None:
    names = {*db.view_names(), *db.Base.metadata.tables} - {"privbench_schema"}
    assert not [name for name in names if f"`{name}`" not in pages["README.md"]]


@pytest.mark.slow
def test_the_sweep_of_the_readme_plans_as_it_says(
    blocks: Blocks, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    (text,) = [text for page, language, _, text in blocks if page == "README.md" and language == "toml"]
    plan = make_plan(*read_sweep(tomllib.loads(text), "readme"), None)
    methods = [cell.method.name for cell in plan.cells]
    assert (methods.count("sgd"), methods.count("dp-sgd")) == (2, 6)
    assert len(plan.tasks) == 8 * (8 + 6), "the declared attacks and the blind check run unasked"


def test_numbers_names_files_and_functions_that_are_there(pages: Pages, root: Path) -> None:
    text = pages["docs/numbers.md"]
    files = re.findall(r"`((?:harness|db)/[\w/.]+\.(?:py|sql))`", text)
    assert len(files) > 15
    assert not [file for file in files if not (root / file).is_file()]
    for name, file in re.findall(r"`(\w+)`\s+in\s+`((?:harness|db)/[\w/.]+)`", text):
        assert re.search(rf"(def|view) {name}\b", (root / file).read_text()), (name, file)


def test_the_picture_is_small_enough_for_a_readme(root: Path) -> None:
    picture = (root / "docs/img/frontier.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 200_000
