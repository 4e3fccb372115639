"""docs/audit-a-model.md: its Python runs in one go, and its tables name what there is."""

import re
from pathlib import Path
from typing import Any

import pytest

from harness.audit.given import NAMES, SHADOWS
from harness.audit.leakage_audit import AttackFigures, LeakageAudit, WorstRecord
from harness.audit.limits import FIGURES
from harness.audit.measurement import ATTACKS, QUERYING
from tests.docs.conftest import write_outputs

PAGE = "docs/audit-a-model.md"
Blocks = list[tuple[str, str, str, str]]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_recipes_run(
    blocks: Blocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_outputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for page, language, note, text in blocks:
        if (page, language, note) == (PAGE, "python", ""):
            exec(compile(text, page, "exec"), names)
    assert (tmp_path / "audit/audit.pdf").is_file()
    assert names["found"].ledger.guarantee.epsilon < 20
    assert "white-box" in {each.attack for each in names["found"].attacks}
    printed = capsys.readouterr().out
    assert "no attack can find more than" in printed
    assert (names["scores"]["test_leakage"] < -0.6).all()


def test_every_name_of_the_program_is_on_the_page(pages: dict[str, str]) -> None:
    words = set(re.findall(r"`(\w[\w-]*)`", pages[PAGE]))
    fields = {*LeakageAudit.model_fields, *AttackFigures.model_fields} - {"metrics"}
    assert fields <= words
    assert {*ATTACKS, *QUERYING, *FIGURES, *NAMES} <= words
    assert {f"shadow_{name}" for name in ("logits", "probabilities", "losses")} <= {*SHADOWS} & words
    assert {"record", "id", "label", "fpr"} <= WorstRecord.model_fields.keys() & words
