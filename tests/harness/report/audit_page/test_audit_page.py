"""The page says what the result says, as text and in figures; names never become markup."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from harness.audit.door import audit
from harness.audit.leakage_audit import LeakageAudit
from harness.report.audit_page import write_audit_page
from harness.report.audit_page.plots import distinct
from harness.report.audit_page.sheets import LOWEST, WIDTH, lines_of
from harness.report.audit_page.statements import REFERENCES, attack_rows, facts, verdict, worst_table
from tests.harness.audit.conftest import simulate

ROOT = Path(__file__).resolve().parents[4]
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        assert all(
            value is None or not value.startswith("http") for name, value in attrs if name in ("src", "href")
        )

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def sound() -> LeakageAudit:
    members, others = simulate(1000, 1000, shadows=3)
    history = {"ledger": type("Accountant", (), {"history": [(1.1, 0.05, 40)]})()}
    return audit(members=members, others=others, fail_above=["auc=0.55"], **history)


def parsed(folder: Path, found: LeakageAudit) -> Tags:
    write_audit_page(found, folder)
    page = Tags()
    page.feed((folder / "audit.html").read_text(encoding="utf-8"))
    return page


def test_every_part_is_on_the_page(sound: LeakageAudit, tmp_path: Path) -> None:
    page = parsed(tmp_path, sound)
    shown = " ".join(page.text.split())
    stated = [sound.question, sound.condition, sound.target, *sound.shows_not, sound.split.message]
    stated += [cell for row in attack_rows(sound) for cell in row]
    stated += [each.name for each in REFERENCES]
    for text in stated:
        assert text.replace("`", "") in shown
    assert sound.meaning.replace("`", "") in shown
    assert page.names.count("img") == 2
    assert "script" not in page.names
    content = json.loads((tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert LeakageAudit.model_validate(content).model_dump() == sound.model_dump()


def test_names_are_text(sound: LeakageAudit, tmp_path: Path) -> None:
    worst = [each.model_copy(update={"id": HOSTILE}) for each in sound.worst]
    hostile = sound.model_copy(
        update={"target": HOSTILE, "worst": worst, "warnings": [HOSTILE], "provenance": {"host": HOSTILE}}
    )
    page = parsed(tmp_path, hostile)
    assert set(page.names) == set(parsed(tmp_path / "plain", sound).names)
    assert page.text.count("alert(1)</script>") >= len(worst)


def test_a_broken_split_comes_before_every_figure(sound: LeakageAudit, tmp_path: Path) -> None:
    members, others = simulate()
    broken = audit(members=members, others={**others, "features": others["features"] + 1})
    assert verdict(broken).tone == "alarm"
    assert verdict(broken).head.startswith("Void")
    page = parsed(tmp_path, broken)
    assert page.text.index("Void") < page.text.index("Data")
    assert not any(each.name in page.text for each in REFERENCES[1:])
    assert verdict(sound).head == "A limit is exceeded"
    assert verdict(sound.model_copy(update={"limits": ()})).tone == "plain"


@pytest.mark.skipif(shutil.which("pdfinfo") is None, reason="needs pdfinfo")
def test_the_pdf_has_two_sheets_with_the_same_figures(sound: LeakageAudit, tmp_path: Path) -> None:
    many = sound.model_copy(
        update={"warnings": ["a warning that takes a line or two of the sheet " * 4] * 30}
    )
    for found, folder in ((sound, tmp_path / "few"), (many, tmp_path / "many")):
        write_audit_page(found, folder)
        about = subprocess.run(["pdfinfo", folder / "audit.pdf"], capture_output=True, text=True, check=True)
        assert re.search(r"Pages: +2\n", about.stdout)
        text = subprocess.run(
            ["pdftotext", "-layout", folder / "audit.pdf", "-"], capture_output=True, text=True, check=True
        ).stdout
        for row in attack_rows(found):
            assert all(cell in text for cell in row)
        assert "Signature" in text


def test_equal_results_give_equal_files(
    sound: LeakageAudit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    first, second = (write_audit_page(sound, tmp_path / name) for name in ("first", "second"))
    assert [each.read_bytes() for each in first] == [each.read_bytes() for each in second]


def test_lines_are_within_the_sheet() -> None:
    text = "members and others differ by 12.5 % of their labels " * 8
    lines = lines_of(text, 3.0, 9, "normal")
    assert max(map(len, lines)) * 0.53 * 9 / 72 <= 3.0
    assert not any(line.startswith("%") for line in lines)
    assert 0 < LOWEST < WIDTH


def test_a_curve_is_drawn_once_and_columns_that_say_nothing_are_left_out(sound: LeakageAudit) -> None:
    assert [each.attack for each in distinct(sound)] == ["loss", "reference", "lira", "rmia"]
    columns, rows = worst_table(sound)
    assert (columns, len(rows)) == (("member", "class", "false alarms"), 10)
    several = sound.model_copy(update={"data": sound.data.model_copy(update={"models": 4})})
    assert worst_table(several)[0][-1] == "found at 1 %"
    assert dict(facts(several))["Models"] == "4, each attacked once"


def test_the_references_are_those_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^(?:dp-)?sgd.* (\d+\.\d) ± .* %\s+(0\.\d+) ± ", text, re.MULTILINE)
    printed = {(float(rate) / 100, float(auc)) for rate, auc in rows}
    assert {(each.tpr, each.auc) for each in REFERENCES if each.name != "guessing"} <= {
        (round(rate, 4), auc) for rate, auc in printed
    }


def test_losses_without_labels_have_a_page(tmp_path: Path) -> None:
    found = audit(members={"losses": np.linspace(0, 1, 61)}, others={"losses": np.linspace(0.2, 1.4, 60)})
    assert "not made" in parsed(tmp_path, found).text
