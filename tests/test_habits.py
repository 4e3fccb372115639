"""The files that a public project is expected to have, and that they agree with the program."""

import re
import shlex
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = {"bug", "new-method", "new-result"}
PIECES = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def load(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def called(job: dict[str, Any]) -> set[str]:
    """The make targets of a job, for every value of its matrix; any other command fails the test."""
    matrix = job.get("strategy", {}).get("matrix", {})
    found = set()
    for values in product(*matrix.values()):
        for step in job["steps"]:
            text = step.get("run", "")
            for name, value in zip(matrix, values, strict=True):
                text = text.replace(f"${{{{ matrix.{name} }}}}", value)
            for line in text.splitlines():
                program, *targets = shlex.split(line)
                assert program == "make", f"{line}: workflows must call make targets only"
                found.update(targets)
    return found


def jobs(workflow: str) -> dict[str, set[str]]:
    """The make targets of each job of a workflow."""
    return {
        name: called(job) for name, job in load(ROOT / f".github/workflows/{workflow}.yml")["jobs"].items()
    }


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_workflows_call_targets_that_exist(file: Path) -> None:
    wanted = set().union(*jobs(file.stem).values())
    assert wanted
    assert not wanted - targets()


def test_every_change_is_checked() -> None:
    assert jobs("checks") == {
        "lint": {"lint"},
        "tests": {"test"},
        "slow-tests": {"test-slow"},
        "wheel": {"wheel"},
        "docs": {"docs"},
    }


def test_slow_targets_run_nightly() -> None:
    assert jobs("nightly") == {
        "daemons": {"test-cluster", "test-docker"},
        "slow-tests": {"test-slow"},
        "campaigns": {"chaos", "mutations", "calibration-check"},
        "dependencies": {"verify-dependencies", "audit-dependencies"},
    }


def test_the_workflows_do_what_the_ci_script_does() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    wanted = set(re.findall(r"^make ([a-z][a-z-]*)", script, re.MULTILINE))
    assert wanted >= {"test", "test-slow", "test-cluster", "test-docker"}
    assert wanted <= set().union(*jobs("checks").values(), *jobs("nightly").values())


def test_tests_run_on_every_python_that_the_package_names() -> None:
    tried = load(ROOT / ".github/workflows/checks.yml")["jobs"]["tests"]["strategy"]["matrix"]["python"]
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r"3\.\d+$", each)]
    assert tried == named
    assert PROJECT["requires-python"] == f">={tried[0]}"


def test_pre_commit_takes_the_pinned_ruff() -> None:
    (ruff,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    pinned = re.search(r"^ruff==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned
    assert ruff["rev"] == f"v{pinned[1]}"
    assert {hook["id"] for hook in ruff["hooks"]} == {"ruff-check", "ruff-format"}


def test_one_version_everywhere() -> None:
    version = PROJECT["version"]
    assert load(ROOT / "CITATION.cff")["version"] == version
    image = tomllib.loads((ROOT / "docker/profile.toml").read_text(encoding="utf-8"))["image"]
    assert image == f"privbench:{version}"
    newest = re.search(r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest
    assert version.partition(".dev")[0] == newest[1]


def test_the_citation_has_what_the_format_requires() -> None:
    citation = load(ROOT / "CITATION.cff")
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}
    assert citation["license"] == PROJECT["license"]


def test_there_is_a_form_for_each_kind_of_issue() -> None:
    files = {file.stem: load(file) for file in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")}
    assert files.keys() == FORMS | {"config"}
    for name in FORMS:
        form = files[name]
        assert form["name"], name
        assert form["description"], name
        fields = [each for each in form["body"] if each["type"] != "markdown"]
        assert len({each["id"] for each in fields}) == len(fields), name
        assert {each["type"] for each in form["body"]} <= PIECES, name
        assert all(each["attributes"]["label"] for each in fields), name


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".github/PULL_REQUEST_TEMPLATE.md", "[numbers]"),
        ("CODE_OF_CONDUCT.md", "the maintainers"),
        ("SECURITY.md", "the maintainers"),
    ],
)
def test_the_other_documents_exist(file: str, text: str) -> None:
    assert text in (ROOT / file).read_text(encoding="utf-8")


def test_files_that_templates_name_exist() -> None:
    files = [*(ROOT / ".github").rglob("*.md"), *(ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    named = set(re.findall(r"\b(?:[\w-]+/)*[\w-]+\.md\b", text))
    assert named >= {"SECURITY.md", "docs/add-a-method.md"}
    assert not [each for each in named if not (ROOT / each).is_file()]
