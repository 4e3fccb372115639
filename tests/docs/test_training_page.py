"""docs/audit-a-training.md as a reader follows it: the script, the command, and Python, with fewer models."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

Blocks = list[tuple[str, str, str, str]]
PAGE = "docs/audit-a-training.md"


@pytest.mark.slow
def test_its_script_is_audited_by_the_command_and_from_python(blocks: Blocks, tmp_path: Path) -> None:
    own = [(language, note, text) for page, language, note, text in blocks if page == PAGE]
    files = {note: text for language, note, text in own if language == "python"}
    assert files.keys() == {"train.py", "audit_it.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("models=4", "models=2"))
    lines = [text for language, note, text in own if language == "sh" and not note.startswith("needs-")]
    assert len(lines) == 1
    words = shlex.split(lines[0])[1:]
    words[words.index("--models") + 1] = "2"
    command = [sys.executable, "-P", "-m", "harness.cli", *words, "--store", "first-store"]
    for each in (command, [sys.executable, "audit_it.py"]):
        done = subprocess.run(each, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Of 100 members" in done.stdout
    assert (tmp_path / "audit/audit.json").is_file()
    assert len(list((tmp_path / "first-store/given").glob("train-*"))) == 1
